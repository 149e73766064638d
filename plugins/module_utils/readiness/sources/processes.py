# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The names of the running processes, as the kernel tells them."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# The kernel keeps this much of a name: nv-fabricmanager is seen as nv-fabricmanage.
NAME_LENGTH = 15


def names(node: Node) -> set[str] | Unknown:
    """The names (at most NAME_LENGTH characters) of all processes; a process that ended meanwhile is left out."""

    def load() -> set[str] | Unknown:
        entries = node.listdir("/proc")
        if not isinstance(entries, list):
            return entries if isinstance(entries, Unknown) else Unknown("there is no /proc", "/proc")
        if not any(entry.isdigit() for entry in entries):
            return Unknown("/proc shows no process", "/proc")
        # hidepid=2 hides the folders of other users' processes, hidepid=1 only what is in them.
        if not isinstance(node.value("/proc/1/comm"), str):
            return Unknown("needs root: the processes of other users are hidden (hidepid)", "/proc")
        told = [node.value(f"/proc/{entry}/comm") for entry in entries if entry.isdigit()]
        return {name for name in told if isinstance(name, str)}

    return node.once("process names", load)


def running(node: Node, name: str) -> bool | Unknown:
    """Whether a process of that name runs; names longer than the kernel keeps are compared by their head."""
    found = names(node)
    return found if isinstance(found, Unknown) else name[:NAME_LENGTH] in found
