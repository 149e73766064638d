# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report as JUnit XML, for Jenkins, GitLab and other tools that show test results.

A node is a test suite and a check a test case, and so are the fleet and its checks. What keeps a node from being
ready is a failure, a node that was not probed an error; what was not asked, or does not decide, is skipped.
Source: junit-10.xsd of Jenkins' xunit plugin.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    NOT_APPLICABLE,
    SKIPPED,
    UNKNOWN,
    WARN,
)

FLEET = "fleet"
# Outside of what XML 1.0 can hold, and the carriage return, which a reader would turn into a line end.
# Source: Extensible Markup Language (XML) 1.0, section 2.2.
FORBIDDEN = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def chunks(report: Mapping[str, Any]) -> Iterator[str]:
    """The document in pieces, one a node, so that a large fleet is never in memory as XML as a whole."""
    suites = [(FLEET, _fleet_checks(report))] + [(node["host"], _node_checks(node)) for node in report["nodes"]]
    totals = Counter[str]()
    for _name, checks in suites:
        totals.update(_count(checks))
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield '<testsuites name="Kimi K3 readiness" tests="{tests}" failures="{failure}" errors="{error}">\n'.format(
        tests=totals["tests"], failure=totals["failure"], error=totals["error"]
    )
    for number, (name, checks) in enumerate(suites):
        yield _suite(number, name, checks, report)
    yield "</testsuites>\n"


def _fleet_checks(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fleet's checks, each named with what it speaks of: an id occurs once a domain or deployment."""
    return [
        {**check, "id": f"{check['id']} ({check['scope']['kind']} {check['scope']['name']})"}
        for check in report["fleet"]["checks"]
    ]


def _node_checks(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    if node["state"] == "probed":
        return list(node["checks"])
    # One case, named as the root cause of such a node.
    return [
        {
            "id": node["state"],
            "status": "error",
            "reason": node["reason"],
            "remedy": node["remedy"],
            "evidence": [],
        }
    ]


def outcome(check: Mapping[str, Any]) -> str:
    """What JUnit calls the answer of a check: error, failure, skipped or, where it holds or only warns, nothing."""
    if check["status"] == UNKNOWN:
        return "failure" if check["blocking"] else "skipped"
    return {"error": "error", FAIL: "failure", SKIPPED: "skipped", NOT_APPLICABLE: "skipped"}.get(check["status"], "")


def _count(checks: list[dict[str, Any]]) -> Counter[str]:
    return Counter(["tests"] * len(checks) + [outcome(check) for check in checks])


def _suite(number: int, name: str, checks: list[dict[str, Any]], report: Mapping[str, Any]) -> str:
    counted = _count(checks)
    suite = ElementTree.Element(
        "testsuite",
        id=str(number),
        name=_clean(name),
        package="gpufleet.kimi_k3",
        timestamp=report["generated"].removesuffix("Z"),
        tests=str(counted["tests"]),
        failures=str(counted["failure"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", name=_clean(check["id"]), classname=_clean(name), time="0")
        verdict = outcome(check)
        if verdict:
            told = ElementTree.SubElement(case, verdict, type=check["status"], message=_clean(check["reason"]))
            told.text = _clean(_details(check))
        elif check["status"] == WARN:
            ElementTree.SubElement(case, "system-out").text = _clean(f"warning: {_details(check)}")
    ElementTree.indent(suite, " ")
    return ElementTree.tostring(suite, encoding="unicode") + "\n"


def _details(check: Mapping[str, Any]) -> str:
    """Why, what was seen, where, and what cures it; a line each."""
    lines = [check["reason"]]
    lines += [f"{name}: {_text(check[name])}" for name in ("observed", "required") if check.get(name) is not None]
    lines += [f"evidence: {item['source']}: {item['line']}" for item in check["evidence"]]
    remedy = check["remedy"]
    if remedy:
        disruption = "" if remedy["disruptive"] == "none" else f" ({remedy['disruptive']})"
        lines.append(f"cure: {remedy['action']}{disruption}")
        if remedy["command"]:
            lines.append(f"command: {remedy['command']}")
        if remedy["playbook"]:
            lines.append(f"playbook: {remedy['playbook']}" + (f" --tags {remedy['tag']}" if remedy["tag"] else ""))
    return "\n".join(lines)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    """The text with what XML cannot hold written as its number; the rest is escaped where it is written."""
    return FORBIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
