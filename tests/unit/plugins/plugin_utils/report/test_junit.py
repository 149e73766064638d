# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import junit
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import check, dead, row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.hostile import HOSTILE, hostile_report

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)


def read(report):
    return ElementTree.fromstring("".join(junit.chunks(report)))


def suites(*rows):
    return {suite.get("name"): suite for suite in read(document(rows, "probe", WHEN, "0.1.0")).iter("testsuite")}


def cases(suite):
    return {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}


@pytest.mark.parametrize(
    ("status", "blocking", "children"),
    [
        ("pass", True, []),
        ("fail", True, ["failure"]),
        ("unknown", True, ["failure"]),
        ("unknown", False, ["skipped"]),
        ("skipped", True, ["skipped"]),
        ("not_applicable", True, ["skipped"]),
        ("warn", True, ["system-out"]),
    ],
)
def test_what_a_check_is_called(status, blocking, children):
    made = {**row("a"), "checks": [check("gpu.ecc", status, blocking=blocking)]}
    assert cases(suites(made)["a"]) == {"gpu.ecc": children}


def test_a_node_that_was_not_probed_is_an_error_with_what_to_do():
    suite = suites(row("a"), dead("b"))["b"]
    error = suite.find("testcase/error")
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    assert error.get("message") == "unreachable: no route"
    assert "cure: Make the node answer." in error.text


def test_the_fleet_is_a_suite_and_a_fleet_without_nodes_fails():
    made = document([row("a")], "probe", WHEN, "0.1.0")
    assert len(cases(suites(row("a"))["fleet"])) == len(made["fleet"]["checks"])
    assert int(suites(row("a"))["fleet"].get("failures")) == 0
    assert int(suites()["fleet"].get("failures")) > 0


def test_the_counts_are_those_of_the_cases():
    made = {**row("a"), "checks": [check("gpu.ecc", "fail"), check("gpu.mig", "skipped"), check("gpu.count")]}
    root = read(document([made, dead("b")], "probe", WHEN, "0.1.0"))
    for tag, attribute in (("testcase", "tests"), ("failure", "failures"), ("error", "errors")):
        assert int(root.get(attribute)) == len(list(root.iter(tag)))
        assert int(root.get(attribute)) == sum(int(suite.get(attribute)) for suite in root)
    assert sum(int(suite.get("skipped")) for suite in root) == len(list(root.iter("skipped")))


def test_a_failure_says_why_what_was_seen_and_what_cures_it():
    remedy = {
        "action": "Drain and reboot.",
        "command": None,
        "disruptive": "reboot",
        "role": None,
        "entry_point": None,
        "playbook": "gpufleet.kimi_k3.site",
        "tag": "nvidia_driver",
    }
    bad = {
        **check("driver.branch", "fail", observed="575.57.08", required={"branch": 580}),
        "evidence": [{"source": "/proc/driver/nvidia/version", "line": "575.57.08"}],
        "remedy": remedy,
    }
    failure = suites({**row("a"), "checks": [bad]})["a"].find("testcase/failure")
    assert failure.get("message") == "driver.branch says fail."
    assert failure.text.splitlines() == [
        "driver.branch says fail.",
        "observed: 575.57.08",
        'required: {"branch": 580}',
        "evidence: /proc/driver/nvidia/version: 575.57.08",
        "cure: Drain and reboot. (reboot)",
        "playbook: gpufleet.kimi_k3.site --tags nvidia_driver",
    ]


def test_hostile_texts_are_texts():
    root = read(hostile_report())
    names = [suite.get("name") for suite in root]
    assert len(names) == len(HOSTILE) + 1
    # What XML cannot hold is written as its number, everything else comes back as it was.
    assert names[1:] == [junit.FORBIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text) for text in HOSTILE]
    assert {element.tag for element in root.iter()} <= {"testsuites", "testsuite", "testcase", "failure", "skipped"}
    evidence = next(case for case in root[1] if case.get("name") == "gpu.ecc").find("failure").text
    assert f"evidence: {HOSTILE[0]}: {HOSTILE[0]}" in evidence
