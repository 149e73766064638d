# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where comparisons are kept: a new folder for each, and the link `latest-topology`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

LATEST = "latest-topology"


def write(report: Mapping[str, Any], folder: Path, when: datetime) -> Path:
    """Write topology.json into a new folder ``<time>-topology`` and point ``latest-topology`` to it. Raises OSError.

    ``latest`` stays with the newest readiness report, where tools look for that one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{when.strftime('%Y%m%dT%H%M%SZ')}-topology"
    for number in range(1000):
        target = folder / (stem if not number else f"{stem}.{number}")
        with contextlib.suppress(FileExistsError):
            target.mkdir()
            break
    else:
        raise FileExistsError(f"{folder} already holds a thousand comparisons of this second")
    file = target / "topology.json"
    file.write_text(json.dumps(report, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    link, fresh = folder / LATEST, folder / f".{LATEST}.{os.getpid()}"
    if link.exists() and not link.is_symlink():
        raise FileExistsError(f"{link} is not a link; move it away, it would be replaced by one")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target.name)
    fresh.replace(link)
    return file
