# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NVIDIA's kernel module: the one that is loaded, and the one on disk that the next load would take.

Versions are read where facts 5.11, 5.12 and 1.37 name them; nothing here parses a banner (C21).
"""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import modules

OPEN = "open"
PROPRIETARY = "proprietary"

PROC_VERSION = "/proc/driver/nvidia/version"
SYS_VERSION = "/sys/module/nvidia/version"
# Debian names the file after its package, not after the module (facts, corrections (Debian names)).
MODULE_NAMES = ("nvidia", "nvidia-current", "nvidia-current-open", "nvidia-open")

VERSION_PATTERN = r"[0-9]{2,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?"
VERSION = re.compile(VERSION_PATTERN)
_VERSION_IN_LINE = re.compile(rf"(?<![0-9.]){VERSION_PATTERN}(?![0-9.])")
_PARAMETER = re.compile(r"([A-Za-z0-9_]{1,64}):\s*(.{0,200})")
PARAMETERS_MAX = 300


def loaded(node: Node) -> dict[str, Any]:
    """``{"version", "flavour", "line"}`` of the loaded module; version None where it is not loaded.

    The kernel tells the version twice; where the two disagree or one is not a version, it is Unknown.
    """
    text = node.read(PROC_VERSION, 4096)
    line = text.splitlines()[0].strip() if isinstance(text, str) and text.strip() else ""
    # Only the first line: the second holds the version of the compiler (facts 5.11).
    match = _VERSION_IN_LINE.search(line) if line.startswith("NVRM version:") else None
    told: list[tuple[str, str | Unknown]] = []
    if isinstance(text, Unknown):
        told.append((PROC_VERSION, text))
    elif text is not None:
        told.append(
            (PROC_VERSION, match.group() if match else Unknown(f"{PROC_VERSION} tells no version", PROC_VERSION))
        )
    value = node.value(SYS_VERSION)
    if isinstance(value, str) and not VERSION.fullmatch(value):
        value = Unknown(f"{SYS_VERSION} holds {value[:40]!r}, which is no driver version", SYS_VERSION)
    if value is not None:
        told.append((SYS_VERSION, value))
    return {"version": _agreed(node, told), "flavour": _flavour_of_line(text, line), "line": line[:200]}


def _agreed(node: Node, told: list[tuple[str, str | Unknown]]) -> str | Unknown | None:
    for _source, value in told:
        if isinstance(value, Unknown):
            return value
    versions = sorted({str(value) for _source, value in told})
    if len(versions) == 1:
        return versions[0]
    if versions:
        return Unknown(
            f"{PROC_VERSION} and {SYS_VERSION} name different versions: {' and '.join(versions)}", PROC_VERSION
        )
    there = modules.loaded(node)
    if isinstance(there, dict) and "nvidia" in there:
        return Unknown("the nvidia module is loaded, and the kernel tells no version of it", PROC_VERSION)
    return None


def _flavour_of_line(text: str | Unknown | None, line: str) -> str | Unknown | None:
    if isinstance(text, Unknown):
        return text
    if text is None:
        return None
    if "Open Kernel Module" in line:
        return OPEN
    if "Kernel Module" in line:
        return PROPRIETARY
    return Unknown(f"the first line of {PROC_VERSION} names no flavour", PROC_VERSION)


def on_disk(node: Node, kernel: str) -> dict[str, Any] | Unknown | None:
    """``{"version", "flavour", "license", "filename"}`` of the module ``kernel`` would load, None without one."""
    found = modules.on_disk(node, MODULE_NAMES, "" if kernel == node.kernel() else kernel)
    if not isinstance(found, dict):
        return found
    version, licence = found.get("version", ""), found.get("license", "")
    if not VERSION.fullmatch(version):
        return Unknown(f"modinfo names no driver version of the nvidia module ({version[:40]!r})", "modinfo nvidia")
    # The licence of the module `nvidia` only: uvm, drm and peermem have free licences in both flavours (C17).
    flavours = {"Dual MIT/GPL": OPEN, "MIT": OPEN, "NVIDIA": PROPRIETARY}
    flavour = flavours.get(licence) or Unknown(
        f"the licence of the nvidia module is {licence[:40]!r}", "modinfo nvidia"
    )
    return {"version": version, "flavour": flavour, "license": licence, "filename": found.get("filename", "")}


def parameters(node: Node) -> dict[str, str] | Unknown | None:
    """The module's options in force (``EnableStreamMemOPs: 0``), without the prefix NVreg_. Source: facts 1.44."""
    text = node.read("/proc/driver/nvidia/params", 65536)
    if not isinstance(text, str):
        return text
    found = {}
    for line in text.splitlines()[:PARAMETERS_MAX]:
        match = _PARAMETER.fullmatch(line.strip())
        if match:
            found[match.group(1)] = match.group(2).strip().strip('"')
    return found
