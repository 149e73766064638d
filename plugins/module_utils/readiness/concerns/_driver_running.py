# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The driver at work: it has the GPUs, it is loaded, and it keeps them initialised."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _driver_state
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_module, pci

# What another kernel driver that holds a GPU means. Source: C20; facts 1.32, 5.13.
IN_KERNEL = ("nouveau", "nova_core", "nova", "nova_drm")
FOR_GUESTS = ("vfio-pci", "pci-stub", "xen-pciback")


# ---- bound, loaded -------------------------------------------------------------------------------------------------


def assess_bound(findings: Findings, driver: dict[str, Any], state: _driver_state.State) -> None:
    gpus = driver["gpus"]
    if isinstance(gpus, Unknown):
        findings.unknown("bound", gpus, required="nvidia")
        return
    unread = [gpu["driver"] for gpu in gpus if isinstance(gpu["driver"], Unknown)]
    others = {gpu["bdf"]: gpu["driver"] for gpu in gpus if isinstance(gpu["driver"], str) and gpu["driver"] != "nvidia"}
    nothing = [gpu["bdf"] for gpu in gpus if gpu["driver"] is None]
    observed = {gpu["bdf"]: gpu["driver"] for gpu in gpus}
    log = driver["log"]
    lines = [Evidence(log["source"], log["held"])] if isinstance(log, dict) and log["held"] else []
    if others:
        bdf, holder = sorted(others.items())[0]
        findings.failed(
            "bound",
            f"{holder} holds {len(others)} of {len(gpus)} GPUs ({bdf}), so the NVIDIA driver cannot have them.",
            observed=observed,
            required="nvidia",
            evidence=[Evidence(f"{pci.DEVICES}/{bdf}/driver", holder), *lines],
            remedy=_release(holder),
        )
    elif unread:
        findings.unknown("bound", unread[0], observed=observed, required="nvidia")
    elif nothing and state.loaded is None:
        # The cause is that nothing is loaded or installed; no driver stands in the way here.
        findings.not_applicable(
            "bound", "No driver is bound to the GPUs, because the nvidia module is not loaded.", observed=observed
        )
    elif nothing:
        findings.failed(
            "bound",
            f"The nvidia module is loaded and did not take {len(nothing)} of {len(gpus)} GPUs ({nothing[0]}).",
            observed=observed,
            required="nvidia",
            evidence=[Evidence(f"{pci.DEVICES}/{nothing[0]}", "has no driver"), *lines],
        )
    else:
        findings.passed(
            "bound",
            f"All {len(gpus)} GPUs are bound to nvidia.",
            observed=observed,
            required="nvidia",
            evidence=Evidence(f"{pci.DEVICES}/{gpus[0]['bdf']}/driver", "nvidia"),
        )


def _release(holder: str) -> Remedy:
    if holder in IN_KERNEL:
        return Remedy(
            "Blacklist nouveau, nova, nova_core and nova_drm in /etc/modprobe.d, rebuild the initramfs of all kernels, "
            "then drain and reboot.",
            "reboot",
        )
    if holder in FOR_GUESTS:
        return Remedy(
            "The GPU is reserved for virtual machines: remove its ids from the kernel arguments and /etc/modprobe.d, "
            "then drain and reboot.",
            "reboot",
        )
    return Remedy("Find out what bound that driver to the GPU, remove it, then drain and reboot.", "reboot")


def assess_loaded(findings: Findings, driver: dict[str, Any], state: _driver_state.State) -> None:
    version = state.loaded
    if isinstance(version, Unknown):
        findings.unknown("loaded", version)
        return
    if version is not None:
        findings.passed(
            "loaded",
            f"The nvidia module {version} is loaded.",
            observed=version,
            evidence=Evidence(nvidia_module.PROC_VERSION, driver["loaded"]["line"] or version),
        )
        return
    log = driver["log"]
    said = log["needs_open"] or log["held"] if isinstance(log, dict) else None
    evidence = [Evidence(nvidia_module.SYS_VERSION, "does not exist")]
    # A command that cannot work yet is no cure: what stands in the way comes first.
    remedy = None
    if state.module is None:
        remedy = Remedy("There is no module to load: cure driver.installed first.", "none")
    elif findings.answers["bound"].status == "fail":
        remedy = Remedy("Cure driver.bound first: another driver holds the GPUs.", "reboot")
    elif findings.answers["flavour"].status == "fail":
        remedy = Remedy("Cure driver.flavour first: the module on disk does not drive these GPUs.", "reboot")
    on_disk = f"; {state.module['version']} is on disk" if isinstance(state.module, dict) else ""
    findings.failed(
        "loaded",
        f"The nvidia module is not loaded{on_disk}.",
        evidence=[*evidence, *([Evidence(log["source"], said)] if said else [])],
        remedy=remedy,
    )


# ---- persistence ---------------------------------------------------------------------------------------------------


def assess_persistence(findings: Findings, driver: dict[str, Any], state: _driver_state.State) -> None:
    """Only a warning: the node serves without it, slower to start. Where the driver is broken it is a consequence."""
    required = "nvidia-persistenced active, persistence mode enabled on each GPU"
    if state.loaded is None:
        findings.not_applicable("persistence", "the nvidia module is not loaded")
        return
    unit, modes = driver["persistenced"], driver["smi"]["persistence"]
    active = unit["ActiveState"] if isinstance(unit, dict) else unit
    if driver["tree"]:
        active = "active"  # The driver container runs a daemon of its own, which systemd does not know.
    observed = {
        "nvidia-persistenced": active,
        "modes": sorted({str(mode) for mode in modes}) if isinstance(modes, list) else modes,
    }
    evidence = Evidence("systemctl show nvidia-persistenced.service", f"ActiveState={active}")
    broken = findings.answers["consistent"].status == "fail"
    if broken and active != "active":
        findings.warned(
            "persistence",
            "The persistence daemon does not run, which is a consequence of the mismatch in driver.consistent.",
            observed=observed,
            required=required,
            evidence=evidence,
            remedy=Remedy("Cure driver.consistent first; the daemon starts when the versions agree.", "reboot"),
        )
    elif isinstance(active, Unknown):
        findings.unknown("persistence", active, observed=observed, required=required)
    elif active != "active":
        findings.warned(
            "persistence",
            f"nvidia-persistenced is {active}: GPUs are initialised anew for each program, and settings get lost.",
            observed=observed,
            required=required,
            evidence=evidence,
        )
    elif isinstance(modes, Unknown):
        findings.unknown("persistence", modes, observed=observed, required=required)
    elif not modes or None in modes:
        findings.unknown(
            "persistence",
            "nvidia-smi does not tell the persistence mode of each GPU",
            observed=observed,
            required=required,
        )
    elif any(mode != "Enabled" for mode in modes):
        off = sum(mode != "Enabled" for mode in modes)
        findings.warned(
            "persistence",
            f"Persistence mode is not enabled on {off} of {len(modes)} GPUs, though the daemon runs.",
            observed=observed,
            required=required,
            evidence=Evidence("nvidia-smi -q -x", "persistence_mode"),
            remedy=Remedy(
                "Restart the persistence daemon without --no-persistence-mode.",
                "none",
                command="systemctl restart nvidia-persistenced.service",
            ),
        )
    else:
        findings.passed(
            "persistence",
            "The persistence daemon runs and keeps every GPU initialised.",
            observed=observed,
            required=required,
            evidence=evidence,
        )
