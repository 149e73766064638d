# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which modules a kernel has on disk, by the lists that depmod wrote: also one that does not run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# The list of a distribution's kernel is close to a mebibyte.
LIMIT = 16 << 20
_FILE = re.compile(r"(?:.*/)?([^/]+?)\.ko(?:\.(?:gz|xz|zst))?")


def missing(node: Node, kernel: str, names: Iterable[str]) -> list[str] | Unknown:
    """Those of ``names`` that are neither on disk for ``kernel`` nor built into it."""
    folder = f"/lib/modules/{kernel}"
    listed = node.read(f"{folder}/modules.dep", LIMIT)
    if isinstance(listed, Unknown):
        return listed
    if listed is None:
        return Unknown(f"{folder}/modules.dep is not there, so what modules kernel {kernel} has is not known", folder)
    built_in = node.read(f"{folder}/modules.builtin", LIMIT)
    if isinstance(built_in, Unknown):
        return built_in
    paths = [line.split(":", 1)[0] for line in listed.splitlines()] + (built_in or "").splitlines()
    # A name may be written with - or with _, and both mean the same.
    there = {match.group(1).replace("-", "_") for match in map(_FILE.fullmatch, map(str.strip, paths)) if match}
    return [name for name in names if name not in there]
