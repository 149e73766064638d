# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Processes that have a GPU open. Asked only before a change of what runs."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# Whoever has one of them open uses a GPU. Channels of the NVSwitch and IMEX belong to their daemons alone.
DEVICE = re.compile(r"/dev/nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)")
HOLDERS_MAX = 50


def read(node: Node) -> list[dict[str, Any]] | Unknown:
    """``[{"pid", "name", "unit"}]``, at most HOLDERS_MAX; processes in containers are seen from here, too."""
    if not node.is_root():
        return Unknown("needs root: the open files of other users' processes are hidden", "/proc")
    entries = node.listdir("/proc")
    if not isinstance(entries, list):
        return entries if isinstance(entries, Unknown) else Unknown("there is no /proc", "/proc")
    found = []
    for pid in sorted((entry for entry in entries if entry.isdigit()), key=int):
        files = node.listdir(f"/proc/{pid}/fd")
        # A process that ended meanwhile, or a thread of the kernel.
        if not isinstance(files, list):
            continue
        targets = (node.readlink(f"/proc/{pid}/fd/{name}") for name in files)
        if any(isinstance(target, str) and DEVICE.fullmatch(target) for target in targets):
            found.append({"pid": int(pid), "name": _plain(node.value(f"/proc/{pid}/comm")), "unit": _unit(node, pid)})
            if len(found) == HOLDERS_MAX:
                break
    return found


def _plain(name: Any) -> str:
    """A process calls itself as it likes: nothing of it may act on a terminal."""
    return re.sub(r"[^A-Za-z0-9_.:@+-]", "?", name)[:60] if isinstance(name, str) else "?"


def _unit(node: Node, pid: str) -> str:
    """The unit or container a process belongs to, by its control group."""
    text = node.read(f"/proc/{pid}/cgroup", 4096)
    last = text.strip().splitlines()[-1].rsplit("/", 1)[-1] if isinstance(text, str) and text.strip() else ""
    return _plain(last) if last else ""
