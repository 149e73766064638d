# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""After the transaction and before any reboot: the module is there for each kernel in question, and the set is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.refusals import not_one_version
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.request import upstream
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import is_unknown

# What a failed build means, and what helps (C04).
CURES = {
    "compiler": "install the compiler the kernel was built with",
    "kernel interface": "this driver is too old for that kernel: take a newer version of the branch, or another kernel",
    "headers": "install the headers of that kernel",
    "room": "make room, or give the build more memory",
    "unclear": "read the log",
}


def faults(facts: Mapping[str, Any], request: Mapping[str, Any]) -> list[str]:
    """Why the node must not be rebooted, from a probe made after the transaction; empty where all is proven.

    A package manager's success proves nothing (C05): each kernel of the request has to have the module, of the wanted
    version and flavour, and all version-locked packages have to be that version.
    """
    driver = facts.get("driver", {})
    found = []
    for kernel in _kernels(driver, request):
        found += _module(driver, kernel, request)
    return found + _set(driver, request)


def unbuilt(facts: Mapping[str, Any], request: Mapping[str, Any]) -> list[list[str]]:
    """The commands that build what DKMS has the source of and a kernel has no module from; empty where none lacks one.

    A build that failed, or was skipped for want of headers, is not made up for by the package manager, which has
    nothing left to do (C05). Kernels without headers are left out: there nothing can be built.
    """
    driver = facts.get("driver", {})
    sources = driver.get("dkms")
    if not request["dkms"] or not isinstance(sources, list):
        return []
    names = [source["name"] for source in sources if source["version"] == request["version"]]
    found = []
    for kernel in _kernels(driver, request):
        module = (driver.get("disk") or {}).get(kernel)
        lacks = not isinstance(module, Mapping) or module.get("version") != request["version"]
        if lacks and not is_unknown(module) and names and (driver.get("headers") or {}).get(kernel) is True:
            found.append(["dkms", "install", "--force", f"{names[0]}/{request['version']}", "-k", kernel])
    return found


def _kernels(driver: Mapping[str, Any], request: Mapping[str, Any]) -> list[str]:
    """The kernels of the request, and what the transaction may have made the next boot's."""
    known = driver.get("kernels") or {}
    boot = known.get("boot")
    installed = known.get("installed")
    every = installed if isinstance(installed, list) else []
    fresh = [boot] if isinstance(boot, str) else every
    return list(dict.fromkeys([*request["kernels"], *fresh]))


def _module(driver: Mapping[str, Any], kernel: str, request: Mapping[str, Any]) -> list[str]:
    module = (driver.get("disk") or {}).get(kernel, {"unknown": "it was not asked for"})
    if is_unknown(module):
        return [f"whether kernel {kernel} has the module is not known: {module['unknown']}"]
    if module is None:
        return [f"kernel {kernel} has no nvidia module{_why(driver, kernel)}"]
    found = []
    if module["version"] != request["version"]:
        found.append(f"kernel {kernel} would load {module['version']}, not {request['version']}{_why(driver, kernel)}")
    if module["flavour"] != request["flavour"]:
        told = module["flavour"]["unknown"] if is_unknown(module["flavour"]) else f"the {module['flavour']} flavour"
        found.append(f"kernel {kernel} would load {told}, not the {request['flavour']} one")
    return found


def _why(driver: Mapping[str, Any], kernel: str) -> str:
    """The cause, from DKMS's tree and make.log; empty where nothing tells."""
    sources = driver.get("dkms")
    for source in sources if isinstance(sources, list) else []:
        failure = source["failure"]
        if failure and failure["kernel"] in (kernel, None) and kernel not in source["kernels"]:
            need = f" ({failure['need']})" if failure["need"] else ""
            return f": its build failed, {CURES[failure['kind']]}{need}; {failure['source']} says: {failure['line']}"
    if (driver.get("headers") or {}).get(kernel) is False:
        return ": its headers are not there, so DKMS skipped the build"
    return ""


def _set(driver: Mapping[str, Any], request: Mapping[str, Any]) -> list[str]:
    packages = driver.get("packages")
    locked = packages.get("locked") if isinstance(packages, Mapping) else None
    if not isinstance(locked, Mapping):
        return ["which packages of the driver are installed could not be read"]
    if not locked:
        return ["no package of the driver is installed"]
    found = []
    versions = not_one_version(locked)
    if versions:
        told = "; ".join(f"{version}: {', '.join(names[:4])}" for version, names in versions.items())
        found.append(f"the driver's packages have {len(versions)} versions ({told})")
    elif {upstream(version) for version in locked.values()} != {request["version"]}:
        found.append(f"the driver's packages are {upstream(next(iter(locked.values())))}, not {request['version']}")
    broken = packages.get("broken") if isinstance(packages, Mapping) else {}
    if broken:
        found.append(f"the installation did not end: {', '.join(f'{name} {state}' for name, state in broken.items())}")
    return found
