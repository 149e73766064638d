# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report of a run as one document; docs/readiness.schema.json tells its form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import SCHEMA_VERSION, VERDICTS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import judged
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import survey


def document(
    rows: Iterable[dict[str, Any]],
    playbook: str,
    when: datetime,
    version: str,
    declared: Mapping[str, Mapping[str, Any]] | None = None,
    inventory: Iterable[str] = (),
) -> dict[str, Any]:
    """The report: schema, generated (UTC), collection, playbook, inventory, summary (nodes by verdict), fleet, nodes.

    ``declared``: ``{host: {"deployment", "nvlink_domain", "nvlink_partition"}}``, what the inventory says of where a
    node belongs; each row gets its ``place`` from it and from what the nodes observed. ``inventory``: the sources that
    Ansible was given, for the commands that cure.
    """
    found = survey(list(rows), declared or {})
    nodes = [{"host": member.host, "place": member.place(), **member.row} for member in found.members]
    summary = {verdict: sum(1 for node in nodes if node["verdict"] == verdict) for verdict in VERDICTS}
    return {
        "schema": SCHEMA_VERSION,
        "generated": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "collection": version,
        "playbook": playbook,
        "inventory": [redact(source) for source in inventory],
        "summary": {"nodes": len(nodes), **summary},
        "fleet": judged(found),
        "nodes": nodes,
    }
