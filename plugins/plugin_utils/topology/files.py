# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where comparisons are kept: a new folder for each, and the link `latest-topology`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import run_folder

LATEST = "latest-topology"


def write(report: Mapping[str, Any], folder: Path, when: datetime) -> Path:
    """Write topology.json into a new folder ``<time>-topology`` and point ``latest-topology`` to it. Raises OSError.

    ``latest`` stays with the newest readiness report, where tools look for that one.
    """
    target = run_folder.make(folder, when, "topology")
    file = target / "topology.json"
    file.write_text(json.dumps(report, indent=1, ensure_ascii=True, allow_nan=False) + "\n", encoding="utf-8")
    run_folder.point(folder / LATEST, target.name)
    return file
