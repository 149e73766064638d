# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Puts a file in another's place in one step, and keeps the old one."""

from __future__ import annotations

import contextlib
import os
import shutil
from datetime import datetime
from pathlib import Path


def replace(path: Path, text: str, when: datetime) -> Path | None:
    """Make ``path`` hold ``text``; answers where the old file is kept, None where there was none. Raises OSError.

    A reader sees the old file or the new one, also where this is killed half-way. Mode and owner stay as they were;
    a new file has those of any file the user makes. The old one is kept beside it as ``<name>.<time>.bak``, which
    Ansible does not read as an inventory, and neither does it the unfinished one, whose name begins with a dot.
    """
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        kept = None
        if target.exists():
            _like(fresh, target)
            kept = _keep(target, when)
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)
    return kept


def _like(fresh: Path, old: Path) -> None:
    status = old.stat()
    # Only root may give a file away; without that it belongs to who writes it, as with any editor.
    with contextlib.suppress(PermissionError):
        os.chown(fresh, status.st_uid, status.st_gid)
    fresh.chmod(status.st_mode & 0o7777)


def _keep(old: Path, when: datetime) -> Path:
    stem = f"{old.name}.{when.strftime('%Y%m%dT%H%M%SZ')}"
    for number in range(1000):
        kept = old.with_name(f"{stem}.bak" if not number else f"{stem}.{number}.bak")
        try:
            # The same file under a second name: whole at once.
            os.link(old, kept)
        except FileExistsError:
            continue
        except OSError:
            # A file system without hard links, or a file of another user.
            if kept.exists():
                continue
            shutil.copy2(old, kept)
        return kept
    raise FileExistsError(f"{old.parent} already holds a thousand old copies of this second")
