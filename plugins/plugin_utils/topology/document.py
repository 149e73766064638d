# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The comparison of a run as one document; docs/topology.schema.json tells its form."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import STATES

SCHEMA_VERSION = "1.0"


def document(
    rows: list[dict[str, Any]], conflicts: list[dict[str, Any]], when: datetime, version: str
) -> dict[str, Any]:
    """The report: schema, generated (UTC), collection, playbook, summary, nodes, conflicts (see fleet.conflicts()).

    Summary: nodes, those not seen, values by state.
    """
    cells = [cell["state"] for row in rows for cell in row["variables"].values()]
    return {
        "schema": SCHEMA_VERSION,
        "generated": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "collection": version,
        "playbook": "topology",
        "summary": {
            "nodes": len(rows),
            "not_seen": sum(1 for row in rows if row["seen"] is None),
            "values": {state: cells.count(state) for state in STATES},
        },
        "nodes": rows,
        "conflicts": conflicts,
    }
