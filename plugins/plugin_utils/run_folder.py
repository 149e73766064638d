# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A new folder for what one run writes, never one that is there, and a link to the newest of them."""

from __future__ import annotations

import contextlib
import os
from datetime import datetime
from pathlib import Path


def make(parent: Path, when: datetime, name: str, mode: int = 0o777) -> Path:
    """Make ``<time>-<name>`` below ``parent``, with a number behind it where that is taken. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True)
    stem = f"{when.strftime('%Y%m%dT%H%M%SZ')}-{name}"
    for number in range(1000):
        folder = parent / (f"{stem}.{number}" if number else stem)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=mode)
            return folder
    raise FileExistsError(f"{parent} already holds a thousand folders {stem}")


def point(link: Path, target: str) -> None:
    """Make ``link`` point to ``target`` in one step, so that a reader sees the old one or the new. Raises OSError."""
    if link.exists() and not link.is_symlink():
        raise FileExistsError(f"{link} is not a link; move it away, it would be replaced by one")
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
