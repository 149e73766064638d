# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a node declares beside what it shows: a state for each variable. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.variables import (
    OBSERVABLE,
    is_open,
    same,
)

# Both say the same · declared is another value than the node's own choice, and it holds there · they are not the same ·
# the node shows a value that nobody declared · it could not be read · there is none, and none is declared.
SAME, HOLDS, DIFFERS, UNDECLARED, UNKNOWN, NONE = "same", "holds", "differs", "undeclared", "unknown", "none"
STATES = (SAME, HOLDS, DIFFERS, UNDECLARED, UNKNOWN, NONE)


@dataclass(frozen=True)
class Seen:
    """What was seen of one node.

    ``by``: probe, gpu_fabric (the inventory plugin), or empty where neither saw it, for ``reason``.
    ``values``: clean values by variable; a variable that is neither here nor in ``unknown`` (with why) is one that the
    node does not have. ``holding``: the choices among the declared values that the probe found to hold.
    ``gpus``: how many it has; None where that is not known.
    """

    by: str
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    holding: frozenset[str] = frozenset()
    gpus: int | None = None


def compare(host: str, declared: Mapping[str, Any], seen: Seen) -> dict[str, Any]:
    """The row of one node.

    ``{"host", "seen": by or None, "reason", "variables": {name: {"declared", "discovered", "state", "reason"}}}``;
    a value that is not there is None. ``declared``: clean values by variable.
    """
    return {
        "host": host,
        "seen": seen.by or None,
        "reason": seen.reason or None,
        "variables": {name: _cell(name, declared.get(name), seen) for name in OBSERVABLE},
    }


def _cell(name: str, declared: Any, seen: Seen) -> dict[str, Any]:
    discovered = seen.values.get(name)
    wanted = declared if declared is not None and not is_open(name, declared) else None
    reason = None
    if not seen.by or name in seen.unknown:
        state, reason = UNKNOWN, seen.unknown.get(name) or seen.reason
    elif wanted is not None and discovered is not None and same(wanted, discovered):
        state = SAME
    elif wanted is not None and name in seen.holding:
        state = HOLDS
    elif wanted is not None:
        state = DIFFERS
    elif discovered is not None:
        state = UNDECLARED
    else:
        state = NONE
    return {"declared": declared, "discovered": discovered, "state": state, "reason": reason}


def gate_fault(rows: list[dict[str, Any]]) -> str:
    """Why the declared topology is not the one that is there; empty where every declared value was found to be so.

    A declared value that could not be read is not confirmed, and where nothing is declared nothing was compared.
    """
    wrong: dict[str, list[str]] = {DIFFERS: [], UNKNOWN: []}
    confirmed = False
    for row in rows:
        for name, cell in row["variables"].items():
            if cell["state"] in (SAME, HOLDS):
                confirmed = True
            elif cell["state"] == DIFFERS:
                wrong[DIFFERS].append(f"{row['host']}: {name}")
            elif cell["state"] == UNKNOWN and cell["declared"] is not None and not is_open(name, cell["declared"]):
                wrong[UNKNOWN].append(f"{row['host']}: {name}")
    parts = [
        f"{len(found)} declared values {words} ({', '.join(found[:3])}{', …' if len(found) > 3 else ''})"
        for found, words in ((wrong[DIFFERS], "are not what is there"), (wrong[UNKNOWN], "could not be read"))
        if found
    ]
    if not parts and not confirmed:
        return "no value of the topology is declared, so there is nothing to hold what was found against"
    return " and ".join(parts)
