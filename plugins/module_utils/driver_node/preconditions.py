# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What stands in the way of a change of the driver right now. Reads, and changes nothing."""

from __future__ import annotations

import os
import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import family, locks
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import filesystems

# Whoever has one of them open uses a GPU. Channels of the NVSwitch and IMEX belong to their daemons alone.
DEVICE = re.compile(r"/dev/nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)")
# A root on one of these is gone with the power; so is one whose upper folder is on such a filesystem.
VOLATILE = ("tmpfs", "ramfs", "rootfs", "squashfs")
UPPER = re.compile(r"(?:^|,)upperdir=(/(?:run|cow|dev/shm|overlay)(?:/[^,]*)?)(?:,|$)")
HOLDERS_MAX = 50
INITRAMFS = ("/boot/initrd.img-{kernel}", "/boot/initramfs-{kernel}.img")


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
        "holders": holders(node),
        "room": {path: filesystems.room(node, path) for path in paths},
        "volatile": volatile(node),
        "stale_initramfs": [kernel for kernel in kernels if _stale(node, kernel, newer_than)],
    }


def package_manager(seconds: int) -> str:
    """Why the package manager is not free, after waiting for it; empty where it is (C09)."""
    try:
        locks.wait(family.detect(Machine()), seconds)
    except PlanError as exc:
        return str(exc)
    return ""


def holders(node: Node) -> list[dict[str, Any]] | Unknown:
    """Processes that have a GPU's device open, at most HOLDERS_MAX; those of containers are seen from here, too."""
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
            name = node.value(f"/proc/{pid}/comm")
            found.append({"pid": int(pid), "name": _plain(name), "unit": _unit(node, pid)})
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


def _stale(node: Node, kernel: str, files: list[str]) -> bool:
    images = [made for made in (_changed(node, path.format(kernel=kernel)) for path in INITRAMFS) if made is not None]
    written = [made for made in (_changed(node, path) for path in files) if made is not None]
    return bool(images) and bool(written) and max(written) > max(images)


def _changed(node: Node, path: str) -> float | None:
    try:
        return os.stat(node.path(path)).st_mtime
    except OSError:
        return None
