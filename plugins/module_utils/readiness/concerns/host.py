# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The host below everything: who manages it, its OS and kernel, its clock and memory, and whether a reboot is due."""

from __future__ import annotations

import re
import sys
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _host_boot, _host_system
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    ANY,
    GPU,
    Check,
    Findings,
    Remedy,
    Spec,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR, product
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    boot,
    kernel_log,
    kernels,
    modules,
    nvidia_driver,
    pci,
)

CHECKS = (
    Spec(
        "managed_by",
        "Who else manages this node or a part of it.",
        "no scheduler runs here and no part has another owner; else it is said who has to be asked first",
        "peers 2.14; a scheduler has to be told before its node changes",
        Remedy("Ask the owner named here before anything is changed on this node."),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "arch",
        "The processor architecture: one the image exists for, and the one the GPU product comes with.",
        "x86_64 or aarch64; aarch64 where the GPU is part of a Grace superchip",
        "facts 6.1, 7.1",
        Remedy("Serve Kimi K3 on a node whose architecture the image exists for (x86_64 or aarch64)."),
        machines=ANY,
    ),
    Spec(
        "os",
        "The operating system and its release, and whether the roles of this collection manage it.",
        _host_system.OS_REQUIRED,
        "facts 1.12, 1.15 and corrections (EL 8); C67",
        Remedy("Install a release that the roles manage, or keep managing this node by its own tools."),
        machines=ANY,
    ),
    Spec(
        "python",
        "The Python that runs the probe and the modules of the roles.",
        "3.9 or newer",
        "C67",
        Remedy("Install Python 3.9 or newer and name it in ansible_python_interpreter."),
        machines=ANY,
    ),
    Spec(
        "kernel",
        "The running kernel, against what GPUDirect asks of it.",
        "5.12 or newer (registration of GPU memory by dmabuf); 6.1 where `gpudirect_gin` is on",
        "facts 3.1, 7.2 and corrections (GIN)",
        Remedy("Boot a newer kernel of the distribution.", "reboot"),
        machines=ANY,
    ),
    Spec(
        "secure_boot",
        "Whether Secure Boot keeps the driver's modules out.",
        "off, or the nvidia module is loaded (so its signature was accepted)",
        "facts 1.31; C19",
        Remedy(
            "Install the driver's signed modules of the distribution, or enrol the key that signed them: "
            "mokutil --import, then confirm at the console during the next boot.",
            "reboot",
        ),
        machines=ANY,
    ),
    Spec(
        "kernel_args",
        "Boot arguments for direct traffic between GPU and network card.",
        "IOMMU in passthrough (iommu=pt, on Arm iommu.passthrough=1); on Grace also init_on_alloc=0 and "
        "numa_balancing=disable. A virtual machine's IOMMU is its host's",
        "facts, corrections (kernel argument) and 1.45; C30",
        Remedy("Add the arguments to the boot loader's command line and reboot.", "reboot"),
        blocking=False,
        machines=GPU,
    ),
    Spec(
        "selinux",
        "Whether SELinux stands between containers and the GPU devices.",
        "not enforcing, or enforcing with an engine that does not label containers",
        "facts 6.9",
        Remedy("Start the container with --security-opt label=disable; SELinux itself may stay on."),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "memory",
        "The memory of the host, and whether GPU memory is mixed into it.",
        "at least `host_memory_min_gib` GiB; no NUMA node made of GPU memory",
        "no source names a figure for the size; facts 1.45, 7.7 for GPU memory",
        Remedy(
            "Keep GPU memory out of the host's: set NVreg_CoherentGPUMemoryMode=driver (CDMM) for the nvidia module.",
            "reboot",
        ),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "clock",
        "Whether the clock is synchronised: the first exception of a deployment is found by time.",
        "synchronised",
        "the earliest real exception over all nodes is the cause, so their clocks must agree",
        Remedy("Start time synchronisation (chrony, systemd-timesyncd)."),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "uptime",
        "Days since the last boot: B200 and B300 have lost NVLink after about sixty.",
        "below `host_uptime_max_days` days on B200 and B300",
        "peers 2.17",
        Remedy("Plan a reboot of this node.", "reboot"),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "reboot_due",
        "Whether the running system differs from the one the next boot would bring.",
        "running kernel = next kernel, loaded driver = driver on disk, boot arguments in effect, no reboot-required",
        "C22; facts 1.30",
        Remedy("Drain and reboot this node.", "reboot"),
        blocking=False,
        machines=ANY,
    ),
)

REFUSED = re.compile(
    r"Key was rejected by service|Required key not available"
    r"|Loading of (unsigned module|module with (unavailable key|unsupported crypto)) is rejected"
    r"|Lockdown: .*unsigned module loading is restricted"
)


def collect(node: Node) -> dict[str, Any]:
    """What the host says of itself.

    ``{"arch", "gpus": [kind], "os": {...}, "python": [3, 11, 2], "kernel", "page_size", "boot": {...},
    "selinux": "enforcing|permissive|off", "memory": {...}, "clock": {...}, "uptime_s", "reboot": {...}}``; sizes in
    bytes, times in seconds.
    """
    arch = node.machine()
    gpus = _gpus(node)
    return {
        "arch": arch,
        "gpus": gpus,
        "os": _host_system.read_os(node),
        "python": list(sys.version_info[:3]),
        "interpreter": sys.executable or "",
        "kernel": node.kernel(),
        "page_size": node.page_size(),
        "boot": _boot(node, arch, gpus),
        "selinux": _host_system.read_selinux(node),
        "memory": _host_system.read_memory(node),
        "clock": _host_system.read_clock(node),
        "uptime_s": _host_system.read_uptime(node),
        "reboot": _reboot(node),
    }


def _gpus(node: Node) -> list[dict[str, Any]] | Unknown:
    """The kinds of GPU here, each once: ``{"vendor", "id", "product", "form"}`` (None where the table lacks the id)."""
    found = pci.gpus(node)
    if isinstance(found, Unknown):
        return found
    kinds = {}
    for device in found:
        known = product(device.vendor, device.device)
        kinds[device.vendor + device.device] = {
            "vendor": device.vendor,
            "id": device.device,
            "product": known.name if known else None,
            "form": known.form if known else None,
        }
    return [kinds[key] for key in sorted(kinds)]


def _boot(node: Node, arch: str, gpus: list[dict[str, Any]] | Unknown) -> dict[str, Any]:
    """Boot arguments and Secure Boot, with what only matters where Secure Boot is on read only there."""
    wanted = _host_boot.wanted_arguments(arch, gpus)
    secure = boot.secure_boot(node)
    facts: dict[str, Any] = {
        "arguments": boot.arguments(node),
        "virtual": boot.virtual(node),
        "configured": [argument for argument in wanted if boot.configured(node, argument)],
        "iommu": _host_boot.read_iommu(node),
        "numa_balancing": node.value("/proc/sys/kernel/numa_balancing"),
        "secure_boot": secure,
        "signatures_enforced": boot.signatures_enforced(node),
        "nvidia_loaded": node.exists("/sys/module/nvidia"),
        "nvidia_signer": None,
        "refusals": [],
    }
    nvidia_here = isinstance(gpus, Unknown) or any(kind["vendor"] == NVIDIA_VENDOR for kind in gpus)
    if (secure or facts["signatures_enforced"]) and facts["nvidia_loaded"] is False and nvidia_here:
        log = kernel_log.read(node)
        facts["refusals"] = log if isinstance(log, Unknown) else log.matching(REFUSED)[-3:]
        on_disk = modules.on_disk(node, nvidia_driver.MODULE_NAMES)
        facts["nvidia_signer"] = on_disk.get("signer", "") if isinstance(on_disk, dict) else on_disk
    return facts


def _reboot(node: Node) -> dict[str, Any]:
    """What the next boot would change."""
    loaded = nvidia_driver.loaded(node)["version"]
    on_disk = nvidia_driver.on_disk(node, node.kernel()) if isinstance(loaded, str) else None
    hints = [path for path in ("/run/reboot-required", "/var/run/reboot-required") if node.exists(path) is True]
    packages = node.read("/run/reboot-required.pkgs", 4096) if hints else None
    known = kernels.known(node)
    return {
        "hint": hints[0] if hints else None,
        "packages": sorted(set(packages.split()))[:20] if isinstance(packages, str) else [],
        "next_kernel": known["boot"],
        "next_kernel_how": known["how"],
        "driver_loaded": loaded,
        "driver_on_disk": on_disk.get("version") if isinstance(on_disk, dict) else on_disk,
    }


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for every check of the table."""
    findings = Findings("host", CHECKS)
    host = facts["host"]
    _host_system.assess_managed_by(findings, facts.get("owners"))
    _host_system.assess_arch(findings, host)
    _host_system.assess_os(findings, host)
    _host_system.assess_python(findings, host)
    _host_boot.assess_kernel(findings, host, require)
    _host_boot.assess_secure_boot(findings, host)
    _host_boot.assess_kernel_args(findings, host)
    _host_system.assess_selinux(findings, host, facts.get("container"))
    _host_system.assess_memory(findings, host, require)
    _host_system.assess_clock(findings, host)
    _host_system.assess_uptime(findings, host, require)
    _host_boot.assess_reboot_due(findings, host)
    return findings.checks()
