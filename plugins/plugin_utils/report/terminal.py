# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report for a terminal: the fleet, the causes where nodes are many, a line a node, why, and what cures it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    DEGRADED,
    NOT_READY,
    READY,
    VERDICTS,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import folding
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.cells import (
    ON_NODE,
    cure_command,
    cure_lines,
    cut,
    disruption,
    examples,
    name_width,
    wrapped,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.fleet_section import fleet_lines

# Reasons shown of a node that is only degraded.
DEGRADERS = 3
MARKS = {READY: "ready", DEGRADED: "degraded", NOT_READY: "NOT READY"}


def table(report: Mapping[str, Any], width: int = 110) -> str:
    """The report for a terminal, without colour.

    A line a node, and below it why and what cures it. From more than folding.SHOWN nodes on it folds: first what
    keeps how many nodes from being ready, with the cure, then the worst nodes. Before both: what the fleet checks say.
    """
    nodes = sorted(report["nodes"], key=lambda node: (-VERDICTS.index(node["verdict"]), node["host"]))
    summary = report["summary"]
    lines = [
        "Kimi K3 readiness of {nodes}: {ready} ready, {degraded} degraded, {not_ready} not ready".format(**summary)
    ]
    said: set[str] = set()
    lines += fleet_lines(report, width, said)
    if len(nodes) <= folding.SHOWN:
        return "\n".join(lines + _node_lines(nodes, width, report["inventory"]))
    worst = folding.worst(nodes)
    shown = worst[: folding.SHOWN]
    lines += _cause_lines(folding.causes(nodes), width, said)
    if shown:
        lines += ["", f"The worst {len(shown)} of {len(worst)} nodes that are not ready or degraded"]
        lines += _node_lines(shown, width, report["inventory"], said)
    left = Counter(node["verdict"] for node in nodes) - Counter(node["verdict"] for node in shown)
    told = ", ".join(f"{left[verdict]} {MARKS[verdict].lower()}" for verdict in reversed(VERDICTS) if left[verdict])
    if told:
        lines += wrapped("", f"Not listed: {told}. readiness.html and readiness.json hold every node.", width)
    return "\n".join(lines)


def _node_lines(
    nodes: Sequence[Mapping[str, Any]], width: int, inventory: Sequence[str], said: set[str] | None = None
) -> list[str]:
    """The table of nodes; a cure in ``said`` stands above already and is not told again."""
    node_width = name_width("NODE", (node["host"] for node in nodes))
    cause_width = max([len("ROOT CAUSE"), *(len(node["root_cause"] or "-") for node in nodes)])
    row = f"{{:<{node_width}}}  {{:<9}}  {{:<{cause_width}}}  {{}}"
    lines = [row.format("NODE", "VERDICT", "ROOT CAUSE", "FAILING CHECKS")]
    for node in nodes:
        host = cut(node["host"], node_width)
        lines.append(row.format(host, MARKS[node["verdict"]], node["root_cause"] or "-", _failing_text(node)).rstrip())
        lines += _explanation(node, width, inventory, said)
    return lines


def _cause_lines(causes: Sequence[folding.Cause], width: int, said: set[str]) -> list[str]:
    if not causes:
        return []
    shown = causes[: folding.SHOWN]
    cause_width = max([len("CAUSE"), *(len(cause.name) for cause in shown)])
    row = f"{{:<{cause_width}}}  {{:<9}}  {{:>5}}  {{}}"
    lines = [row.format("CAUSE", "VERDICT", "NODES", "FOR EXAMPLE")]
    for cause in shown:
        hosts = sorted(node["host"] for node in cause.nodes)
        lines.append(row.format(cause.name, MARKS[cause.verdict], len(cause.nodes), examples(hosts)))
        lines += cure_lines(cause.remedy, width, said)
        if cause.others:
            lines.append(f"    cure     another one for {cause.others} of them: see readiness.html")
    if len(causes) > len(shown):
        rest = sum(len(cause.nodes) for cause in causes[len(shown) :])
        lines.append(f"and {len(causes) - len(shown)} more causes, of {rest} nodes: see readiness.html")
    return lines


def _failing_text(node: Mapping[str, Any]) -> str:
    """The failing checks by name; those that are merely unknown or warn as counts."""
    counts: dict[str, int] = {}
    for check in node["checks"]:
        counts[check["status"]] = counts.get(check["status"], 0) + 1
    failed = [check["id"] for check in node["checks"] if check["status"] == "fail"]
    shown = ", ".join(failed[:4]) + (f" and {len(failed) - 4} more" if len(failed) > 4 else "")
    rest = [
        f"{counts[status]} {word}"
        for status, word in (("unknown", "unknown"), ("warn", "warnings"), ("skipped", "skipped"))
        if counts.get(status)
    ]
    return "; ".join(part for part in (shown, ", ".join(rest)) if part) or "-"


def _explanation(node: Mapping[str, Any], width: int, inventory: Sequence[str], said: set[str] | None) -> list[str]:
    if not node["reason"]:
        return _degraders(node, width)
    lines = wrapped("    why      ", redact(node["reason"]), width)
    remedy = node["remedy"]
    if remedy:
        told = said is not None and remedy["action"] in said
        if not told:
            lines += wrapped("    cure     ", redact(remedy["action"]) + disruption(remedy), width)
        label, command = cure_command(node["host"], remedy, inventory)
        if command and not (told and label == ON_NODE):
            # Never wrapped: it is there to be copied.
            lines.append(f"    {label:<7}  {command}")
    return lines


def _degraders(node: Mapping[str, Any], width: int) -> list[str]:
    """Why a node without a root cause is not ready: the first few of what warns, is unknown or was skipped."""
    found = [check for check in node["checks"] if check["status"] in ("warn", "unknown", "skipped")]
    lines = []
    for check in found[:DEGRADERS]:
        lines += wrapped("    why      ", f"{check['id']} ({check['status']}): {redact(check['reason'])}", width)
    if len(found) > DEGRADERS:
        lines.append(f"    why      and {len(found) - DEGRADERS} more")
    return lines
