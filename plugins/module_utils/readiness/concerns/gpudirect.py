# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How GPU memory gets to the HCA: dma-buf, nvidia_peermem, or through host memory, which is slow and says no error."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.gpudirect import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _peermem, _rails
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._gpudirect_path import (
    DMABUF,
    HOST,
    PEERMEM,
    dmabuf,
    resolve,
    since,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    infiniband,
    kernel_log,
    nvidia_module,
    peermem,
    verbs,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.kernels import GIN_KERNEL

# What the driver says when it refuses a dma-buf for the topology: errno 524 on the other side (facts 3.9).
_REFUSED = re.compile(r"topology not supported for (?:dma-buf|mapping type FORCE_PCIE)")


def collect(node: Node) -> dict[str, Any]:
    """``{"driver", "kernel", "verbs", "peermem", "options", "refused", "path", "capable", "reason"}``.

    ``path``: dmabuf, peermem, none or Unknown, for the rails as they are found; ``capable``: both of them by name.
    """
    devices = infiniband.devices(node)
    asked: Any = Unknown("this node has no RDMA device, see rdma.stack", infiniband.CLASS)
    if isinstance(devices, Unknown):
        asked = devices
    elif devices:
        asked = verbs.ask(node)
    facts: dict[str, Any] = {
        "driver": nvidia_module.loaded(node),
        "kernel": node.kernel(),
        "page_size": node.page_size(),
        "verbs": asked,
        "peermem": peermem.collect(node),
        "options": nvidia_module.parameters(node),
        "refused": _refused(node),
    }
    found = _rails.rails({"devices": devices}, [])
    facts["capable"] = {DMABUF: dmabuf(facts, found)[0], PEERMEM: facts["peermem"]["bound"]}
    facts["path"], facts["reason"] = resolve(facts, found, "auto")
    return facts


def _refused(node: Node) -> list[str]:
    log = kernel_log.read(node)
    return [] if isinstance(log, Unknown) else log.matching(_REFUSED)[-3:]


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for dmabuf, peermem, gin and path."""
    findings = Findings("gpudirect", CHECKS)
    rdma = facts["rdma"]
    needed = _rails.answer_need(findings, rdma, require)
    if isinstance(needed, Unknown):
        return findings.checks()
    if needed.level == _rails.NONE:
        _gin(findings, facts["gpudirect"], Unknown(needed.why), require, needed)
        return findings.checks()
    found = _rails.rails(rdma, require["rdma_hcas"])
    gpudirect = facts["gpudirect"]
    _dmabuf(findings, gpudirect, found, require, needed)
    _peermem.answer(findings, gpudirect, found, require, needed, rdma["stack"])
    _gin(findings, gpudirect, found, require, needed)
    _path(findings, gpudirect, found, require, needed)
    return needed.settle(findings.checks())


def _dmabuf(
    findings: Findings, facts: dict[str, Any], found: Any, require: dict[str, Any], needed: _rails.Need
) -> None:
    answer, why, evidence = dmabuf(facts, found)
    required = "open kernel modules, and every rail takes a dma-buf"
    asked = require["gpudirect_path"]
    observed = {
        "capable": answer,
        "flavour": facts["driver"]["flavour"],
        "kernel": facts["kernel"],
        "rails": {
            rail.name: facts["verbs"].get(rail.device, {}).get("answer")
            for rail in (found.rails if isinstance(found, _rails.Rails) else [])
            if isinstance(facts["verbs"], dict)
        },
    }
    held = facts["peermem"]["bound"] is True
    if asked in ("peermem", "none") or (asked == "auto" and held and answer != verbs.CAPABLE):
        instead = "peermem is bound and is the path" if asked == "auto" else f"the contract asks for {asked}"
        findings.not_applicable("dmabuf", f"{instead}; dma-buf: {why}", observed=observed)
    elif answer == verbs.CAPABLE and facts["refused"]:
        findings.warned(
            "dmabuf",
            "The driver refused a dma-buf in this boot because of the PCI topology (errno 524, ENOTSUPP, at the HCA).",
            observed=observed,
            required=required,
            evidence=[Evidence("kernel log", line) for line in facts["refused"]],
            remedy=Remedy(
                "In this order: bring the sibling rail up or correct the list of HCAs; set NCCL_IB_DATA_DIRECT=0 and "
                "UCX_IB_DIRECT_NIC=n; only then NCCL_DMABUF_ENABLE=0, with nvidia_peermem bound on every "
                "node of the job."
            ),
        )
    elif answer == verbs.CAPABLE:
        findings.passed("dmabuf", why, observed=observed, required=required, evidence=evidence)
    elif answer == verbs.NOT_CAPABLE:
        # In auto peermem may serve instead: whether anything serves, gpudirect.path says.
        bad = needed.bad(findings) if asked == "dmabuf" else findings.warned
        bad("dmabuf", why, observed=observed, required=required, evidence=evidence)
    else:
        remedy = None
        if "libibverbs" in why:
            remedy = Remedy("Install the host's libibverbs (rdma-core 34 or later), so that the HCAs can be asked.")
        findings.unknown("dmabuf", why, observed=observed, required=required, evidence=evidence, remedy=remedy)


def _gin(findings: Findings, facts: dict[str, Any], found: Any, require: dict[str, Any], needed: _rails.Need) -> None:
    if not require["gpudirect_gin"]:
        findings.not_applicable("gin", "the plan does not use deepep_v2 (gpudirect_gin)")
        return
    required = "dma-buf on kernel 6.1 or later, or peermem; rails not isolated"
    if needed.level != _rails.REQUIRED:
        findings.failed(
            "gin",
            "The plan uses deepep_v2, which needs RDMA, and the contract says "
            f"`interconnect: {require['interconnect']}`.",
            observed=require["interconnect"],
            required="interconnect: rdma",
            remedy=Remedy("Choose flashinfer_nvlink_one_sided or allgather_reducescatter, or correct `interconnect`."),
        )
        return
    if require["rail_isolated"]:
        findings.failed(
            "gin",
            "The rails are declared isolated (NCCL_CROSS_NIC=0), which turns GPU-initiated networking off, and vLLM "
            "then refuses deepep_v2.",
            observed={"rail_isolated": True},
            required=required,
            remedy=Remedy("Choose allgather_reducescatter instead of deepep_v2 on networks whose rails are isolated."),
        )
        return
    answer = dmabuf(facts, found)[0]
    bound, new = facts["peermem"]["bound"], since(facts["kernel"], GIN_KERNEL)
    observed = {"dmabuf": answer, "kernel": facts["kernel"], "peermem": bound}
    evidence = [
        Evidence("/proc/sys/kernel/osrelease", facts["kernel"]),
        Evidence(facts["peermem"]["proof"], str(bound)),
    ]
    if bound is True or (answer == verbs.CAPABLE and new is True):
        _gin_degrees(findings, facts, found, observed, required)
    elif isinstance(bound, Unknown) or (answer == verbs.UNKNOWN and new is not False) or new is None:
        why = bound.reason if isinstance(bound, Unknown) else dmabuf(facts, found)[1]
        findings.unknown("gin", f"whether dma-buf or peermem serves it is not known: {why}", observed, required)
    else:
        findings.failed(
            "gin",
            f"deepep_v2 needs dma-buf on kernel 6.1 or later, or peermem: this kernel is {facts['kernel']}, dma-buf is "
            f"{answer}, and peermem is not bound.",
            observed=observed,
            required=required,
            evidence=evidence,
            remedy=Remedy("Bind nvidia_peermem (see gpudirect.peermem), or boot a kernel from 6.1 on.", "reboot"),
        )


def _gin_degrees(findings: Findings, facts: dict[str, Any], found: Any, observed: Any, required: str) -> None:
    """It works; whether the GPU drives the HCA itself, or the CPU does it for it."""
    options = facts["options"]
    if not isinstance(options, dict):
        why = options.reason if isinstance(options, Unknown) else "/proc/driver/nvidia/params does not exist"
        findings.unknown("gin", f"whether the direct path is switched on cannot be read: {why}", observed, required)
        return
    dwords = options.get("RegistryDwords", "")
    off = [name for name, on in (
        ("EnableStreamMemOPs", options.get("EnableStreamMemOPs") == "1"),
        ("PeerMappingOverride", re.search(r"\bPeerMappingOverride=(?:1|0x1)\b", dwords) is not None),
    ) if not on]  # fmt: skip
    cards = [str(rail.of["bdf"]).rsplit(".", 1)[0] for rail in found.rails if rail.of["bdf"]]
    dual = sorted({card for card in cards if cards.count(card) > 1})
    observed = {**observed, "off": off, "dual_port": dual}
    if off:
        findings.warned(
            "gin",
            f"GPU-initiated networking works only through the CPU: {' and '.join(off)} not set for the nvidia module.",
            observed=observed,
            required=required,
            evidence=Evidence(
                "/proc/driver/nvidia/params",
                f"EnableStreamMemOPs: {options.get('EnableStreamMemOPs')}, RegistryDwords: {dwords}",
            ),
            remedy=Remedy(
                'Set `options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="PeerMappingOverride=1;"` in '
                "/etc/modprobe.d, rebuild the initramfs and reboot.",
                "reboot",
            ),
        )
    elif dual:
        findings.warned(
            "gin",
            f"Rails share dual-port adapters ({', '.join(dual)}): without NCCL_IB_MERGE_NICS=0 NCCL merges them and "
            "GIN falls back to the CPU.",
            observed=observed,
            required=required,
            evidence=Evidence(infiniband.CLASS, " ".join(rail.name for rail in found.rails)),
            remedy=Remedy("Set NCCL_IB_MERGE_NICS=0 in the plan."),
        )
    else:
        findings.passed(
            "gin",
            "GPU-initiated networking is possible, and the options of the direct path are set.",
            observed=observed,
            required=required,
            evidence=Evidence("/proc/driver/nvidia/params", f"EnableStreamMemOPs: 1, RegistryDwords: {dwords}"),
        )


def _path(findings: Findings, facts: dict[str, Any], found: Any, require: dict[str, Any], needed: _rails.Need) -> None:
    asked = require["gpudirect_path"]
    path, why = resolve(facts, found, asked)
    observed = {
        "path": path,
        "capable": {DMABUF: dmabuf(facts, found)[0], PEERMEM: facts["peermem"]["bound"]},
    }
    required = "dmabuf, else peermem" if asked == "auto" else asked
    evidence = [
        Evidence(verbs.SOURCE, why),
        Evidence(facts["peermem"]["proof"], f"peermem: {facts['peermem']['bound']}"),
    ]
    if asked == HOST:
        findings.passed("path", "The plan goes through host memory by choice.", observed=observed, required=required)
    elif isinstance(path, Unknown):
        findings.unknown("path", path, observed=observed, required=required)
    elif path == HOST:
        needed.bad(findings)(
            "path",
            f"GPU memory reaches the HCA only through host memory, which is slow and says no error: {why}",
            observed=observed,
            required=required,
            evidence=evidence,
        )
    else:
        findings.passed("path", why, observed=observed, required=required, evidence=evidence)
