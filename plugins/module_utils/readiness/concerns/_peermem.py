# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The answer of gpudirect.peermem: needed or not, bound or not, and the cure of each cause (C24, C25)."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _rails
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._gpudirect_path import (
    DMABUF,
    PEERMEM,
    dmabuf,
    since,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import peermem, rdma_stack, verbs
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.kernels import GIN_KERNEL

OFED_NOT_ACTIVE = "ofed_not_active_for_kernel"
LEGACY = "peermem_legacy_module"

# Cause -> (what happened, cure, how disruptive). The order is always vendor stack first, then the driver's modules.
CAUSES = {
    peermem.ABI_MISMATCH: (
        "nvidia_peermem was built against another ib_core than the one that runs",
        (
            "Drain the node and rebuild the NVIDIA modules against the installed OFED (dkms build and install with "
            "--force, or reinstall the driver), then load nvidia_peermem."
        ),
        "drain",
    ),
    peermem.DRIVER_MISMATCH: (
        "nvidia_peermem was built against another nvidia module than the one that is loaded",
        "Drain the node and reboot it, so that both modules come from the driver on disk.",
        "reboot",
    ),
    peermem.BUILT_WITHOUT: (
        "nvidia_peermem was built without the peer-memory symbols of OFED, so its load ends with `Invalid argument`",
        (
            "Install DOCA-OFED first, then rebuild the NVIDIA modules (dkms build and install with --force) on the "
            "drained node; where the kernel's own RDMA stack is meant, use dma-buf."
        ),
        "drain",
    ),
    peermem.NO_INTERFACE: (
        "the running ib_core has no peer-memory interface (the kernel's own RDMA stack)",
        "Use dma-buf (open kernel modules), or install DOCA-OFED and rebuild the NVIDIA modules after it.",
        "reboot",
    ),
    OFED_NOT_ACTIVE: (
        "OFED is installed but the running ib_core is the kernel's own, which has no peer-memory interface",
        "Rebuild OFED for the running kernel and reboot, then rebuild the NVIDIA modules; or use dma-buf.",
        "reboot",
    ),
    peermem.KEY_REJECTED: (
        "the kernel rejected the signature of nvidia_peermem",
        "Sign the module with an enrolled key, or install the driver from signed packages.",
        "reboot",
    ),
    peermem.NOT_ON_DISK: (
        "no nvidia_peermem is on disk for the running kernel",
        "Install the headers of the running kernel and build the driver's modules for it.",
        "none",
    ),
    peermem.NOT_LOADED: (
        "nvidia_peermem fits this ib_core and is not loaded",
        "Load nvidia_peermem, at boot too (a file in /etc/modules-load.d, and again after openibd restarts).",
        "none",
    ),
    LEGACY: (
        "the legacy module nv_peer_mem is loaded, which conflicts with nvidia_peermem",
        "Uninstall nv_peer_mem and reboot the drained node, then load nvidia_peermem.",
        "reboot",
    ),
}


def why_needed(facts: dict[str, Any], found: Any, require: dict[str, Any]) -> str | Unknown | None:
    """Why the plan needs peermem; None where it does not; Unknown where that hangs on what could not be read."""
    asked = require["gpudirect_path"]
    if asked == PEERMEM:
        return "the contract asks for it (gpudirect_path: peermem)"
    if require["gpudirect_gin"] and not require["rail_isolated"]:
        new = since(facts["kernel"], GIN_KERNEL)
        if new is False:
            return f"deepep_v2 needs it on kernels before 6.1, and this one is {facts['kernel']}"
        if new is None:
            return Unknown("whether deepep_v2 needs peermem hangs on the kernel's version, which cannot be read")
    if asked in (DMABUF, "none"):
        return None
    answer, why, _evidence = dmabuf(facts, found)
    if answer == verbs.NOT_CAPABLE:
        return f"dma-buf is not possible: {why}"
    return None if answer == verbs.CAPABLE else Unknown(f"whether peermem is needed hangs on dma-buf: {why}")


def answer(
    findings: Findings,
    facts: dict[str, Any],
    found: Any,
    require: dict[str, Any],
    needed: _rails.Need,
    stack: dict[str, Any],
) -> None:
    """Answers gpudirect.peermem."""
    state = facts["peermem"]
    why = why_needed(facts, found, require)
    required = None if why is None else "nvidia_peermem bound to ib_core"
    observed: dict[str, Any] = {"bound": state["bound"], "loaded": state["loaded"], "at_boot": state["at_boot"]}
    if state["legacy"] is True:
        # Also beside a bound nvidia_peermem: which of the two serves is chance.
        bad = needed.bad(findings) if why is not None and state["bound"] is not True else findings.warned
        _say(bad, state, LEGACY, "nv_peer_mem in /proc/modules", observed, required, why)
    elif state["bound"] is True:
        boot = f"; {state['at_boot']} loads it at boot" if state["at_boot"] else "; no modules-load.d file names it"
        findings.passed(
            "peermem",
            f"nvidia_peermem is bound to ib_core{boot}.",
            observed=observed,
            required=required,
            evidence=Evidence(state["proof"], "nvidia_peermem"),
        )
    elif isinstance(state["bound"], Unknown) and why is not None:
        findings.unknown("peermem", state["bound"], observed=observed, required=required)
    elif why is None:
        cause, line = _cause(state, stack)
        instead = "dma-buf serves" if require["gpudirect_path"] != "none" else "the plan goes through host memory"
        told = f"unsupported here, not failed ({cause}: {line})" if cause else "it is not bound"
        findings.not_applicable("peermem", f"{instead}, so peermem is not needed: {told}", observed=observed)
    elif isinstance(why, Unknown):
        findings.unknown("peermem", why, observed=observed, required=required)
    elif state["ib_core"] is not True:
        reason = state["ib_core"].reason if isinstance(state["ib_core"], Unknown) else "ib_core is not loaded"
        findings.unknown("peermem", f"{reason}, see rdma.stack", observed=observed, required=required)
    elif facts["driver"]["flavour"] is None:
        findings.unknown("peermem", "the NVIDIA driver is not loaded, see driver.loaded", observed, required)
    else:
        cause, line = _cause(state, stack)
        _say(needed.bad(findings), state, cause, line, observed, required, why)


def _cause(state: dict[str, Any], stack: dict[str, Any]) -> tuple[str | None, str]:
    cause, line = peermem.cause(state)
    if cause == peermem.NO_INTERFACE and isinstance(stack["ofed"], str) and stack["kind"] == rdma_stack.INBOX:
        return OFED_NOT_ACTIVE, f"{line}; ofed_info -s: {stack['ofed']}"
    return cause, line


def _say(
    bad: Any,
    state: dict[str, Any],
    cause: str | None,
    line: str,
    observed: dict[str, Any],
    required: str | None,
    why: str | Unknown | None,
) -> None:
    if cause is None:
        what = f"nvidia_peermem is not bound, and why is not known ({line})"
        cure, disruptive = "Look at `dmesg` as root.", "none"
    else:
        what, cure, disruptive = CAUSES[cause]
    name = peermem.file_name(state)
    reason = what[:1].upper() + what[1:]
    bad(
        "peermem",
        f"{reason}; {why}" + ("" if str(why).endswith(".") else ".") if isinstance(why, str) else reason + ".",
        observed={**observed, "cause": cause},
        required=required,
        evidence=Evidence(_source(state, cause), line),
        remedy=Remedy(cure, disruptive, command=f"modprobe {name}" if cause == peermem.NOT_LOADED else None),
    )


def _source(state: dict[str, Any], cause: str | None) -> str:
    log = state["log"]
    if isinstance(log, dict) and log["cause"]:
        return "kernel log"
    return {
        peermem.NO_INTERFACE: "/proc/kallsyms",
        OFED_NOT_ACTIVE: "/proc/kallsyms",
        LEGACY: "/proc/modules",
    }.get(cause or "", "modinfo " + peermem.FILES[0])
