# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPUs: how many, which, whether they are sound, and whether they are set up and free for one engine."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.gpu import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _gpu_presence as presence
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Evidence,
    Findings,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import (
    NVIDIA_VENDOR,
    product,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    kernel_log,
    nvidia_smi,
    pci,
)

# Name in the facts -> where it stands below <gpu>, older spellings last. Source: facts 5.4, captures of 580.
FIELDS: dict[str, tuple[str, ...]] = {
    "name": ("product_name",),
    "recovery_action": ("gpu_recovery_action",),
    "ecc_current": ("ecc_mode/current_ecc",),
    "ecc_pending": ("ecc_mode/pending_ecc",),
    "volatile_dram": ("ecc_errors/volatile/dram_uncorrectable",),
    "volatile_sram_parity": (
        "ecc_errors/volatile/sram_uncorrectable_parity",
        "ecc_errors/volatile/sram_uncorrectable",
    ),
    "volatile_sram_secded": (
        "ecc_errors/volatile/sram_uncorrectable_secded",
        "ecc_errors/volatile/sram_uncorrectable",
    ),
    "aggregate_dram": ("ecc_errors/aggregate/dram_uncorrectable",),
    "sram_threshold": ("ecc_errors/aggregate/sram_threshold_exceeded",),
    "channel_repair": ("ecc_errors/channel_repair_pending",),
    "tpc_repair": ("ecc_errors/tpc_repair_pending",),
    "unrepairable": ("ecc_errors/unrepairable_memory",),
    "remap_pending": ("remapped_rows/remapped_row_pending",),
    "remap_failure": ("remapped_rows/remapped_row_failure",),
    "mig_current": ("mig_mode/current_mig",),
    "mig_pending": ("mig_mode/pending_mig",),
    "compute_mode": ("compute_mode",),
    "width_current": ("pci/pci_gpu_link_info/link_widths/current_link_width",),
    "width_max": ("pci/pci_gpu_link_info/link_widths/max_link_width",),
    "replays": ("pci/replay_counter",),
    "slow_hw": (
        "clocks_event_reasons/clocks_event_reason_hw_slowdown",
        "clocks_throttle_reasons/clocks_throttle_reason_hw_slowdown",
    ),
    "slow_hw_thermal": (
        "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown",
        "clocks_throttle_reasons/clocks_throttle_reason_hw_thermal_slowdown",
    ),
    "slow_power_brake": (
        "clocks_event_reasons/clocks_event_reason_hw_power_brake_slowdown",
        "clocks_throttle_reasons/clocks_throttle_reason_hw_power_brake_slowdown",
    ),
    "slow_sw_thermal": (
        "clocks_event_reasons/clocks_event_reason_sw_thermal_slowdown",
        "clocks_throttle_reasons/clocks_throttle_reason_sw_thermal_slowdown",
    ),
    "gsp": ("gsp_firmware_version",),
    "vbios": ("vbios_version",),
    "memory_total": ("fb_memory_usage/total",),
    "memory_used": ("fb_memory_usage/used",),
}
PROCESSES_KEPT = 16
XIDS_KEPT = 64


def collect(node: Node) -> dict[str, Any]:
    """What the bus, nvidia-smi and the kernel log tell about the GPUs.

    ``{"pci": [{"bdf", "vendor", "device", "product", "driver"}], "smi": {"driver_version", "cuda_version",
    "attached", "blocks", "gpus": [{"bdf", FIELDS…, "processes"}]}, "nvlink": {GPU number: [GB/s]}, "xid": {"source",
    "events"}, "flavour"}``. ``cuda_version`` is the highest CUDA that the driver serves.
    Texts of nvidia-smi are kept as they are: None is an absent element, "N/A" a value that it does not have.
    """
    found = pci.gpus(node)
    if not isinstance(found, Unknown) and not any(device.vendor == NVIDIA_VENDOR for device in found):
        # Nothing to ask: no driver of NVIDIA's serves this machine.
        absent = Unknown("this machine has no NVIDIA GPU")
        return {"pci": _pci(found), "smi": absent, "nvlink": absent, "xid": absent, "flavour": absent}
    smi = nvidia_smi.query(node)
    return {
        "pci": _pci(found),
        "smi": smi if isinstance(smi, Unknown) else _smi(smi),
        "nvlink": _nvlink(node, found, smi),
        "xid": _xid(node),
        "flavour": _flavour(node),
    }


def _pci(found: list[pci.PciDevice] | Unknown) -> list[dict[str, Any]] | Unknown:
    if isinstance(found, Unknown):
        return found
    rows = []
    for device in found:
        known = product(device.vendor, device.device)
        rows.append(
            {
                "bdf": device.bdf,
                "vendor": device.vendor,
                "device": device.device,
                "product": known.name if known else None,
                "driver": device.driver,
            }
        )
    return rows


def _smi(smi: nvidia_smi.Smi) -> dict[str, Any]:
    gpus = [{**gpu.row(FIELDS), "processes": _processes(gpu)} for gpu in smi.gpus[: nvidia_smi.GPUS_KEPT]]
    return {
        "driver_version": smi.driver_version,
        "cuda_version": smi.cuda_version,
        "attached": smi.attached_gpus,
        "blocks": len(smi.gpus),
        "gpus": gpus,
    }


def _processes(gpu: nvidia_smi.Gpu) -> list[str] | Unknown:
    """``pid name`` of each process on the GPU."""
    element = gpu.element.find("processes")
    if element is None or (len(element) == 0 and (element.text or "").strip() not in ("", "None")):
        return Unknown("nvidia-smi does not tell the processes on the GPU", nvidia_smi.SOURCE)
    rows = []
    for process in element.findall("process_info")[:PROCESSES_KEPT]:
        told = [(process.findtext(tag) or "?").strip()[: nvidia_smi.TEXT_KEPT] for tag in ("pid", "process_name")]
        rows.append(" ".join(told))
    return rows


def _nvlink(
    node: Node, found: list[pci.PciDevice] | Unknown, smi: nvidia_smi.Smi | Unknown
) -> dict[str, list[float]] | Unknown | None:
    """Asked only where the product has a fabric, and only of a tool that has just answered. None: not asked."""
    from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvlink  # pylint: disable=import-outside-toplevel

    if isinstance(smi, Unknown):
        return Unknown("nvidia-smi did not answer, so it was not asked for the links", nvlink.SOURCE)
    if not isinstance(found, Unknown):
        known = [product(device.vendor, device.device) for device in found]
        if not any(item is None or item.nvlink_fabric for item in known):
            return None
    return nvlink.links(node)


def _xid(node: Node) -> dict[str, Any] | Unknown:
    from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import xid  # pylint: disable=import-outside-toplevel

    log = kernel_log.read(node)
    if isinstance(log, Unknown):
        return log
    events = xid.events(log)
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for event in events:
        row = rows.setdefault((event.kind, event.device, event.code), {"times": 0})
        row.update(kind=event.kind, device=event.device, code=event.code, action=event.action, line=event.line)
        row["times"] += 1
    worst_first = sorted(rows.values(), key=lambda row: -xid.CLASSES.index(row["action"]))
    return {"source": log.source, "complete": log.complete, "events": worst_first[:XIDS_KEPT]}


def _flavour(node: Node) -> str | Unknown:
    """``open`` or ``proprietary``, as the loaded module says of itself (facts 5.11)."""
    text = node.value("/proc/driver/nvidia/version")
    if isinstance(text, Unknown):
        return text
    if text is None:
        return Unknown("the nvidia module is not loaded", "/proc/driver/nvidia/version")
    return "open" if "Open Kernel Module" in text else "proprietary"


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for every check of the table."""
    findings = Findings("gpu", CHECKS)
    gpu = facts["gpu"]
    presence.assess_count(findings, gpu, require)
    presence.assess_model(findings, gpu)
    if not isinstance(gpu["pci"], Unknown) and not any(row["vendor"] == NVIDIA_VENDOR for row in gpu["pci"]):
        # The other questions are about NVIDIA's GPUs.
        return findings.checks()
    # Loaded where they are needed, as the concerns are: a machine without these GPUs has no use for them.
    # pylint: disable=import-outside-toplevel
    from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _gpu_health as health
    from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _gpu_setup as setup

    smi = gpu["smi"]
    rest = [name for name in findings.specs if name not in findings.answers]
    why = ""
    if isinstance(smi, Unknown):
        why = f"the driver does not answer: {smi.reason}"
    elif not smi["gpus"]:
        why = "nvidia-smi lists no GPU"
    if why:
        for name in rest:
            findings.unknown(name, why, evidence=Evidence(nvidia_smi.SOURCE))
        # The kernel log speaks without the driver's tool.
        health.assess_xid(findings, gpu["xid"], {})
        return findings.checks()
    gpus = smi["gpus"]
    products = presence.products_of(gpu["pci"])
    health.assess_recovery(findings, gpus)
    health.assess_xid(findings, gpu["xid"], {row["bdf"]: row["recovery_action"] for row in gpus})
    health.assess_ecc(findings, gpus, products)
    health.assess_row_remap(findings, gpus)
    setup.assess_mig(findings, gpus)
    setup.assess_compute_mode(findings, gpus)
    setup.assess_nvlink(findings, gpu["nvlink"], gpus, products)
    setup.assess_pcie(findings, gpus, products, require)
    health.assess_throttle(findings, gpus)
    setup.assess_firmware(findings, gpus, smi["driver_version"], gpu["flavour"])
    setup.assess_busy(findings, gpus, require)
    return findings.checks()
