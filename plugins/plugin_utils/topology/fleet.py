# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The topology of a fleet, declared and found, and what becomes of the topology file. Changes nothing by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import node_row
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import Seen, compare
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.declare import Declared, declared, to_write
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.groups import named
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import (
    TopologyFile,
    render,
    updated,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.seen import seen, told_by_plugin


@dataclass(frozen=True)
class NodeInput:
    """What is known of one node before it is compared.

    ``result``: the registered result of its probe task; ``variables``: its inventory variables; ``raw``: the same, not
    evaluated; ``first_met``: the inventory in which Ansible first met it.
    """

    host: str
    result: Any
    variables: Mapping[str, Any]
    raw: Mapping[str, Any] = field(default_factory=dict)
    first_met: str = ""


@dataclass(frozen=True)
class Compared:
    """A node's row, what was seen of it and what it declares; the domain in which gpu_fabric saw it."""

    row: dict[str, Any]
    seen: Seen
    declared: Declared
    plugin_domain: str = ""


def compare_all(nodes: Iterable[NodeInput], file: TopologyFile, path: str, loaded: bool) -> list[Compared]:
    """Every node compared. ``file``: the topology file at ``path``; ``loaded``: whether Ansible has read it."""
    in_file = file.hosts
    return [_compared(node, in_file.get(node.host, {}), path if loaded else "") for node in nodes]


def _compared(node: NodeInput, in_file: Mapping[str, Any], path: str) -> Compared:
    plugin = told_by_plugin(node.raw)
    known = declared(node.variables, plugin[0] or {}, in_file, bool(path))
    found = seen(node_row(node.host, node.result), plugin, known.values)
    row = compare(node.host, known.values, found)
    if not found.by and path and node.first_met == path:
        # A node that was taken out of the fleet stays in the inventory as long as this file names it.
        row["reason"] += f"; where it was taken out of the fleet, take it out of {path} as well"
    return Compared(row, found, known, str((plugin[0] or {}).get("k3_nvlink_domain") or ""))


def conflicts(nodes: Iterable[Compared]) -> list[dict[str, Any]]:
    """``[{"host", "variable", "file", "used"}]``: what the topology file declares and another place overrules."""
    return [
        {
            "host": node.row["host"],
            "variable": name,
            "file": node.declared.file[name],
            "used": node.declared.values.get(name),
        }
        for node in nodes
        for name in node.declared.conflicts
    ]


def new_text(
    nodes: Iterable[Compared], old: TopologyFile, old_text: str, when: datetime, groups: Mapping[str, Iterable[str]]
) -> str:
    """The text that the topology file is to have: ``old_text`` itself where there is nothing to change in it.

    A file in which nothing at all would be declared is not made. ``groups``: the inventory's, hosts by group; a domain
    that gpu_fabric has named keeps that name.
    """
    values: dict[str, Mapping[str, Any]] = {}
    notes: dict[str, str | None] = {}
    counts: dict[str, int] = {}
    domain_of: dict[str, str] = {}
    for node in nodes:
        host = node.row["host"]
        values[host], notes[host] = to_write(node.row, node.seen, node.declared)
        domain_of[host] = node.plugin_domain
        counts[node.seen.by] = counts.get(node.seen.by, 0) + 1
    new = updated(old, values, notes, named(groups, domain_of))
    if not new.hosts or (old.data and render(new) == render(old)):
        return old_text
    sources = ", ".join(f"{number} by {by}" for by, number in sorted(counts.items()) if by) or "none"
    new.changed = f"{when.strftime('%Y-%m-%dT%H:%M:%SZ')}; of {sum(counts.values())} nodes asked were seen: {sources}"
    return render(new)
