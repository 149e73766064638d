# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a service of the fabric may be started: its packages must be of the loaded driver's version, to the digit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError, is_unknown, why

# What a service may be given its packages: started; not yet, since a reboot brings its driver; not at all.
START = "start"
REBOOT = "reboot"
NO = "no"
# Installs the whole set at one version.
CURE = "ansible-playbook gpufleet.kimi_k3.site --limit {host}"


def judge(name: str, packages: Any, binary: Any, driver: Any, on_disk: str, host: str) -> tuple[str, str]:
    """(START, REBOOT or NO; why it is not started, empty for START).

    Args:
        name: the package as NVIDIA's repository calls it.
        packages: ``{name: version}`` of those installed, as the probe has them, or that it could not be read.
        binary: the version of a program that came without a package, where there is none.
        driver: version of the loaded driver, or None.
        on_disk: version of the driver that the next boot loads; empty where that is not known or there is none.
        host: for the command that cures it.

    Raises:
        FabricError: where a version could not be read.
    """
    if is_unknown(driver):
        raise FabricError(f"which driver is loaded is not known: {why(driver)}")
    if is_unknown(packages) and not isinstance(binary, str):
        raise FabricError(f"which version of {name} is installed is not known: {why(packages)}")
    found = dict(packages) if isinstance(packages, Mapping) and not is_unknown(packages) else {}
    if not found and isinstance(binary, str):
        found = {name: binary}
    if not found and is_unknown(binary):
        raise FabricError(f"whether {name} is installed is not known: {why(binary)}")
    cure = CURE.format(host=host)
    if not found:
        return NO, f"{name} is not installed; the role nvidia_driver brings it: {cure}"
    told = ", ".join(f"{package} is {version}" for package, version in found.items())
    versions = set(found.values())
    if versions == {driver}:
        return START, ""
    loaded = f"driver {driver} is loaded" if driver else "no driver is loaded"
    if on_disk and versions == {on_disk}:
        return REBOOT, f"{loaded}, and {told}, as the driver of the next boot is"
    return NO, f"{told}, and {loaded}; both must be equal to the last digit (C14), which this brings about: {cure}"


def on_disk(facts: Mapping[str, Any]) -> str:
    """The version of the driver that the next boot loads; empty where none is there or it is not known."""
    driver = facts.get("driver")
    if not isinstance(driver, Mapping) or is_unknown(driver):
        return ""
    kernels = driver.get("kernels") or {}
    kernel = kernels.get("boot") if isinstance(kernels.get("boot"), str) else kernels.get("running")
    module = (driver.get("disk") or {}).get(kernel)
    version = module.get("version") if isinstance(module, Mapping) else None
    return version if isinstance(version, str) else ""


def branch(version: Any) -> int:
    """The branch of a driver's version; 0 where there is none."""
    head = version.split(".")[0] if isinstance(version, str) else ""
    return int(head) if head.isdigit() else 0
