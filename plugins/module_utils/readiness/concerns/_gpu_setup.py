# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the GPUs are set up and free for one engine: MIG, compute mode, links, firmware, processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._gpu_tally import (
    Tally,
    named,
    whole,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    UNKNOWN,
    WARN,
    Evidence,
    Findings,
    Remedy,
    Unknown,
    version_tuple,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import (
    BLACKWELL,
    HOPPER,
    Product,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvlink

# (links a GPU, GB/s each). Source: peers section 5, nvlink_bandwidth_count_speed.
LINKS = {HOPPER: (18, 26.562), BLACKWELL: (18, 53.125)}
FULL_WIDTH = 16


def assess_mig(findings: Findings, gpus: Sequence[dict[str, Any]]) -> None:
    """Off now and after the next reset."""
    tally = Tally()
    for gpu in gpus:
        on = {"Enabled": (FAIL, "MIG is on", None)}
        later = {"Enabled": (FAIL, "MIG will be on after the next reset", None)}
        tally.flag(gpu["bdf"], "current_mig", gpu["mig_current"], ("Disabled",), on)
        tally.flag(gpu["bdf"], "pending_mig", gpu["mig_pending"], ("Disabled",), later)
    observed = sorted({f"{gpu['mig_current']}/{gpu['mig_pending']}" for gpu in gpus})
    tally.answer(findings, "mig", "MIG is off on every GPU.", observed, "Disabled/Disabled")


def assess_compute_mode(findings: Findings, gpus: Sequence[dict[str, Any]]) -> None:
    """Default lets several processes share a GPU."""
    bad = {
        mode: (FAIL, f"its compute mode is {mode}", None)
        for mode in ("Exclusive_Process", "Exclusive_Thread", "Prohibited")
    }
    tally = Tally()
    for gpu in gpus:
        tally.flag(gpu["bdf"], "compute_mode", gpu["compute_mode"], ("Default",), bad)
    observed = sorted({str(gpu["compute_mode"]) for gpu in gpus})
    tally.answer(findings, "compute_mode", "Every GPU is in compute mode Default.", observed, "Default")


def assess_nvlink(
    findings: Findings, found: Any, gpus: Sequence[dict[str, Any]], products: Sequence[Product | None]
) -> None:
    """Count and speed of the links. ``found`` is None where the product has no fabric."""
    if found is None:
        findings.not_applicable("nvlink", "this product has no NVLink fabric")
        return
    if isinstance(found, Unknown):
        findings.unknown("nvlink", found)
        return
    known = {item.architecture for item in products if item}
    expected = LINKS.get(next(iter(known))) if len(known) == 1 and None not in products else None
    if expected is None:
        findings.unknown("nvlink", "how many NVLinks these GPUs must have is not known", observed=_links_shown(found))
        return
    count, speed = expected
    required = f"{count} links of {speed} GB/s a GPU"
    if len(found) != len(gpus):
        text = f"nvidia-smi tells the links of {len(found)} GPUs, and lists {len(gpus)}"
        findings.unknown("nvlink", text, _links_shown(found), required, Evidence(nvlink.SOURCE))
        return
    tally = Tally()
    for number, links in found.items():
        up = [rate for rate in links if rate > 0]
        line = f"GPU {number}: {len(up)} of {len(links)} links up, slowest {min(up) if up else 0} GB/s"
        if len(up) < count:
            down = [str(link) for link, rate in enumerate(links) if rate <= 0]
            told = f" (down: {', '.join(down[:6])})" if down and up else ""
            tally.add(FAIL, number, f"{len(up)} of {count} NVLinks are up{told}", line)
        elif min(up) < speed:
            tally.add(FAIL, number, f"a link runs at {min(up)} GB/s, and {speed} is its full speed", line)
    passed = f"All {count} links of each GPU are up; whether the fabric works is told by fabric.state."
    tally.answer(findings, "nvlink", passed, _links_shown(found), required, nvlink.SOURCE)


def _links_shown(found: dict[str, list[float]]) -> dict[str, int]:
    return {f"GPU {number}": sum(1 for rate in links if rate > 0) for number, links in found.items()}


def assess_pcie(
    findings: Findings, gpus: Sequence[dict[str, Any]], products: Sequence[Product | None], require: dict[str, Any]
) -> None:
    """Width only (facts 5.5). On a tray the host's traffic goes over C2C, so a narrow link only warns there."""
    tray = bool(products) and all(item is not None and item.form == "tray" for item in products)
    most = require["gpu_pcie_replays_max"]
    tally = Tally()
    for gpu in gpus:
        bdf = gpu["bdf"]
        current, full = whole(gpu["width_current"]), whole(gpu["width_max"])
        line = f"{bdf}: link width {gpu['width_current']} of {gpu['width_max']}"
        if not current or not full:
            tally.add(UNKNOWN, bdf, "its PCIe width is not told", line)
        elif current < full:
            tally.add(WARN if tray else FAIL, bdf, f"its PCIe link runs {current} lanes wide instead of {full}", line)
        elif full != FULL_WIDTH or current > full:
            text = f"its PCIe link is {full} lanes wide, where {FULL_WIDTH} are usual (no source names a lowest width)"
            tally.add(WARN, bdf, text, line)
        replays = whole(gpu["replays"])
        if replays is not None and replays > most:
            text = f"{replays} PCIe replays, more than `gpu_pcie_replays_max` {most} (no source names a figure)"
            tally.add(WARN, bdf, text, f"{bdf}: replay_counter = {gpu['replays']}")
    observed = {"width": sorted({f"{gpu['width_current']} of {gpu['width_max']}" for gpu in gpus})}
    tally.answer(findings, "pcie", "Every PCIe link has its full width.", observed, f"{FULL_WIDTH}x")


def assess_firmware(findings: Findings, gpus: Sequence[dict[str, Any]], driver: str | None, flavour: Any) -> None:
    """GSP firmware belongs to the driver; the open modules cannot do without it."""
    tally = Tally()
    for gpu in gpus:
        bdf, gsp = gpu["bdf"], gpu["gsp"]
        line = f"{bdf}: gsp_firmware_version = {gsp}, driver_version = {driver}"
        if gsp == "N/A" and flavour == "proprietary":
            continue
        if gsp is None or driver is None or version_tuple(gsp) is None:
            tally.add(UNKNOWN, bdf, "its GSP firmware is not told", line)
        elif gsp != driver:
            tally.add(FAIL, bdf, f"it runs GSP firmware {gsp} under driver {driver}", line)
        if gpu["vbios"] in (None, "", "N/A"):
            tally.add(UNKNOWN, bdf, "its VBIOS version is not told", f"{bdf}: vbios_version = {gpu['vbios']}")
    versions: dict[str, list[str]] = {}
    for gpu in gpus:
        versions.setdefault(str(gpu["vbios"]), []).append(gpu["bdf"])
    if len(versions) > 1:
        update = Remedy("Have the VBIOS of the odd GPUs updated in the next maintenance.", "drain")
        rare = min(versions, key=lambda version: len(versions[version]))
        for bdf in versions[rare]:
            tally.add(WARN, bdf, f"its VBIOS is {rare}, others have another", f"{bdf}: vbios_version = {rare}", update)
    observed = {"gsp": sorted({str(gpu["gsp"]) for gpu in gpus}), "vbios": sorted(versions)}
    tally.answer(findings, "firmware", "GSP firmware is the driver's, and the VBIOS is one.", observed, driver)


def assess_busy(findings: Findings, gpus: Sequence[dict[str, Any]], require: dict[str, Any]) -> None:
    """Processes by name; memory too, since a process in another container or one that died may not be listed."""
    if require["gpu_busy_allowed"]:
        held = [gpu["bdf"] for gpu in gpus if not isinstance(gpu["processes"], Unknown) and gpu["processes"]]
        text = f"Processes on GPUs are allowed here ({named(held) or 'none'} in use)."
        findings.passed("busy", text, observed=held, required="`gpu_busy_allowed`")
        return
    most = require["gpu_idle_memory_mib"]
    tally = Tally()
    for gpu in gpus:
        bdf, processes, used = gpu["bdf"], gpu["processes"], whole(gpu["memory_used"])
        if isinstance(processes, Unknown):
            tally.add(UNKNOWN, bdf, processes.reason)
        elif processes:
            tally.add(WARN, bdf, f"process {'; '.join(processes[:3])} is on it", f"{bdf}: {'; '.join(processes[:3])}")
        line = f"{bdf}: fb_memory_usage/used = {gpu['memory_used']}"
        if used is None:
            tally.add(UNKNOWN, bdf, "its used memory is not told", line)
        elif used > most and not processes:
            text = f"{used} MiB are in use without a process to be seen (more than {most}, a figure no source names)"
            tally.add(WARN, bdf, text, line)
    observed = {"used_mib": sorted({str(gpu["memory_used"]) for gpu in gpus})}
    tally.answer(findings, "busy", "Nothing is left on the GPUs.", observed, f"no process, at most {most} MiB")
