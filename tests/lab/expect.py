#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`expect.py FOLDER COUNT`: compares every report below FOLDER with what is known of the lab's nodes.

Each of COUNT reports has to hold each node of the inventory once, with the verdict, the root cause and exactly the
failing, unknown and warning checks that are written beside the node. Prints what differs, and ends with 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.variants import observed
from ansible_collections.gpufleet.kimi_k3.tests.lab.inventory import inventory


def differences(report: dict[str, Any], nodes: dict[str, dict[str, Any]]) -> list[str]:
    """One line for each thing that the report says otherwise than it should."""
    rows = report["nodes"]
    found = []
    if sorted(row["host"] for row in rows) != sorted(nodes):
        found.append(f"rows are {sorted(row['host'] for row in rows)} instead of {sorted(nodes)}")
    for row in rows:
        known = nodes.get(row["host"], {})
        told = {"state": row["state"], **observed(row)}
        for name, expected in known.get("lab_expected", {}).items():
            if told[name] != expected:
                found.append(f"{row['host']}: {name} is {told[name]} instead of {expected}")
        if known.get("lab_says", "") not in (row["reason"] or ""):
            found.append(f"{row['host']}: the reason does not say {known['lab_says']!r}: {row['reason']}")
    return found


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    nodes = inventory()["_meta"]["hostvars"]
    reports = sorted(path for path in folder.glob("*/readiness.json") if not path.parent.is_symlink())
    found = [] if len(reports) == count else [f"{len(reports)} reports instead of {count} below {folder}"]
    for path in reports:
        found += [f"{path.parent.name}: {line}" for line in differences(json.loads(path.read_text()), nodes)]
    print("\n".join(found) or f"{count} reports on {len(nodes)} nodes say what they should.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
