# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report of a run: one row a node, also for the node that did not answer, as a document and as files."""

from __future__ import annotations

import contextlib
import json
import os
import re
import textwrap
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    DEGRADED,
    NOT_READY,
    READY,
    SCHEMA_VERSION,
    VERDICTS,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact, redact_all
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import readiness_answer

PROBED = "probed"
UNREACHABLE = "unreachable"
BROKEN = "broken"

# What Ansible's own errors mean, for those whose words do not say what to do. Source: C67; sudo(8).
EXPLANATIONS = (
    (
        re.compile(r"sudo: (command )?not found", re.I),
        "there is no sudo on this node",
        "Install sudo on the node, or connect as root.",
    ),
    (
        re.compile(r"SyntaxError|future feature annotations|requires Python|unsupported.{0,40}[Pp]ython", re.S),
        "the Python on this node is too old: the probe needs 3.9 or newer",
        "Install Python 3.9 or newer on the node and set ansible_python_interpreter to it; EL 8 is not supported.",
    ),
    (
        re.compile(
            r"No such file or directory.{0,80}python|python[0-9.]*: (command )?not found|interpreter", re.I | re.S
        ),
        "no usable Python was found on this node",
        "Install python3 on the node, or set ansible_python_interpreter to where it is.",
    ),
    (
        re.compile(r"must have a tty|no tty present", re.I),
        "sudo on this node wants a terminal",
        "Add `Defaults:<login> !requiretty` to the node's sudoers, or connect as root.",
    ),
    (
        re.compile(r"password (is )?required|[Mm]issing sudo password|incorrect sudo password", re.I),
        "sudo on this node wants a password",
        "Give it with -K, or allow the login to use sudo without one.",
    ),
    (
        re.compile(r"[Tt]imed? ?out|did not complete within", re.S),
        "the probe did not end within its time limit",
        "Look for hung processes on the node (state D), then raise node_readiness_timeout or reboot it.",
    ),
)


def node_row(host: str, result: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row of one node from the registered result of its probe task.

    Keys: host, state (probed, unreachable, broken), verdict, root_cause, reason, remedy, checks, facts. A node that
    was not probed is not_ready, with the reason and no checks.
    """
    if result and "readiness" in result and not result.get("failed"):
        wrong = readiness_answer.fault(result["readiness"])
        if not wrong:
            return _probed_row(host, redact_all(result["readiness"]))
        result = {"msg": f"the answer does not have the form of a report: {wrong}"}
    if result is None:
        state, reason, action = BROKEN, "the probe did not run on this node", "Look at the first error of this run."
    elif result.get("unreachable"):
        state, reason = UNREACHABLE, "unreachable: " + _said(result)
        action = "Make the node answer: power, network, sshd, host key and login, in this order."
    else:
        state, reason = BROKEN, "the probe failed: " + _said(result)
        action = "Run the probe on this node alone with -vvv to see why it failed."
        for pattern, meaning, cure in EXPLANATIONS:
            if pattern.search(_everything_said(result)):
                reason, action = f"{meaning} ({_line_of(result, pattern)})", cure
                break
    remedy = {
        "action": action,
        "command": None,
        "disruptive": "none",
        "role": None,
        "entry_point": None,
        "playbook": None,
        "tag": None,
    }
    return {
        "host": host,
        "state": state,
        "verdict": NOT_READY,
        "root_cause": state,
        "reason": redact_all(reason, 600),
        "remedy": remedy,
        "checks": [],
        "facts": {},
    }


def _probed_row(host: str, readiness: Mapping[str, Any]) -> dict[str, Any]:
    cause = next((check for check in readiness["checks"] if check["id"] == readiness["root_cause"]), None)
    return {
        "host": host,
        "state": PROBED,
        "verdict": readiness["verdict"],
        "root_cause": readiness["root_cause"],
        "reason": cause["reason"] if cause else None,
        "remedy": cause["remedy"] if cause else None,
        "checks": readiness["checks"],
        "facts": readiness["facts"],
    }


def _said(result: Mapping[str, Any]) -> str:
    """The first line of what Ansible said of the failure."""
    lines = str(result.get("msg") or "").strip().splitlines()
    return lines[0].strip().removeprefix("Task failed: ")[:300] if lines else "no reason was given"


def _line_of(result: Mapping[str, Any], pattern: re.Pattern[str]) -> str:
    """The line that told it; where several lines together did, the first of what Ansible said."""
    lines = (line.strip() for line in _everything_said(result).splitlines())
    return next((line[:300] for line in lines if pattern.search(line)), _said(result))


def _everything_said(result: Mapping[str, Any]) -> str:
    names = ("msg", "module_stderr", "module_stdout", "exception", "stderr", "stdout")
    return "\n".join(str(result.get(name) or "") for name in names)


def document(rows: Iterable[dict[str, Any]], playbook: str, when: datetime, version: str) -> dict[str, Any]:
    """The report: schema, generated (UTC), collection, playbook, summary (nodes by verdict), nodes."""
    nodes = list(rows)
    summary = {verdict: sum(1 for node in nodes if node["verdict"] == verdict) for verdict in VERDICTS}
    return {
        "schema": SCHEMA_VERSION,
        "generated": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "collection": version,
        "playbook": playbook,
        "summary": {"nodes": len(nodes), **summary},
        "nodes": nodes,
    }


def write(report: Mapping[str, Any], folder: Path, playbook: str, when: datetime) -> Path:
    """Write readiness.json into a new folder ``<time>-<playbook>`` below ``folder`` and point ``latest`` to it.

    An earlier report is never overwritten; a run that dies half-way leaves ``latest`` as it was. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{when.strftime('%Y%m%dT%H%M%SZ')}-{playbook}"
    for number in range(1000):
        target = folder / (stem if not number else f"{stem}.{number}")
        with contextlib.suppress(FileExistsError):
            target.mkdir()
            break
    else:
        raise FileExistsError(f"{folder} already holds a thousand reports of this second")
    file = target / "readiness.json"
    file.write_text(json.dumps(report, indent=1, sort_keys=False, ensure_ascii=True) + "\n", encoding="utf-8")
    _point(folder / "latest", target.name)
    return file


def _point(link: Path, target: str) -> None:
    """Make ``link`` point to ``target`` in one step, so that a reader sees the old report or the new one."""
    if link.exists() and not link.is_symlink():
        raise FileExistsError(f"{link} is not a link; move it away, it would be replaced by one")
    fresh = link.with_name(f".latest.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def failing(node: Mapping[str, Any]) -> list[str]:
    """Ids of the checks that keep the node from being ready, in the order of causes."""
    return [
        check["id"]
        for check in node["checks"]
        if check["status"] == "fail" or (check["status"] == "unknown" and check["blocking"])
    ]


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
