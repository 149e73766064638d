# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The NVLink fabric: the GPUs' registration with it, and the services that a node of this kind needs for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.fabric import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _fabric_imex as imex
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _fabric_manager as manager
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._gpu_tally import SILENT, Tally, named
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    UNKNOWN,
    WARN,
    Check,
    Evidence,
    Findings,
    Remedy,
    Unknown,
    version_tuple,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import fabric_kind, nvidia_smi
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.fabric_kind import HGX, NONE, TRAY

FIELDS = {
    "state": ("fabric/state",),
    "status": ("fabric/status",),
    "clique": ("fabric/cliqueId",),
    "cluster": ("fabric/clusterUuid",),
    "summary": ("fabric/health/summary",),
    "bandwidth": ("fabric/health/bandwidth",),
    "route_recovery": ("fabric/health/route_recovery_in_progress",),
    "route_unhealthy": ("fabric/health/route_unhealthy",),
    "timeout_recovery": ("fabric/health/access_timeout_recovery",),
    "misconfigured": ("fabric/health/incorrect_configuration",),
    "partition_assigned": ("fabric/health/partition_assigned",),
}
ZERO = "00000000-0000-0000-0000-000000000000"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def collect(node: Node) -> dict[str, Any]:
    """``{"kind", "gpus": [{"bdf", FIELDS…}], "domain", "partition", "driver", "uptime_s"}`` and the services' facts.

    ``domain`` is the clusterUuid and ``partition`` the cliqueId (both texts) that all GPUs share: None where the GPUs
    belong to no domain, Unknown where that cannot be told. The services are only read on a node that may need them.
    """
    kind = fabric_kind.collect(node)
    gpus: Any = []
    if kind["kind"] != NONE:
        smi = nvidia_smi.query(node)
        gpus = smi if isinstance(smi, Unknown) else [gpu.row(FIELDS) for gpu in smi.gpus[: nvidia_smi.GPUS_KEPT]]
    cluster = _shared(gpus, "cluster", UUID)
    domain = None if cluster == ZERO or kind["kind"] == NONE else cluster
    partition = domain if not isinstance(domain, str) else _shared(gpus, "clique", re.compile("[0-9]{1,10}"))
    return {
        "kind": kind,
        "gpus": gpus,
        "domain": domain,
        "partition": partition,
        "driver": _driver(node),
        "uptime_s": _uptime(node),
        **manager.collect(node, kind),
        **imex.collect(node, kind),
    }


def _shared(gpus: Any, name: str, form: re.Pattern[str]) -> str | Unknown:
    """The value all GPUs have in common."""
    if isinstance(gpus, Unknown):
        return gpus
    values = {(gpu[name] or "").lower() for gpu in gpus}
    if len(values) > 1:
        return Unknown(f"the GPUs tell different values of {name}", nvidia_smi.SOURCE)
    value = next(iter(values), "")
    if not form.fullmatch(value):
        return Unknown(f"nvidia-smi tells no {name}", nvidia_smi.SOURCE)
    return value


def _driver(node: Node) -> str | Unknown | None:
    """The version of the loaded module; None where none is loaded."""
    told = node.value("/sys/module/nvidia/version")
    if isinstance(told, str) and version_tuple(told) is None:
        return Unknown(f"/sys/module/nvidia/version holds no version: {told[:40]!r}", "/sys/module/nvidia/version")
    return told


def _uptime(node: Node) -> float | Unknown:
    text = node.value("/proc/uptime")
    match = re.match(r"[0-9]{1,12}(\.[0-9]{1,3})?", text) if isinstance(text, str) else None
    return float(match.group()) if match else Unknown("/proc/uptime cannot be read", "/proc/uptime")


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for every check of the table."""
    findings = Findings("fabric", CHECKS)
    fabric = facts["fabric"]
    manager.assess_manager(findings, fabric)
    manager.assess_nvlsm(findings, fabric)
    imex.assess_channel(findings, fabric)
    imex.assess_imex(findings, fabric)
    kind = fabric["kind"]["kind"]
    if kind == NONE:
        # On a node without a switch all three questions fall away (superchips and PCIe cards, C16).
        without = f"this product has no NVLink switch ({fabric['kind']['evidence']})"
        findings.not_applicable("state", without)
        _without_domain(findings, require, without)
        return findings.checks()
    gpus = fabric["gpus"]
    why = kind if isinstance(kind, Unknown) else None
    if isinstance(gpus, Unknown):
        why = Unknown(f"the driver does not answer: {gpus.reason}", nvidia_smi.SOURCE)
    elif not gpus:
        why = Unknown("nvidia-smi lists no GPU", nvidia_smi.SOURCE)
    if why is not None:
        for name in ("state", "domain", "partition"):
            findings.unknown(name, why)
        return findings.checks()
    _assess_state(findings, fabric, require)
    _assess_domain(findings, fabric, require)
    return findings.checks()


def _assess_state(findings: Findings, fabric: dict[str, Any], require: dict[str, Any]) -> None:
    tally = Tally()
    uptime = fabric["uptime_s"]
    young = not isinstance(uptime, Unknown) and uptime < require["fabric_registration_s"]
    for gpu in fabric["gpus"]:
        bdf, state, status = gpu["bdf"], gpu["state"], gpu["status"]
        line = f"{bdf}: state {state}, status {status}"
        if state in SILENT:
            tally.add(UNKNOWN, bdf, "its fabric state is not told, although this product has a fabric", line)
        elif state == "In Progress" and young:
            text = (
                f"it still registers with the fabric; the node booted {uptime:.0f} s ago, and this may take "
                f"{require['fabric_registration_s']} s: probe again"
            )
            again = Remedy("Probe again in a few minutes; where the state stays In Progress, see to fabric.manager.")
            tally.add(FAIL, bdf, text, line, again)
        elif state == "In Progress":
            text = "its registration with the fabric is In Progress and does not end (CUDA then answers error 802)"
            tally.add(FAIL, bdf, text, line)
        elif state != "Completed":
            tally.add(FAIL, bdf, f"its fabric state is {state}", line)
        elif status in SILENT:
            tally.add(UNKNOWN, bdf, "its fabric state is Completed, but the status is not told", line)
        elif status != "Success":
            tally.add(FAIL, bdf, f"its fabric state is Completed with status {status}", line)
        _judge_health(tally, gpu)
    observed = {
        "state": sorted({f"{gpu['state']}/{gpu['status']}" for gpu in fabric["gpus"]}),
        "health": sorted({str(gpu["summary"]) for gpu in fabric["gpus"]}),
    }
    count = len(fabric["gpus"])
    passed = f"All {count} GPUs have registered with the fabric (Completed, Success)."
    tally.answer(findings, "state", passed, observed, "Completed/Success", line=f"{count} times Completed, Success")


def _judge_health(tally: Tally, gpu: dict[str, Any]) -> None:
    """The health mask. N/A is legal: H100 has no health, and not every field is filled elsewhere (facts 5.4)."""
    quiet = (None, "N/A")
    bdf = gpu["bdf"]
    tally.flag(
        bdf,
        "health/summary",
        gpu["summary"],
        ("Healthy", *quiet),
        {
            "Unhealthy": (FAIL, "the fabric's health is Unhealthy", None),
            "Limited Capacity": (WARN, "the fabric's health is Limited Capacity", None),
        },
    )
    degraded = {"Degraded": (WARN, "the fabric's bandwidth is Degraded", None)}
    tally.flag(bdf, "health/bandwidth", gpu["bandwidth"], ("Full", *quiet), degraded)
    for key, status, text in (
        ("route_unhealthy", FAIL, "its routes through the fabric are unhealthy"),
        ("route_recovery", WARN, "its routes through the fabric are being recovered"),
        ("timeout_recovery", WARN, "the fabric recovers from an access timeout"),
    ):
        tally.flag(bdf, f"health/{key}", gpu[key], ("False", *quiet), {"True": (status, text, None)})
    unassigned = {"False": (WARN, "no partition of the fabric is assigned to it", None)}
    tally.flag(bdf, "health/partition_assigned", gpu["partition_assigned"], ("True", *quiet), unassigned)
    wrong = gpu["misconfigured"]
    if wrong not in (*quiet, "None"):
        line = f"{bdf}: health/incorrect_configuration = {wrong}"
        tally.add(FAIL, bdf, f"the fabric is configured wrongly: {wrong}", line)


def _without_domain(findings: Findings, require: dict[str, Any], why: str) -> None:
    for name, key in (("domain", "nvlink_domain"), ("partition", "nvlink_partition")):
        declared = require[key]
        if name == "domain" and require["interconnect"] == "nvlink":
            findings.failed(
                name,
                f"The contract has nodes talk over NVLink (interconnect), but this node belongs to no domain: {why}.",
                observed=None,
                required=declared or "an NVLink domain",
                evidence=Evidence(nvidia_smi.SOURCE),
                remedy=Remedy("Correct `interconnect`: rdma or auto, or none for a node that serves alone."),
            )
        elif declared:
            findings.failed(
                name,
                f"`{key}` declares {declared}, but this node belongs to no NVLink domain: {why}.",
                observed=None,
                required=declared,
                evidence=Evidence(nvidia_smi.SOURCE),
            )
        else:
            findings.not_applicable(name, why)


def _assess_domain(findings: Findings, fabric: dict[str, Any], require: dict[str, Any]) -> None:
    gpus = fabric["gpus"]
    clusters = [gpu["cluster"] for gpu in gpus]
    zero = all(cluster == ZERO for cluster in clusters)
    tray = fabric["kind"]["kind"] == TRAY
    if fabric["kind"]["kind"] == HGX and (zero or all(cluster in SILENT for cluster in clusters)):
        _without_domain(findings, require, "the fabric of this node is its own (clusterUuid is zero)")
        return
    if tray and zero:
        text = "clusterUuid is zero on every GPU: this tray has not joined the NVLink domain of its rack"
        remedy = Remedy("See fabric.state, and to the fabric manager of the rack (on its switch trays).", "drain")
        evidence = Evidence(nvidia_smi.SOURCE, f"clusterUuid {ZERO}")
        findings.failed("domain", text, ZERO, require["nvlink_domain"] or "non-zero", evidence, remedy)
        findings.unknown("partition", "there is no NVLink domain yet")
        return
    _assess_value(findings, "domain", "cluster", "clusterUuid", fabric, require["nvlink_domain"])
    if isinstance(fabric["domain"], Unknown):
        findings.unknown("partition", "the NVLink domain is not known: " + fabric["domain"].reason)
        return
    _assess_value(findings, "partition", "clique", "cliqueId", fabric, require["nvlink_partition"])


def _assess_value(findings: Findings, name: str, key: str, label: str, fabric: dict[str, Any], declared: str) -> None:
    """Equal on all GPUs, and equal to what is declared; 0 is a value like any other."""
    values = _by_value(fabric["gpus"], key)
    shown = sorted(values)
    evidence = Evidence(
        nvidia_smi.SOURCE, "; ".join(f"{label} {value} on {named(bdfs)}" for value, bdfs in values.items())
    )
    found = fabric[name]
    required = declared or "one value on all GPUs"
    if len(values) > 1:
        text = f"The GPUs of this node do not share one {label}: {', '.join(shown[:4])}."
        findings.failed(name, text, shown, required, evidence)
    elif isinstance(found, Unknown):
        findings.unknown(name, found, shown, required, evidence)
    elif declared and declared.lower() != found:
        text = f"`nvlink_{name}` declares {declared}, but the GPUs report {label} {found}."
        findings.failed(name, text, found, required, evidence)
    else:
        findings.passed(name, f"All GPUs report {label} {found}.", found, required, evidence)


def _by_value(gpus: Sequence[dict[str, Any]], key: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for gpu in gpus:
        values.setdefault(str(gpu[key]).lower(), []).append(gpu["bdf"])
    return values
