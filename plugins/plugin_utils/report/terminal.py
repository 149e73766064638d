# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report for a terminal: a line a node, why, and what cures it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    DEGRADED,
    NOT_READY,
    READY,
    VERDICTS,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact

# Reasons shown of a node that is only degraded.
DEGRADERS = 3
MARKS = {READY: "ready", DEGRADED: "degraded", NOT_READY: "NOT READY"}


def table(report: Mapping[str, Any], width: int = 110) -> str:
    """The report for a terminal, without colour: a line a node, and below it why and what cures it."""
    nodes = sorted(report["nodes"], key=lambda node: (-VERDICTS.index(node["verdict"]), node["host"]))
    summary = report["summary"]
    lines = [
        "Kimi K3 readiness of {nodes}: {ready} ready, {degraded} degraded, {not_ready} not ready".format(**summary)
    ]
    name_width = min(40, max([len("NODE"), *(len(redact(node["host"])) for node in nodes)]))
    cause_width = max([len("ROOT CAUSE"), *(len(node["root_cause"] or "-") for node in nodes)])
    row = f"{{:<{name_width}}}  {{:<9}}  {{:<{cause_width}}}  {{}}"
    lines.append(row.format("NODE", "VERDICT", "ROOT CAUSE", "FAILING CHECKS"))
    for node in nodes:
        host = redact(node["host"])
        host = host if len(host) <= name_width else host[: name_width - 1] + "…"
        lines.append(row.format(host, MARKS[node["verdict"]], node["root_cause"] or "-", _failing_text(node)).rstrip())
        lines += _explanation(node, width)
    return "\n".join(lines)


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


def _explanation(node: Mapping[str, Any], width: int) -> list[str]:
    if not node["reason"]:
        return _degraders(node, width)
    lines = _wrapped("    why      ", redact(node["reason"]), width)
    remedy = node["remedy"]
    if remedy:
        disruption = "" if remedy["disruptive"] == "none" else f" ({remedy['disruptive']})"
        lines += _wrapped("    cure     ", redact(remedy["action"]) + disruption, width)
        label, command = cure_command(node["host"], remedy)
        if command:
            # Never wrapped: it is there to be copied.
            lines.append(f"    {label:<7}  {command}")
    return lines


def _degraders(node: Mapping[str, Any], width: int) -> list[str]:
    """Why a node without a root cause is not ready: the first few of what warns, is unknown or was skipped."""
    found = [check for check in node["checks"] if check["status"] in ("warn", "unknown", "skipped")]
    lines = []
    for check in found[:DEGRADERS]:
        lines += _wrapped("    why      ", f"{check['id']} ({check['status']}): {redact(check['reason'])}", width)
    if len(found) > DEGRADERS:
        lines.append(f"    why      and {len(found) - DEGRADERS} more")
    return lines


def cure_command(host: str, remedy: Mapping[str, Any]) -> tuple[str, str | None]:
    """Where to run it (``run`` here, ``as root`` on the node) and the line to copy, None where there is none.

    The playbook with its tag where the collection cures it, else the command of the remedy.
    """
    if remedy.get("playbook"):
        tags = f" --tags {remedy['tag']}" if remedy.get("tag") else ""
        return "run", f"ansible-playbook {remedy['playbook']} --limit {host}{tags}"
    return "as root", redact(remedy["command"]) if remedy.get("command") else None


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head)) or [head.rstrip()]
