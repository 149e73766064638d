# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What stands in the way of a change of the driver right now. Reads, and changes nothing."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import family, locks
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    filesystems,
    gpu_holders,
    initramfs,
)

# A root on one of these is gone with the power; so is one whose upper folder is on such a filesystem.
VOLATILE = ("tmpfs", "ramfs", "rootfs", "squashfs")
UPPER = re.compile(r"(?:^|,)upperdir=(/(?:run|cow|dev/shm|overlay)(?:/[^,]*)?)(?:,|$)")


def read(
    node: Node, paths: list[str], kernels: list[str], newer_than: list[str], wait: int | None = None
) -> dict[str, Any]:
    """``{"package_manager", "holders", "room", "volatile", "stale_initramfs"}``; what cannot be read is Unknown.

    ``package_manager``: who still uses it after ``wait`` seconds, empty where nobody does (or with None, not asked).

    ``holders``: ``[{"pid", "name", "unit"}]`` of processes with a GPU open. ``room``: ``{path: {"free" (bytes),
    "mount"}}``. ``volatile``: why the root is not kept over a reboot, empty where it is. ``stale_initramfs``: the
    ``kernels`` whose initramfs is older than one of the files ``newer_than``.
    """
    return {
        "package_manager": "" if wait is None else package_manager(wait),
        "holders": gpu_holders.read(node),
        "room": {path: filesystems.room(node, path) for path in paths},
        "volatile": volatile(node),
        "stale_initramfs": [kernel for kernel in kernels if initramfs.stale(node, kernel, newer_than)],
    }


def package_manager(seconds: int) -> str:
    """Why the package manager is not free, after waiting for it; empty where it is (C09)."""
    try:
        locks.wait(family.detect(Machine()), seconds)
    except PlanError as exc:
        return str(exc)
    return ""


def volatile(node: Node) -> str | Unknown:
    """Why what is written to the root is gone after a reboot (a live or diskless system); empty where it is kept."""
    text = node.read("/proc/self/mountinfo")
    if not isinstance(text, str):
        return (
            text if isinstance(text, Unknown) else Unknown("there is no /proc/self/mountinfo", "/proc/self/mountinfo")
        )
    # The last mount on a place is the one that is seen.
    root = [line.split() for line in text.splitlines() if len(line.split()) > 6 and line.split()[4] == "/"]
    if not root or "-" not in root[-1]:
        return Unknown("/proc/self/mountinfo shows no root", "/proc/self/mountinfo")
    words = root[-1]
    mark = words.index("-")
    kind, options = words[mark + 1], words[-1]
    if kind in VOLATILE:
        return f"it is a {kind}"
    upper = UPPER.search(options) if kind == "overlay" else None
    return f"it is an overlay over {upper.group(1)}" if upper else ""
