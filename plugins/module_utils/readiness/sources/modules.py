# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kernel modules: what is loaded, and what the next load would take from disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

FIELDS = ("version", "license", "filename", "depends", "vermagic", "srcversion", "signer")


@dataclass(frozen=True)
class Loaded:
    """One line of /proc/modules: use count and the modules that use it."""

    name: str
    uses: int
    users: list[str] = field(default_factory=list)


def loaded(node: Node) -> dict[str, Loaded] | Unknown:
    """The loaded modules by name; Unknown where the kernel has no module list or it cannot be read."""
    text = node.read("/proc/modules")
    if isinstance(text, Unknown):
        return text
    if text is None:
        return Unknown("this kernel has no /proc/modules", "/proc/modules")
    found = {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 4 and parts[2].isdigit():
            users = [] if parts[3] == "-" else [name for name in parts[3].split(",") if name and name != "[permanent]"]
            found[parts[0]] = Loaded(parts[0], int(parts[2]), users)
    return found


def on_disk(node: Node, names: Sequence[str], kernel: str = "") -> dict[str, str] | Unknown | None:
    """modinfo of the first of ``names`` (Debian's file is nvidia-current) for ``kernel`` (default: the running one).

    None where no module of that name is on disk for that kernel; Unknown where modinfo cannot be asked.
    """
    for name in names:
        result = node.run(["modinfo"] + (["-k", kernel] if kernel else []) + [name])
        if result.error:
            return result.unknown()
        if result.rc == 0:
            values: dict[str, str] = {}
            for line in result.stdout.splitlines():
                key, colon, value = line.partition(":")
                if colon and key.strip() in FIELDS:
                    values.setdefault(key.strip(), value.strip())
            return values if values else Unknown(f"`{result.source}` said nothing readable", result.source)
        if "not found" not in result.stderr:
            return result.unknown()
    return None
