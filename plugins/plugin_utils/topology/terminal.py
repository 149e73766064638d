# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The comparison for a terminal: what is equal on many nodes is one line."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import plain, redact
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import (
    DIFFERS,
    HOLDS,
    NONE,
    SAME,
    UNDECLARED,
    UNKNOWN,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import natural

# In the order in which they matter; what is the same and what is not there needs no line.
SHOWN = (DIFFERS, UNKNOWN, UNDECLARED, HOLDS)
MARKS = {
    DIFFERS: "DIFFERS",
    UNKNOWN: "not readable",
    UNDECLARED: "undeclared",
    HOLDS: "holds",
    SAME: "the same",
    NONE: "not there",
}
LINES_MAX = 60
HOSTS_MAX = 4


def table(report: Mapping[str, Any], width: int = 110) -> str:
    """The report for a terminal, without colour: counts first, then the differences, then what could not be read."""
    summary = report["summary"]
    # Of a node that was not seen, nothing is known: it is counted once and not for each variable.
    states = [
        cell["state"] for node in report["nodes"] if node["seen"] is not None for cell in node["variables"].values()
    ]
    counts = ", ".join(f"{states.count(state)} {words}" for state, words in MARKS.items() if state in states)
    head = f"Topology of {summary['nodes']}, declared and found: {counts or 'nothing to compare'}"
    if summary["not_seen"]:
        head += f"; {summary['not_seen']} not seen"
    lines: list[str] = []
    for conflict in report["conflicts"]:
        lines += _wrapped(f"{'overruled':<12}  ", _conflict(conflict), width)
    for (state, name, declared, discovered, reason), hosts in _folded(report["nodes"]):
        lines += _wrapped(f"{MARKS[state]:<12}  {name}: ", _said(state, declared, discovered, reason), width)
        lines += _wrapped(" " * 14 + "on ", _hosts(hosts), width)
    for reason, hosts in _not_seen(report["nodes"]):
        lines += _wrapped(f"{'not seen':<12}  ", f"{_hosts(hosts)}: {redact(reason)}", width)
    if len(lines) > LINES_MAX:
        lines = [*lines[:LINES_MAX], f"and {len(lines) - LINES_MAX} more lines; topology.json holds everything"]
    return "\n".join([*_wrapped("", head, width), *lines])


def _conflict(conflict: Mapping[str, Any]) -> str:
    return (
        f"{conflict['variable']} of {plain(conflict['host'])} is {_value(conflict['file'])} in the topology file, and "
        f"Ansible uses {_value(conflict['used'])}, which is written elsewhere"
    )


Key = tuple[str, str, str, str, str]


def _folded(nodes: list[dict[str, Any]]) -> list[tuple[Key, list[str]]]:
    """What is told in a line, each with the hosts it is true of: by state, then what concerns most nodes first."""
    found: dict[Key, list[str]] = {}
    for node in nodes:
        if node["seen"] is None:
            continue
        for name, cell in node["variables"].items():
            if cell["state"] in SHOWN:
                key = (cell["state"], name, _value(cell["declared"]), _value(cell["discovered"]), cell["reason"] or "")
                found.setdefault(key, []).append(node["host"])
    return sorted(found.items(), key=lambda item: (SHOWN.index(item[0][0]), -len(item[1]), item[0]))


def _not_seen(nodes: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for node in nodes:
        if node["seen"] is None:
            found.setdefault(node["reason"] or "", []).append(node["host"])
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _said(state: str, declared: str, discovered: str, reason: str) -> str:
    if state == UNKNOWN:
        return f"declared {declared}; {redact(reason)}"
    if state == UNDECLARED:
        return f"found {discovered}"
    if state == HOLDS:
        return f"declared {declared}, and it holds there; by itself the node takes {discovered}"
    return f"declared {declared}, found {discovered}"


def _value(value: Any) -> str:
    """A value in words: a list with its length, so that a missing HCA is seen."""
    if isinstance(value, list):
        return f"{len(value)} ({', '.join(redact(item) for item in value)})" if value else "none"
    return "nothing" if value is None or value == "" else redact(value)


def _hosts(hosts: list[str]) -> str:
    names = [plain(host) for host in sorted(hosts, key=natural)]
    return ", ".join(names[:HOSTS_MAX]) + (f" and {len(names) - HOSTS_MAX} more" if len(names) > HOSTS_MAX else "")


def _wrapped(head: str, text: str, width: int) -> list[str]:
    # Names and values stand whole, so that they can be searched for.
    return textwrap.wrap(
        head + text,
        width,
        subsequent_indent=" " * 16,
        break_long_words=False,
        break_on_hyphens=False,
    )


def difference(old: str, new: str, path: str) -> str:
    """Two texts of the topology file as a unified difference, with what a terminal could act upon taken out."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"{path} (now)", f"{path} (new)", lineterm="")
    return "\n".join(redact(line) for line in lines) + "\n"
