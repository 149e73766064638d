# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""IMEX of trays of an NVLink rack: the service over which processes of several trays share memory."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.fabric import CHANNEL
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._fabric_versions import (
    ABSENT,
    install,
    installed_versions,
    version_fault,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import processes, systemd
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.fabric_kind import TRAY

IMEX = "nvidia-imex.service"
IMEX_PACKAGE = re.compile(r"nvidia-imex(-[0-9]{3})?")
IMEX_CONFIG = "/etc/nvidia-imex/config.cfg"
IMEX_NODES = "/etc/nvidia-imex/nodes_config.cfg"
# -N: the state of the domain, -j: as JSON. It hangs where IMEX is sick (C34).
IMEX_CTL = ["nvidia-imex-ctl", "-c", IMEX_CONFIG, "-N", "-j"]
IMEX_LIMIT_S = 10.0
PARAMS = "/proc/driver/nvidia/params"
# The daemons of Kubernetes' DRA driver: compute-domain-kubelet-plugin and compute-domain-daemon.
DRA_PREFIX = "compute-domain-"


def collect(node: Node, kind: dict[str, Any]) -> dict[str, Any]:
    """``{"imex": {"unit", "dra", "packages", "nodes_file", "nodes", "status", "channel", "create_channel"}}``.

    None in its place on every node that is no tray.
    """
    return {"imex": _imex(node) if kind["kind"] == TRAY else None}


def _imex(node: Node) -> dict[str, Any]:
    names = processes.names(node)
    unit = systemd.unit(node, IMEX)
    active = not isinstance(unit, Unknown) and unit["ActiveState"] == "active"
    config = node.read(IMEX_CONFIG)
    told = (
        re.search(r"(?m)^\s*IMEX_NODE_CONFIG_FILE\s*=\s*(/\S{1,250})\s*$", config) if isinstance(config, str) else None
    )
    path = told.group(1) if told else IMEX_NODES
    params = node.read(PARAMS)
    created = re.search(r"(?m)^CreateImexChannel0: *([0-9]{1,4})\s*$", params) if isinstance(params, str) else None
    return {
        "unit": unit if isinstance(unit, Unknown) else {key: unit.get(key, "") for key in ("LoadState", "ActiveState")},
        "dra": names if isinstance(names, Unknown) else any(name.startswith(DRA_PREFIX) for name in names),
        "packages": installed_versions(node, IMEX_PACKAGE),
        "nodes_file": path,
        "nodes": _nodes(node.read(path), path),
        "status": _status(node) if active else None,
        "channel": node.exists(CHANNEL),
        "create_channel": created.group(1) if created else None,
    }


def _nodes(text: Any, path: str) -> int | Unknown | None:
    """How many nodes the file names; None where there is no such file."""
    if not isinstance(text, str):
        return text
    names = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    if any(not re.fullmatch(r"[A-Za-z0-9_.:%-]{1,255}", name) for name in names):
        return Unknown(f"{path} holds something else than one node a line", path)
    return len(names)


def _status(node: Node) -> dict[str, Any] | Unknown:
    """``{"domain": UP|DEGRADED|DOWN…, "not_ready": [hosts]}`` or ``{"hung": limit}``."""
    result = node.run(IMEX_CTL, min(IMEX_LIMIT_S, node.timeout))
    if result.error == "timeout":
        return {"hung": result.detail}
    if not result.ok:
        return result.unknown()
    try:
        answer = json.loads(result.stdout)
    except (ValueError, RecursionError):
        # Versions that know no -j answer in words.
        match = re.search(r"Domain State: ([A-Z_]{1,20})", result.stdout)
        if match:
            return {"domain": match.group(1), "not_ready": []}
        return Unknown(f"`{result.source}` did not tell the state of the domain", result.source)
    state = answer.get("status") if isinstance(answer, dict) else None
    members = answer.get("nodes") if isinstance(answer, dict) else None
    if not isinstance(state, str) or not isinstance(members, dict):
        return Unknown(f"`{result.source}` did not tell the state of the domain", result.source)
    away = [
        str(member.get("host"))[:80]
        for member in members.values()
        if isinstance(member, dict) and member.get("status") != "READY"
    ]
    return {"domain": state[:20], "not_ready": away[:18]}


def assess_channel(findings: Findings, fabric: dict[str, Any]) -> None:
    """The device must exist: without it every job over two trays dies at start (facts 3.14)."""
    imex = _tray_only(findings, "imex_channel", fabric)
    if imex is None:
        return
    there, option = imex["channel"], imex["create_channel"]
    evidence = [Evidence(CHANNEL, "exists" if there is True else "does not exist")]
    if option is not None:
        evidence.append(Evidence(PARAMS, f"CreateImexChannel0: {option}"))
    if isinstance(there, Unknown):
        findings.unknown("imex_channel", there, required=CHANNEL)
    elif there:
        findings.passed("imex_channel", f"{CHANNEL} is there.", CHANNEL, CHANNEL, evidence)
    elif imex["dra"] is True:
        text = f"{CHANNEL} is absent on the host; Kubernetes' DRA driver makes one for each job, which was not tried."
        findings.warned("imex_channel", text, None, CHANNEL, evidence, Remedy("Try a job of two trays."))
    else:
        told = f" (the module was loaded with CreateImexChannel0={option})" if option is not None else ""
        findings.failed("imex_channel", f"{CHANNEL} does not exist{told}.", None, CHANNEL, evidence)


def assess_imex(findings: Findings, fabric: dict[str, Any]) -> None:
    """Required on trays whatever the plan: where the fabric holds, NCCL dies on a broken IMEX (facts 3.14)."""
    imex = _tray_only(findings, "imex", fabric)
    if imex is None:
        return
    unit, dra = imex["unit"], imex["dra"]
    active = None if isinstance(unit, Unknown) else unit["ActiveState"] == "active"
    state = unit if isinstance(unit, Unknown) else unit["ActiveState"]
    observed = {"versions": imex["packages"], "state": state, "nodes": imex["nodes"], "domain": imex["status"]}
    required = f"{fabric['driver']}, active, domain UP" if isinstance(fabric["driver"], str) else "active, domain UP"
    evidence = [Evidence(systemd.SOURCE, f"{IMEX} {state if isinstance(state, str) else 'not told'}")]

    def fail(text: str, remedy: Remedy | None = None) -> None:
        findings.failed("imex", text, observed, required, evidence, remedy)

    fault = version_fault("nvidia-imex", imex["packages"], None, fabric["driver"])
    if dra is True and active:
        mask = Remedy("Leave IMEX to one of them.", "drain", f"systemctl mask --now {IMEX}")
        fail("IMEX has two owners: the host's service is active, and Kubernetes' DRA driver runs its own.", mask)
    elif dra is True and active is False:
        text = "Kubernetes' DRA driver starts IMEX with each job; between jobs nothing runs that could be asked."
        findings.warned("imex", text, observed, required, evidence, Remedy("Try a job of two trays."))
    elif fault == ABSENT:
        fail("nvidia-imex is not installed on this tray.")
    elif isinstance(fault, str) and fault:
        fail(fault, install("nvidia-imex", imex["packages"], fabric["driver"], IMEX))
    elif active is False:
        start = Remedy("Start IMEX.", "none", f"systemctl enable --now {IMEX}", **cures.FABRIC)
        fail(f"{IMEX} is not active ({state}).", start)
    elif not isinstance(imex["nodes"], Unknown) and not imex["nodes"]:
        evidence.append(Evidence(imex["nodes_file"], "empty" if imex["nodes"] == 0 else "absent"))
        write = Remedy(
            "Write the addresses of all trays of this NVLink partition into the file, and restart IMEX.",
            "drain",
            **cures.FABRIC,
        )
        fail(f"{imex['nodes_file']} names no node, so IMEX serves no domain.", write)
    else:
        _assess_imex_answer(findings, imex, (fault, unit, dra), observed, required, evidence)


def _assess_imex_answer(
    findings: Findings,
    imex: dict[str, Any],
    reads: Sequence[Any],
    observed: Any,
    required: Any,
    evidence: list[Evidence],
) -> None:
    """What the control tool says of the domain, once everything else is in place."""
    status = imex["status"]
    evidence.append(Evidence(" ".join(IMEX_CTL), str(status)))
    restart = Remedy(
        "Restart IMEX on this tray; where that does not help, reboot it.", "drain", f"systemctl restart {IMEX}"
    )
    if isinstance(status, dict) and "hung" in status:
        text = f"IMEX is active, but its control tool gave no answer within {status['hung']}: it is not ready."
        findings.failed("imex", text, observed, required, evidence, restart)
        return
    unread = next((item for item in (*reads, imex["nodes"], status) if isinstance(item, Unknown)), None)
    if unread is not None or status is None:
        why = "the state of the IMEX domain was not read" if unread is None else unread
        findings.unknown("imex", why, observed, required, evidence)
        return
    away = ", ".join(status["not_ready"][:6])
    if status["domain"] == "UP" and not away:
        text = f"IMEX runs, and its domain of {imex['nodes']} nodes is UP."
        findings.passed("imex", text, observed, required, evidence)
    elif status["domain"] in ("UP", "DEGRADED"):
        look = Remedy("See to IMEX on the nodes that are not ready, and to ports 50000 and 50005 between them.")
        text = f"The IMEX domain is {status['domain']}; not ready: {away or 'not told'}."
        findings.warned("imex", text, observed, required, evidence, look)
    else:
        text = f"The IMEX domain is {status['domain']}{'; not ready: ' + away if away else ''}."
        findings.failed("imex", text, observed, required, evidence, restart)


def _tray_only(findings: Findings, name: str, fabric: dict[str, Any]) -> dict[str, Any] | None:
    """The facts of IMEX on a tray; None where the check has been answered because this is none."""
    kind, imex = fabric["kind"], fabric["imex"]
    if isinstance(kind["kind"], Unknown):
        findings.unknown(name, kind["kind"])
    elif imex is None:
        findings.not_applicable(name, f"only trays of an NVLink rack need it ({kind['evidence']})")
    return imex
