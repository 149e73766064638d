# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a node answered, held against the form of a report: a node's answer is the node's, and may be anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import DISRUPTIONS, STATUSES, Check
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.probe import COPYABLE, check_ids
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.verdict import root_cause, verdict

# Names of this collection's roles, playbooks and tags.
OURS = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
NAMES = ("role", "entry_point", "playbook", "tag")


def fault(readiness: Any) -> str:
    """Why this is not a report of the probe; empty where it is one.

    A report has each check once, of known words, and the verdict and root cause that follow from its checks: what
    the node says of itself is not taken on trust.
    """
    if not isinstance(readiness, Mapping) or not isinstance(readiness.get("facts"), Mapping):
        return "it has no facts"
    checks = readiness.get("checks")
    if not isinstance(checks, list) or not all(isinstance(check, Mapping) for check in checks):
        return "it has no list of checks"
    if [check.get("id") for check in checks] != check_ids():
        return "it does not have every check once and in order"
    for check in checks:
        wrong = _check_fault(check)
        if wrong:
            return f"its check {check['id']} has {wrong}"
    judged = [Check(check["id"], check["status"], None, None, "", blocking=check["blocking"]) for check in checks]
    if (readiness.get("verdict"), readiness.get("root_cause")) != (verdict(judged), root_cause(judged)):
        return "its verdict does not follow from its checks"
    return ""


def _check_fault(check: Mapping[str, Any]) -> str:
    if check.get("status") not in STATUSES:
        return "no known status"
    if not isinstance(check.get("blocking"), bool) or not isinstance(check.get("reason"), str):
        return "no reason, or does not say whether it blocks"
    if "observed" not in check or "required" not in check:
        return "nothing observed or required"
    evidence = check.get("evidence")
    if not isinstance(evidence, list) or not all(
        isinstance(item, Mapping) and isinstance(item.get("source"), str) and isinstance(item.get("line"), str)
        for item in evidence
    ):
        return "no readable evidence"
    return _remedy_fault(check.get("remedy"))


def _remedy_fault(remedy: Any) -> str:
    """A remedy is text for a person, a command that is safe to copy, and names of this collection."""
    if remedy is None:
        return ""
    if not isinstance(remedy, Mapping) or not isinstance(remedy.get("action"), str):
        return "a remedy without an action"
    if remedy.get("disruptive") not in DISRUPTIONS:
        return "a remedy of unknown disruption"
    command = remedy.get("command")
    if command is not None and not (isinstance(command, str) and COPYABLE.fullmatch(command)):
        return "a command that is not safe to copy"
    for name in NAMES:
        value = remedy.get(name)
        if value is not None and not (isinstance(value, str) and OURS.fullmatch(value)):
            return f"a remedy whose {name} is none of ours"
    return ""
