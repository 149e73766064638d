#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`compare.py BEFORE AFTER`: prints what two manifests of a node differ in, and ends with 1 where they do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SHOWN = 20


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each thing that came, went or changed."""
    found = []
    for part in sorted({*before, *after}):
        old, new = _by_name(before.get(part, [])), _by_name(after.get(part, []))
        for name in sorted({*old, *new}):
            if name not in new:
                found.append(f"{part}: {name} is gone")
            elif name not in old:
                found.append(f"{part}: {name} is new")
            elif old[name] != new[name]:
                found.append(f"{part}: {name} changed from {old[name]} to {new[name]}")
    return found


def _by_name(listed: Any) -> dict[str, Any]:
    """Files by path; lines by themselves, with how often each is there."""
    return listed if isinstance(listed, dict) else {line: listed.count(line) for line in listed}


def main() -> None:
    before, after = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:3])
    found = differences(before, after)
    for line in found[:SHOWN]:
        print(line)
    if len(found) > SHOWN:
        print(f"and {len(found) - SHOWN} more")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
