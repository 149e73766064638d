# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options that configuration files and the boot arguments give to the module nvidia, as modprobe reads them."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import boot

# A file of an earlier folder takes the place of one of the same name in a later one. Source: modprobe.d(5).
FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
# Debian's file is nvidia-current (facts, corrections (Debian names)).
_LINE = re.compile(r"\s*options\s+nvidia(?:[-_]current(?:[-_]open)?|[-_]open)?\s+(.*)")
_ARGUMENT = re.compile(r"nvidia\.(\w+)=(.*)")
OPTION = re.compile(r"(NVreg_\w+)=(\S*)")


def read(node: Node) -> list[dict[str, Any]] | Unknown:
    """``[{"source", "option", "value"}]`` of every NVreg option that is set, in files and in the boot arguments."""
    found: list[dict[str, Any]] = []
    seen: set[str] = set()
    for folder in FOLDERS:
        names = node.listdir(folder)
        if isinstance(names, Unknown):
            return names
        for name in names or []:
            if not name.endswith(".conf") or name in seen:
                continue
            seen.add(name)
            text = node.read(f"{folder}/{name}")
            if isinstance(text, Unknown):
                return text
            found += _of_file(f"{folder}/{name}", text or "")
    arguments = boot.arguments(node)
    if isinstance(arguments, Unknown):
        return arguments
    for argument in arguments:
        match = _ARGUMENT.fullmatch(argument)
        if match and match.group(1).startswith("NVreg_"):
            found.append({"source": "/proc/cmdline", "option": match.group(1), "value": _bare(match.group(2))})
    return found


def _of_file(path: str, text: str) -> list[dict[str, Any]]:
    # A backslash at the end of a line joins the next one to it.
    lines = text.replace("\\\n", " ").splitlines()
    return [
        {"source": path, "option": name, "value": _bare(value)}
        for match in map(_LINE.fullmatch, lines)
        if match
        for name, value in OPTION.findall(match.group(1))
    ]


def _bare(value: str) -> str:
    return value.strip("\"'")[:200]
