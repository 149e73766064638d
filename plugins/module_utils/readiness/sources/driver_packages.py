# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which installed packages belong to the driver, which must have its version, and who owns a file."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_module
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.packages import Package, Packages

# Packages that carry the driver's version to the last digit. Source: facts 1.15 to 1.28 and corrections (version lock).
LOCKED = (
    r"cuda-drivers(-.*)?",
    r"kmod-nvidia(-.*)?",
    r"lib(cuda1|cudadebugger1|nvcuvid1|nvoptix1)",
    r"lib(egl|gl1|gles|gles1|gles2|glx)-nvidia[a-z0-9-]*",
    r"libnvidia-.*",
    r"nvidia-(compute-utils|utils|driver|headless|dkms|open|smi|open-kernel)(-.*)?",
    r"nvidia-(kernel-(common|source|open|dkms|support)|kmod|kmod-common)(-.*)?",
    r"nvidia-open-driver-G0[0-9].*",
)
# Version-locked as well, and judged by the concern `fabric`.
FABRIC = (r"nvidia-fabric-?manager(-.*)?", r"nvidia-imex(-.*)?")
# Named alike, with versions of their own.
NOT_LOCKED = (
    r"libnvidia-(container|egl-|nvsdm).*",
    r"nvidia-driver-(pinning|assistant|local-repo).*",
    r".*-(dev|devel|doc|dbg|debuginfo)",
)

# What a package may be called; such a name is safe in a command a person copies.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,99}")
_LOCKED, _FABRIC, _NOT_LOCKED = (re.compile("|".join(f"(?:{name})" for name in table))
                                 for table in (LOCKED, FABRIC, NOT_LOCKED))  # fmt: skip

# Whose package it is, by the end of its version. Source: C07; facts 1.17, 1.23. What fits none is not judged.
_ORIGINS = (
    (re.compile(r"-[0-9]+ubuntu[0-9]+\.[0-9]"), "the Ubuntu archive"),
    (re.compile(r"~gpu[0-9]"), "a Launchpad archive"),
    (re.compile(r"~?(deb[0-9]+u|bpo)[0-9]+"), "the Debian archive"),
    (re.compile(r"-[0-9]+ubuntu[0-9]+$"), "NVIDIA's repository"),
)


def locked(packages: Packages, fabric: bool = False) -> list[Package]:
    """The installed packages that must have the driver's version; with ``fabric`` fabric manager and IMEX too.

    A version that is no driver version (Debian's nvidia-kernel-common is dated) takes a package out of the set.
    """
    found = []
    for name in sorted(filter(_NAME.fullmatch, packages.by_name)):
        package = packages.by_name[name]
        of_driver = _LOCKED.fullmatch(name) and not _NOT_LOCKED.fullmatch(name)
        if (of_driver or (fabric and _FABRIC.fullmatch(name))) and nvidia_module.VERSION.fullmatch(package.upstream):
            found.append(package)
    return found


def broken(packages: Packages) -> dict[str, str]:
    """Driver packages whose installation did not end, with dpkg's state (``iF`` half configured, ``iU`` unpacked)."""
    return {
        name: package.state
        for name, package in sorted(packages.by_name.items())
        if (_LOCKED.fullmatch(name) or _FABRIC.fullmatch(name)) and package.state[1:2] in ("F", "U", "H", "W")
    }


def origin(version: str) -> str | None:
    """Where a package of this version comes from; None where its version does not tell."""
    return next((name for pattern, name in _ORIGINS if pattern.search(version)), None)


def unowned(node: Node, packages: Packages, paths: list[str]) -> list[str] | Unknown:
    """Which of ``paths`` no package owns."""
    if not paths:
        return []
    if packages.tool == "rpm":
        result = node.run(["rpm", "-qf", *paths])
        if result.error:
            return result.unknown()
        said = result.stdout + result.stderr
        return [path for path in paths if f"{path} is not owned" in said]
    # dpkg's own lists of the packages in question answer without a search through all of them.
    known: set[str] = set()
    for package in locked(packages):
        for name in (package.name, f"{package.name}:{package.architecture}"):
            text = node.read(f"/var/lib/dpkg/info/{name}.list")
            if isinstance(text, str):
                known.update(_merged(line) for line in text.splitlines())
    missing = [path for path in paths if _merged(path) not in known]
    if not missing:
        return []
    # /lib and /usr/lib are one folder on merged systems; the database may spell either.
    asked = [spelling for path in missing for spelling in (path, path[4:]) if spelling.startswith(("/usr/", "/lib/"))]
    result = node.run(["dpkg-query", "-S", *asked])
    if result.error or result.rc not in (0, 1):
        return result.unknown()
    found = {_merged(line.rpartition(": ")[2]) for line in result.stdout.splitlines()}
    if result.rc == 1 and not found and "no path found" not in result.stderr:
        return result.unknown()
    return [path for path in missing if _merged(path) not in found]


def _merged(path: str) -> str:
    path = path.strip()
    return path[4:] if path.startswith("/usr/") else path
