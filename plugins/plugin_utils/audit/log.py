# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The file of the audit record: lines are only ever added, by many processes at once."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NAME = "audit.jsonl"


def append(folder: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """Add lines, whole and on the disk before this returns; answer with the file (mode 0600). Raises OSError."""
    content = b"".join(json.dumps(line, ensure_ascii=True).encode("ascii") + b"\n" for line in lines)
    path = folder / NAME
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no file")
        # Until the file is closed: one process at a time, and the kernel lets go of it when a process dies.
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        if size and os.pread(file.fileno(), 1, size - 1) != b"\n":
            # A process was killed, or the disk was full, in the middle of a line: it stays by itself.
            content = b"\n" + content
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    return path


def read(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """All whole lines of a record, and how many are torn. Raises OSError."""
    lines, torn = [], 0
    for text in (folder / NAME).read_text(encoding="ascii", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            torn += 1
            continue
        if isinstance(line, dict):
            lines.append(line)
        else:
            torn += 1
    return lines, torn
