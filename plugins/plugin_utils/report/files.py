# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where reports are kept: a new folder for each, and the link `latest`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any


def write(report: Mapping[str, Any], folder: Path, playbook: str, when: datetime) -> Path:
    """Write readiness.json into a new folder ``<time>-<playbook>`` below ``folder`` and point ``latest`` to it.

    An earlier report is never overwritten; a run that dies half-way leaves ``latest`` as it was. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{when.strftime('%Y%m%dT%H%M%SZ')}-{playbook}"
    for number in range(1000):
        target = folder / (stem if not number else f"{stem}.{number}")
        with contextlib.suppress(FileExistsError):
            target.mkdir()
            break
    else:
        raise FileExistsError(f"{folder} already holds a thousand reports of this second")
    file = target / "readiness.json"
    file.write_text(json.dumps(report, indent=1, sort_keys=False, ensure_ascii=True) + "\n", encoding="utf-8")
    _point(folder / "latest", target.name)
    return file


def _point(link: Path, target: str) -> None:
    """Make ``link`` point to ``target`` in one step, so that a reader sees the old report or the new one."""
    if link.exists() and not link.is_symlink():
        raise FileExistsError(f"{link} is not a link; move it away, it would be replaced by one")
    fresh = link.with_name(f".latest.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
