# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rows of a report: one a node, also for the node that did not answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import NOT_READY
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact_all
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


def node_row(host: str, result: Any) -> dict[str, Any]:
    """The row of one node from the registered result of its probe task.

    Keys: host, state (probed, unreachable, broken), verdict, root_cause, reason, remedy, checks, facts. A node that
    was not probed is not_ready, with the reason and no checks.
    """
    if result is not None and not isinstance(result, Mapping):
        # Ansible keeps a text in its place where the answer is nested too deeply for it.
        result = {"failed": True, "msg": "the answer could not be taken over"}
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
