# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The host below everything: who manages it, its OS and kernel, its clock and memory, and whether a reboot is due."""

from __future__ import annotations

import re
import sys
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.host import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _host_boot, _host_system
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Findings,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR, product
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    boot,
    kernel_log,
    kernels,
    modules,
    nvidia_module,
    pci,
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
        on_disk = modules.on_disk(node, nvidia_module.MODULE_NAMES)
        facts["nvidia_signer"] = on_disk.get("signer", "") if isinstance(on_disk, dict) else on_disk
    return facts


def _reboot(node: Node) -> dict[str, Any]:
    """What the next boot would change."""
    loaded = nvidia_module.loaded(node)["version"]
    on_disk = nvidia_module.on_disk(node, node.kernel()) if isinstance(loaded, str) else None
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
