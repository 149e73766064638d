# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""DKMS as its tree in /var/lib/dkms shows it: what is added, built, installed, and why a build failed."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_module

TREE = "/var/lib/dkms"
LOG_LIMIT = 8 << 20

COMPILER = "compiler"
KERNEL_API = "kernel interface"
HEADERS = "headers"
ROOM = "room"
UNCLEAR = "unclear"

# The driver itself under its distributions' names; nvidia-fs, nvidia-peermem and the like are other sources.
_NAME = re.compile(r"nvidia(-(current|open|tesla|srv|server|kmod)[a-z0-9-]*|-[0-9]{3}[a-z0-9-]*)?")
_FOR_KERNEL = re.compile(r"make\.log for \S{1,120} for kernel (\S{1,100})")
_BUILT_BY = re.compile(r"The kernel was built by:\s*(\S{1,80})")
# As an error only: as a note the line follows any other error, too.
_OPTION = re.compile(r"error: (?:unrecognized command[- ]line option|unknown argument:)")
_COMPILER_NAME = r"(?:[a-z0-9_]{1,20}-){0,4}(?:gcc|cc|clang)(?:-[0-9.]{1,8})?"
_NO_COMPILER = re.compile(
    rf"(?<![a-z0-9_-])({_COMPILER_NAME}): (?:command )?not found|"
    rf"make(?:\[[0-9]{{1,3}}\])?: ({_COMPILER_NAME}): No such file"
)
_API = re.compile(r"\.[ch]:[0-9]+(?::[0-9]+)?: (?:fatal )?error:|\.[ch]: error:|ERROR: modpost:|uses GPL-only symbol")
_HEADERS = re.compile(
    r"kernel (?:headers|source).{0,80}(?:cannot be found|not found|seem to be installed)|"
    r"Unable to (?:find|locate) the kernel source|\*\*\* /lib/modules/\S+/build: No such file",
    re.I,
)
_ROOM = re.compile(r"No space left on device|Killed signal terminated program|Cannot allocate memory", re.I)
_ANY_ERROR = re.compile(r"\berror\b|\*\*\*", re.I)


def read(node: Node) -> list[dict[str, Any]] | Unknown:
    """``[{"name", "version", "kernels": {kernel: "built" | "installed"}, "failure"}]`` of the NVIDIA driver's sources.

    A source with no kernel is only "added" (C05). ``failure`` is classify()'s answer about a build that broke.
    """
    names = node.listdir(TREE)
    if isinstance(names, Unknown):
        return names
    found = []
    for name in [name for name in names or [] if _NAME.fullmatch(name)][:8]:
        versions = node.listdir(f"{TREE}/{name}")
        if isinstance(versions, Unknown):
            return versions
        for version in [item for item in versions or [] if nvidia_module.VERSION.fullmatch(item)][:8]:
            folder = f"{TREE}/{name}/{version}"
            log = node.read(f"{folder}/build/make.log", LOG_LIMIT)
            if isinstance(log, Unknown):
                return log
            found.append(
                {
                    "name": name,
                    "version": version,
                    "kernels": _kernels(node, name, version),
                    "failure": None if log is None else {"source": f"{folder}/build/make.log", **classify(log)},
                }
            )
    return found


def _kernels(node: Node, name: str, version: str) -> dict[str, str]:
    states = {}
    folder = f"{TREE}/{name}/{version}"
    for kernel in _names(node, folder):
        if kernel in ("build", "source"):
            continue
        for machine in _names(node, f"{folder}/{kernel}"):
            if not _names(node, f"{folder}/{kernel}/{machine}/module"):
                continue
            # dkms marks what it installed with a link beside the versions.
            link = node.readlink(f"{TREE}/{name}/kernel-{kernel}-{machine}")
            states[kernel] = "installed" if isinstance(link, str) and version in link else "built"
    return states


def _names(node: Node, folder: str) -> list[str]:
    names = node.listdir(folder)
    return names[:50] if isinstance(names, list) else []


def classify(log: str) -> dict[str, Any]:
    """``{"kernel", "kind", "need", "line"}``: why a build broke, from its make.log (C04).

    A rejected option of the compiler is told by the option's text, whatever quotes stand around it. The warning that
    the compiler differs also stands in logs that broke for another reason: alone it decides nothing.
    """
    match = _FOR_KERNEL.search(log[:4096])
    kernel = match.group(1) if match else None
    built_by = _BUILT_BY.search(log)
    need = re.sub(r"^(?:[a-z0-9_]+-linux-gnu-)", "", built_by.group(1)) if built_by else None
    kinds: list[tuple[str, re.Pattern[str]]] = [
        (COMPILER, _OPTION),
        (COMPILER, _NO_COMPILER),
        (HEADERS, _HEADERS),
        (ROOM, _ROOM),
        (KERNEL_API, _API),
    ]
    for kind, pattern in kinds:
        match = pattern.search(log)
        if match:
            if kind == COMPILER and pattern is _NO_COMPILER:
                need = match.group(1) or match.group(2)
            return {
                "kernel": kernel,
                "kind": kind,
                "need": need if kind == COMPILER else None,
                "line": _line(log, match.start()),
            }
    # The lines before the end: the head holds the compiler's whole command line.
    errors = [line.strip()[:200] for line in log.splitlines()[-400:] if _ANY_ERROR.search(line[:400])]
    return {"kernel": kernel, "kind": UNCLEAR, "need": None, "line": errors[0] if errors else ""}


def _line(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)].strip()[:300]
