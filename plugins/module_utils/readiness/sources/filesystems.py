# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Room on a filesystem, asked of `df` in a process of its own: a dead network mount costs its time limit only."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

DF = ["df", "-B1", "--output=file,fstype,avail,itotal,iavail,target", "--"]
# The files of a checkpoint, through the links of a download cache, each with its device and inode so that two links to
# one file count once: %b allocated blocks of 512 bytes, %s size.
FIND_LIMIT = 5
INDEX = "model.safetensors.index.json"
FILES_MAX = 2000


def room(node: Node, path: str) -> dict[str, Any] | Unknown:
    """``{"at", "fstype", "free" (bytes), "inodes" (free ones, None where there is no limit), "mount"}`` for ``path``.

    ``at`` is ``path``, or its nearest existing parent where it is still to be made.
    """
    paths = _and_parents(path)
    result = node.run([*DF, *paths])
    if result.error:
        return result.unknown()
    denied = [line for line in result.stderr.splitlines() if ": No such file or directory" not in line and line.strip()]
    if denied:
        said = denied[0].strip()
        if "Permission denied" in said and not node.is_root():
            return Unknown("needs root", path)
        return Unknown(f"df said: {said[:200]}", path)
    rows = {}
    for line in result.stdout.splitlines():
        # The argument stands first and may not hold blanks (the contract's paths do not), the mount point last and may.
        parts = line.split(None, 5)
        if len(parts) == 6 and parts[0] in paths:
            rows[parts[0]] = parts
    for candidate in paths:
        if candidate in rows:
            _file, fstype, free, inodes, inodes_free, mount = rows[candidate]
            if not re.fullmatch(r"\d{1,20}", free):
                return Unknown(f"df tells no free room for {candidate}", path)
            limited = re.fullmatch(r"[1-9]\d{0,19}", inodes) and re.fullmatch(r"\d{1,20}", inodes_free)
            return {
                "at": candidate,
                "fstype": fstype,
                "free": int(free),
                # Filesystems that make inodes as they need them report none at all.
                "inodes": int(inodes_free) if limited else None,
                "mount": mount.strip(),
            }
    return Unknown(f"df tells nothing of {path}", path)


def find_argv(path: str) -> list[str]:
    """The command that lists the checkpoint files below ``path``."""
    names = ["(", "-name", "*.safetensors", "-o", "-name", INDEX, ")"]
    return ["find", "-L", path, "-maxdepth", str(FIND_LIMIT), "-type", "f", *names, "-printf", r"%D:%i %b %s %p\n"]


def weights(node: Node, path: str) -> dict[str, Any] | Unknown:
    """What already is at ``path``: ``{"files", "bytes" (allocated), "complete"}``.

    ``complete``: all that the checkpoint's index announces is allocated.
    """
    result = node.run(find_argv(path))
    if result.error:
        return result.unknown()
    files: dict[str, int] = {}
    index = ""
    for line in result.stdout.splitlines()[:FILES_MAX]:
        match = re.fullmatch(r"(\d{1,20}:\d{1,20}) (\d{1,15}) (\d{1,20}) (/.*)", line)
        if match is None:
            continue
        identity, blocks, size, name = match.groups()
        if name.endswith("/" + INDEX):
            index = index or name
        else:
            # Some network filesystems report no blocks; a file that was only made long has few.
            files[identity] = min(int(size), int(blocks) * 512) if int(blocks) else int(size)
    if result.rc != 0 and not files:
        missing = "No such file or directory" in result.stderr
        return {"files": 0, "bytes": 0, "complete": False} if missing else result.unknown()
    there = sum(files.values())
    announced = _announced(node, index) if index else None
    return {"files": len(files), "bytes": there, "complete": announced is not None and 0 < announced <= there}


def _announced(node: Node, path: str) -> int | None:
    """The size an index announces; it stands in its first lines."""
    result = node.run(["head", "-c", "4096", "--", path])
    match = re.search(r"\"total_size\"\s*:\s*(\d{1,18})", result.stdout) if result.ok else None
    return int(match.group(1)) if match else None


def _and_parents(path: str) -> list[str]:
    """``/a/b`` -> /a/b, /a, /."""
    parts = [part for part in path.split("/") if part]
    return ["/" + "/".join(parts[:count]) for count in range(len(parts), 0, -1)] + ["/"]
