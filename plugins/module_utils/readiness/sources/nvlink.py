# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`nvidia-smi nvlink -s`: the links of each GPU. Active links are no proof of a working fabric (C33)."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

ARGV = ["nvidia-smi", "nvlink", "-s"]
SOURCE = " ".join(ARGV)

_GPU = re.compile(r"GPU ([0-9]{1,3}):")
_LINK = re.compile(r"\s*Link ([0-9]{1,3}): (?:([0-9]{1,5}(?:\.[0-9]{1,4})?) GB/s|(\S.{0,40}))\s*$")


def links(node: Node) -> dict[str, list[float]] | Unknown:
    """``{GPU number: [GB/s of each link, 0.0 for one that is not active]}`` in the order of nvidia-smi."""
    result = node.run(ARGV)
    if not result.ok:
        return result.unknown()
    found: dict[str, list[float]] = {}
    current: list[float] | None = None
    for line in result.stdout.splitlines():
        gpu = _GPU.match(line)
        if gpu:
            current = found.setdefault(gpu.group(1), [])
            continue
        link = _LINK.match(line)
        if link and current is not None and len(current) < 256:
            current.append(float(link.group(2)) if link.group(2) else 0.0)
    return found or Unknown(f"`{SOURCE}` named no GPU", SOURCE)
