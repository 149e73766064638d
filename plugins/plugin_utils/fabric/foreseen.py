# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a dry run foretold of the driver: the fabric is then judged on the node as the real run will leave it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import is_unknown

PACKAGES = {
    "manager": re.compile(r"nvidia-fabric-?manager(-\d+)?"),
    "nvlsm": re.compile("nvlsm"),
    "imex": re.compile(r"nvidia-imex(-\d+)?"),
}
# In the place of a unit's UnitFileState: the package that will bring it decides, and is not here yet.
UNTOLD = "untold"


def facts(facts_now: Mapping[str, Any], foreseen: Mapping[str, Any]) -> Mapping[str, Any]:
    """The probe's facts with the module on disk that will be there. ``foreseen``: {"version", "packages"} or empty."""
    driver = facts_now.get("driver")
    if not foreseen.get("version") or not isinstance(driver, Mapping) or is_unknown(driver):
        return facts_now
    kernels = driver.get("kernels") or {}
    named = [kernels.get(key) for key in ("running", "boot")]
    disk = {kernel: {"version": foreseen["version"]} for kernel in named if isinstance(kernel, str)}
    return {**facts_now, "driver": {**driver, "disk": disk}}


def now(read: Mapping[str, Any], foreseen: Mapping[str, Any]) -> dict[str, Any]:
    """What was read of the node with the packages, and the units that come with them, that will be there."""
    after = dict(read)
    for part, pattern in PACKAGES.items():
        changed = {name: to for name, to in (foreseen.get("packages") or {}).items() if pattern.fullmatch(name)}
        there = read.get(part)
        if not changed or not isinstance(there, Mapping) or is_unknown(there):
            continue
        packages = there["packages"]
        packages = {} if is_unknown(packages) or not packages else dict(packages)
        packages = {name: version for name, version in {**packages, **changed}.items() if version is not None}
        after[part] = {**there, "packages": packages}
        unit = read["units"].get(part)
        if packages and isinstance(unit, Mapping) and unit.get("LoadState") == "not-found":
            fresh = {**unit, "LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": UNTOLD}
            after["units"] = {**after["units"], part: fresh}
    return after


def line(unit: str) -> str:
    """What is certain of a unit whose package is yet to come."""
    return f"service {unit}: enabled at boot, where its package brings it disabled"
