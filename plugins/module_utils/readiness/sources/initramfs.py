# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a kernel's initramfs is older than configuration that stands in it. Asked only before a change."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

PLACES = ("/boot/initrd.img-{kernel}", "/boot/initramfs-{kernel}.img")


def stale(node: Node, kernel: str, files: Iterable[str]) -> bool | None:
    """Whether one of ``files`` was written after it; those that are not there do not count. None: it has none."""
    made = _changed(node, (place.format(kernel=kernel) for place in PLACES))
    written = _changed(node, files)
    return None if not made else bool(written) and max(written) > max(made)


def changed(node: Node, path: str) -> float | None:
    """When a file was last written, in seconds since 1970; None where it cannot be told."""
    try:
        return os.stat(node.path(path)).st_mtime
    except OSError:
        return None


def _changed(node: Node, paths: Iterable[str]) -> list[float]:
    return [when for when in (changed(node, path) for path in paths) if when is not None]
