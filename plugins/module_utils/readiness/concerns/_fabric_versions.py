# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the services of the fabric have in common: packages that must equal the loaded driver to the last digit."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Remedy, Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import packages

ABSENT = "absent"


def installed_versions(node: Node, pattern: re.Pattern[str]) -> dict[str, Any] | Unknown:
    """``{name: version without epoch and revision}`` of the installed packages whose whole name matches."""
    found = packages.installed(node)
    if isinstance(found, Unknown):
        return found
    return {name: item.upstream for name, item in sorted(found.by_name.items()) if pattern.fullmatch(name)}


def version_fault(what: str, found: Any, binary: Any, driver: Any) -> str | Unknown:
    """Why the installed version is not the loaded driver's: "" where it is, ABSENT where nothing is installed."""
    if isinstance(found, Unknown) and not isinstance(binary, str):
        return found
    versions = dict(found) if isinstance(found, dict) else {}
    if not versions:
        if isinstance(binary, Unknown):
            return binary
        if binary is None:
            return ABSENT
        versions = {what: binary}
    if driver is None:
        return Unknown(f"no driver is loaded, so the {what} cannot be compared with it")
    if isinstance(driver, Unknown):
        return driver
    other = {name: version for name, version in versions.items() if version != driver}
    if not other:
        return ""
    told = ", ".join(f"{name} is {version}" for name, version in other.items())
    return f"{told}, and the loaded driver is {driver}: both must be equal to the last digit."


def install(name: str, found: Any, driver: Any, unit: str) -> Remedy:
    """The cure of a version that differs: the package follows the loaded driver."""
    names = sorted(found) if isinstance(found, dict) else []
    package = names[0] if len(names) == 1 else name
    return Remedy(
        f"Install {package} in version {driver} (where the driver itself is the odd one, upgrade that), hold both, and "
        f"restart {unit}.",
        "drain",
        **cures.DRIVER_AND_FABRIC,
    )
