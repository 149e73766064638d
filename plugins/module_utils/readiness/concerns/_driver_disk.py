# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The driver on disk: is it installed for the running kernel, and will the next boot have it; if not, why not."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._driver_state import (
    State,
    differs,
    one_version,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import dkms, kernels, nvidia_module

# ---- installed -----------------------------------------------------------------------------------------------------


def assess_installed(findings: Findings, driver: dict[str, Any], now: State) -> None:
    """Libraries and a module for the running kernel, by an installation that ended."""
    running = driver["kernels"]["running"]
    required = "libraries, and a module for the running kernel"
    observed = {"libraries": now.libraries, "module": now.disk, "loaded": now.loaded, "kernel": running}
    if now.absent:
        findings.failed(
            "installed",
            "No NVIDIA driver is installed on this node.",
            observed=observed,
            required=required,
            evidence=Evidence("modinfo nvidia", "no module, no libcuda, no driver package"),
        )
        return
    broken = _broken(driver)
    if now.loaded is None and now.module is None and not driver["tree"]:
        reason, evidence, remedy = why_no_module(driver, running)
        findings.failed("installed", reason, observed=observed, required=required, evidence=evidence, remedy=remedy)
    elif now.libraries is None:
        findings.failed(
            "installed",
            "The driver's libraries (libcuda, libnvidia-ml) are not on this node.",
            observed=observed,
            required=required,
            evidence=Evidence("/usr/lib", "no libcuda.so of a driver"),
            remedy=Remedy("Install the driver's library packages of the module's version.", "none", **cures.DRIVER),
        )
    elif broken and not _failures(driver):
        name, condition = next(iter(broken.items()))
        findings.failed(
            "installed",
            f"The installation of {name} did not end (dpkg state {condition}).",
            observed={**observed, "broken": broken},
            required=required,
            evidence=Evidence("dpkg-query -W", f"{name} {condition}"),
            remedy=Remedy("Let dpkg finish, and read why it stopped.", "none", command="dpkg --configure -a"),
        )
    else:
        unread = [part for part in (now.loaded, now.libraries) if isinstance(part, Unknown)]
        if now.loaded is None and isinstance(now.module, Unknown):
            unread.append(now.module)
        if unread:
            findings.unknown("installed", unread[0], observed=observed, required=required)
            return
        findings.passed(
            "installed",
            f"The driver of {driver['tree'] or 'this host'} is installed ({now.version}).",
            observed=observed,
            required=required,
            evidence=Evidence(now.libraries_from, str(now.libraries)),
        )


def _broken(driver: dict[str, Any]) -> dict[str, str]:
    packages = driver["packages"]
    return packages.get("broken", {}) if isinstance(packages, dict) else {}


def _failures(driver: dict[str, Any]) -> list[dict[str, Any]]:
    known = driver["dkms"]
    return [source for source in known if source["failure"]] if isinstance(known, list) else []


def why_no_module(driver: dict[str, Any], kernel: str) -> tuple[str, list[Evidence], Remedy]:
    """(reason, evidence, remedy): why ``kernel`` has no module, from DKMS's tree and the headers (C04, C05)."""
    here = [Evidence(f"modinfo -k {kernel} nvidia", "not found")]
    sources = driver["dkms"] if isinstance(driver["dkms"], list) else []
    failed = [source for source in _failures(driver) if source["failure"]["kernel"] in (kernel, None)]
    if failed:
        return _build_failed(failed[-1], kernel, driver)
    safe = kernels.NAME.fullmatch(kernel) is not None
    built = [source for source in sources if kernel in source["kernels"]]
    if built:
        name = f"{built[-1]['name']}/{built[-1]['version']}"
        condition = built[-1]["kernels"][kernel]
        return (
            f"DKMS has {name} for kernel {kernel} as {condition}, and the module is not in /lib/modules/{kernel}.",
            [*here, Evidence(dkms.TREE, f"{name}, {kernel}: {condition}")],
            Remedy(
                "Install the built module.",
                "none",
                command=f"dkms install --force {name} -k {kernel}" if safe else None,
                **cures.DRIVER,
            ),
        )
    there = driver["headers"].get(kernel)
    if there is False and sources:
        return (
            f"Kernel {kernel} has no nvidia module: its headers are not installed, so DKMS skipped the build.",
            [*here, Evidence(f"/lib/modules/{kernel}/build", "does not exist")],
            Remedy(
                f"Install the headers of kernel {kernel}, then build; do not reboot before that.",
                "none",
                command=_headers_command(driver, kernel) if safe else None,
                **cures.DRIVER,
            ),
        )
    added = f"{sources[-1]['name']}/{sources[-1]['version']}" if sources else ""
    if added:
        return (
            f"Kernel {kernel} has no nvidia module: DKMS has {added} only added, not built for this kernel.",
            [*here, Evidence(dkms.TREE, f"{added}: added")],
            Remedy(
                "Build and install it.",
                "none",
                command=f"dkms install {added} -k {kernel}" if safe else None,
                **cures.DRIVER,
            ),
        )
    unread = driver["dkms"].reason if isinstance(driver["dkms"], Unknown) else ""
    return (
        f"Kernel {kernel} has no nvidia module, and DKMS "
        + (f"cannot be read ({unread})." if unread else "has no source to build it from."),
        here,
        Remedy(
            f"Install the driver's module package for kernel {kernel}, or its DKMS package.", "none", **cures.DRIVER
        ),
    )


def _headers_command(driver: dict[str, Any], kernel: str) -> str | None:
    packages = driver["packages"]
    tool = packages.get("tool") if isinstance(packages, dict) else None
    if tool == "dpkg":
        return f"apt-get install linux-headers-{kernel} && dkms autoinstall -k {kernel}"
    if tool == "rpm":
        return f"dnf install kernel-devel-{kernel} && dkms autoinstall -k {kernel}"
    return None


def _build_failed(source: dict[str, Any], kernel: str, driver: dict[str, Any]) -> tuple[str, list[Evidence], Remedy]:
    name, failure = f"{source['name']}/{source['version']}", source["failure"]
    evidence = [Evidence(failure["source"], failure["line"])]
    start = f"DKMS could not build {name} for kernel {failure['kernel'] or kernel}: "
    if failure["kind"] == dkms.COMPILER:
        need = failure["need"] or "the compiler named in /proc/version"
        return (
            start + f"the kernel was built with another compiler, and {need} is needed.",
            evidence,
            Remedy(f"Install {need}, then let DKMS build again.", "none"),
        )
    if failure["kind"] == dkms.KERNEL_API:
        return (
            start + "this driver's source does not fit this kernel.",
            evidence,
            Remedy(
                "Install a newer driver of the same branch, or hold the node on a kernel this one builds for.", "reboot"
            ),
        )
    if failure["kind"] == dkms.HEADERS:
        return (
            start + "the kernel's headers were not found.",
            evidence,
            Remedy(
                f"Install the headers of kernel {kernel}, then build again.",
                "none",
                command=_headers_command(driver, kernel) if kernels.NAME.fullmatch(kernel) else None,
                **cures.DRIVER,
            ),
        )
    if failure["kind"] == dkms.ROOM:
        return (start + "disk or memory ran out.", evidence, Remedy("Make room, then let DKMS build again.", "none"))
    return (
        start + "its log names no cause the probe knows.",
        evidence,
        Remedy(f"Read {failure['source']} and build again.", "none"),
    )


# ---- next_boot -----------------------------------------------------------------------------------------------------


def assess_next_boot(findings: Findings, driver: dict[str, Any], now: State) -> None:
    """A module of the libraries' version for the running kernel and for the one the next boot takes.

    Where nothing tells which kernel that is, every installed one must have the module, or the answer is unknown.
    """
    boots, disk = driver["kernels"], driver["disk"]
    required = f"a module of {now.libraries if isinstance(now.libraries, str) else 'the driver'} for both kernels"
    modules = {kernel: module["version"] if isinstance(module, dict) else module for kernel, module in disk.items()}
    observed = {
        "running": boots["running"],
        "boot": boots["boot"],
        "chosen_as": boots["how"],
        "modules": modules,
        "broken": _broken(driver),
    }
    certain = [boots["running"], boots["boot"]] if isinstance(boots["boot"], str) else [boots["running"]]
    for kernel in dict.fromkeys(certain):
        fault = _fault(driver, now, kernel)
        if fault:
            reason, evidence, remedy = fault
            findings.failed("next_boot", reason, observed=observed, required=required, evidence=evidence, remedy=remedy)
            return
    # Each kernel has its module; a failed build still stops the next change where dpkg hangs on it.
    if _broken(driver) and _failures(driver):
        source = _failures(driver)[-1]
        reason, evidence, remedy = _build_failed(source, source["failure"]["kernel"] or boots["running"], driver)
        findings.failed("next_boot", reason, observed=observed, required=required, evidence=evidence, remedy=remedy)
        return
    unread = [part for part in (*disk.values(), now.libraries, driver["dkms"]) if isinstance(part, Unknown)]
    if isinstance(boots["boot"], Unknown) and not _all_have_it(driver, now):
        unread.append(boots["boot"])
    if any(kernel not in disk for kernel in certain):
        unread.append(Unknown("the name of a kernel has characters that cannot be asked about"))
    if not isinstance(now.libraries, (str, Unknown)):
        unread.append(Unknown("the version of the libraries is not known, so there is nothing to compare with"))
    if unread:
        findings.unknown("next_boot", unread[0], observed=observed, required=required)
        return
    which = f"the next boot's ({boots['boot']})" if isinstance(boots["boot"], str) else "every installed kernel"
    findings.passed(
        "next_boot",
        f"The running kernel and {which} have module {now.libraries}.",
        observed=observed,
        required=required,
        evidence=Evidence("modinfo nvidia", f"version: {now.disk}"),
    )


def _fault(driver: dict[str, Any], now: State, kernel: str) -> tuple[str, list[Evidence], Remedy] | None:
    """What is wrong with the module on disk of one kernel."""
    module = driver["disk"].get(kernel, Unknown("not asked"))
    if module is None:
        return why_no_module(driver, kernel)
    if not isinstance(module, dict):
        return None
    source = f"modinfo -k {kernel} nvidia"
    if differs(module["version"], now.libraries):
        return (
            f"Kernel {kernel} would load {module['version']}, and the libraries are {now.libraries}.",
            [Evidence(source, f"version: {module['version']}")],
            one_version(now.libraries),
        )
    if module["flavour"] == nvidia_module.PROPRIETARY and _open_only(driver):
        return (
            f"Kernel {kernel} would load the proprietary flavour, which does not drive {_open_only(driver)}.",
            [Evidence(source, f"license: {module['license']}")],
            Remedy("Install the open flavour of the same version before the node reboots.", "none", **cures.DRIVER),
        )
    return None


def _all_have_it(driver: dict[str, Any], now: State) -> bool:
    """Whether every installed kernel has a module that fits."""
    installed, disk = driver["kernels"]["installed"], driver["disk"]
    return (
        isinstance(installed, list)
        and bool(installed)
        and all(isinstance(disk.get(kernel), dict) and not _fault(driver, now, kernel) for kernel in installed)
    )


def _open_only(driver: dict[str, Any]) -> str | None:
    gpus = driver["gpus"]
    return None if isinstance(gpus, Unknown) else next((gpu["product"] for gpu in gpus if gpu["open_only"]), None)
