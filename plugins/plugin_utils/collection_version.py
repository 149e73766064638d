# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The version of this collection, as reports name it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def collection_version(root: Path = ROOT) -> str:
    """From MANIFEST.json where the collection is installed, from galaxy.yml in a clone; ``unknown`` from neither."""
    try:
        manifest = root / "MANIFEST.json"
        if manifest.is_file():
            return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
        return str(yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))["version"])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return "unknown"
