# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Many nodes on one screen: how many share a cause, which nodes for example, and the cure once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import VERDICTS

# Rows of each kind that fit a screen.
SHOWN = 20
DEGRADING = ("warn", "unknown", "skipped")


@dataclass(frozen=True)
class Cause:
    """What keeps ``nodes`` from being ready. ``remedy``: what cures most of them; ``others`` need another cure."""

    name: str
    verdict: str
    nodes: Sequence[Mapping[str, Any]]
    remedy: Mapping[str, Any] | None
    others: int


def causes(nodes: Sequence[Mapping[str, Any]]) -> list[Cause]:
    """The causes of all nodes that are not ready, the worst verdict first and then the most frequent."""
    groups: dict[tuple[str, str], list[tuple[Mapping[str, Any], Any]]] = {}
    for node in nodes:
        cause = _cause(node)
        if cause:
            name, remedy = cause
            groups.setdefault((node["verdict"], name), []).append((node, remedy))
    found = []
    for (verdict, name), held in groups.items():
        actions = Counter(remedy["action"] for _node, remedy in held if remedy)
        most = actions.most_common(1)[0][0] if actions else None
        remedy = next((remedy for _node, remedy in held if remedy and remedy["action"] == most), None)
        others = sum(1 for _node, remedy in held if (remedy["action"] if remedy else None) != most)
        found.append(Cause(name, verdict, [node for node, _remedy in held], remedy, others))
    return sorted(found, key=lambda cause: (-VERDICTS.index(cause.verdict), -len(cause.nodes), cause.name))


def _cause(node: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None] | None:
    """Name and remedy of what explains a node: its root cause, else the first of what degrades it."""
    if node["root_cause"]:
        return node["root_cause"], node["remedy"]
    first = next(_degraders(node), None)
    return (f"{first['id']} ({first['status']})", first["remedy"]) if first else None


def _degraders(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (check for check in node["checks"] if check["status"] in DEGRADING)


def worst(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The nodes that are not ready, worst first: by verdict, then by how many of their checks fail, then by name.

    A node that was not probed comes after those that were: of it no more is known than its cause says already.
    """

    def rank(node: Mapping[str, Any]) -> tuple[int, int, int, str]:
        failing = sum(1 for check in node["checks"] if check["status"] == "fail")
        rest = sum(1 for check in node["checks"] if check["status"] in DEGRADING)
        return -VERDICTS.index(node["verdict"]), -failing, -rest, node["host"]

    return sorted((node for node in nodes if node["verdict"] != VERDICTS[0]), key=rank)
