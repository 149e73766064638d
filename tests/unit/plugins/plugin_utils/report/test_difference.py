# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import copy
from datetime import UTC, datetime

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.difference import difference, groups
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import check, dead, facts, row

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)


def report(*rows, **declared):
    return document(rows, "site", WHEN, "0.1.0", declared)


def said(before, after):
    """The changes of one node as (kind, text)."""
    return [(change["kind"], change["text"]) for change in difference(report(before), report(after))["nodes"]]


def with_checks(made, *checks):
    return {**made, "checks": list(checks)}


@pytest.mark.parametrize(
    ("before", "after", "kind", "text"),
    [
        ("not_ready", "ready", "better", "became ready"),
        ("degraded", "ready", "better", "became ready"),
        ("not_ready", "degraded", "better", "became degraded, was not ready"),
        ("ready", "degraded", "worse", "became degraded, was ready"),
        ("ready", "not_ready", "worse", "stopped being ready"),
        ("degraded", "not_ready", "worse", "became not ready, was degraded"),
    ],
)
def test_a_change_of_the_verdict(before, after, kind, text):
    assert said(row("a", verdict=before), row("a", verdict=after)) == [(kind, text)]


def test_the_driver_moved():
    before, after = row("a", driver="575.57.08"), row("a", driver="580.126.20")
    assert said(before, after) == [("neutral", "driver moved from 575.57.08 to 580.126.20")]


@pytest.mark.parametrize("driver", [None, {"unknown": "needs root"}])
def test_a_driver_that_is_not_known_did_not_move(driver):
    assert said(row("a", driver=driver), row("a")) == said(row("a"), row("a", driver=driver)) == []


def test_a_node_that_stopped_answering_says_that_and_not_that_its_cause_moved():
    changes = said(row("a", verdict="not_ready"), dead("a"))
    assert changes == [("worse", "stopped answering")]
    assert said(dead("a"), row("a", verdict="not_ready")) == [("better", "answers again")]


def test_another_root_cause():
    before, after = row("a", verdict="not_ready"), row("a", verdict="not_ready")
    after["root_cause"] = "gpu.ecc"
    assert said(before, after) == [("neutral", "root cause moved from host.clock to gpu.ecc")]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("pass", "fail", "worse"),
        ("fail", "pass", "better"),
        ("fail", "unknown", "better"),
        ("warn", "unknown", "worse"),
        ("pass", "not_applicable", "neutral"),
        ("skipped", "not_applicable", "better"),
    ],
)
def test_a_check_that_changed_its_status(before, after, kind):
    rows = [with_checks(row("a"), check("gpu.ecc", status), check("gpu.mig")) for status in (before, after)]
    assert said(*rows) == [(kind, f"gpu.ecc went from {before} to {after}")]


def test_a_check_that_only_one_report_has_is_no_change():
    """Another version of the collection may have more checks."""
    assert said(with_checks(row("a"), check("gpu.ecc")), with_checks(row("a"), check("gpu.new", "fail"))) == []


def test_nodes_that_only_one_report_has():
    changes = difference(report(row("a"), row("b")), report(row("b"), row("c")))["nodes"]
    assert {change["host"]: change["text"] for change in changes} == {"a": "gone: not part of this run", "c": "new"}


def test_the_same_report_has_no_difference():
    made = report(row("a"), dead("b"), a={"deployment": "d"})
    found = difference(copy.deepcopy(made), made)
    assert (found["nodes"], found["fleet"]) == ([], [])
    assert found["earlier"] == {"generated": "2026-11-30T21:00:00Z", "playbook": "site"}


def test_the_fleet_changes_by_what_its_checks_speak_of():
    declared = {host: {"deployment": "d", "nvlink_domain": "r"} for host in "abc"}
    uuid = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"
    same = [row(host, domain=uuid, partition="1") for host in "abc"]
    mixed = [*same[:2], {**same[2], "facts": facts(driver="580.95.05", domain=uuid, partition="1")}]
    texts = [change["text"] for change in difference(report(*same, **declared), report(*mixed, **declared))["fleet"]]
    assert "fleet.driver of domain r went from pass to fail" in texts
    assert "stopped being ready" in texts


def test_changes_that_say_the_same_are_one_group_and_the_worse_come_first():
    before = [row("a", verdict="not_ready"), row("b", verdict="not_ready"), row("c")]
    after = [row("b"), row("a"), row("c", verdict="not_ready"), row("d")]
    found = groups(difference(report(*before), report(*after))["nodes"])
    assert [(group["text"], group["hosts"]) for group in found] == [
        ("stopped being ready", ["c"]),
        ("became ready", ["a", "b"]),
        ("new", ["d"]),
    ]


def test_a_report_of_schema_1_0_can_be_compared_with():
    old = report(row("a", verdict="not_ready"))
    del old["fleet"]
    for node in old["nodes"]:
        del node["place"]
    found = difference(old, report(row("a")))
    assert [change["text"] for change in found["nodes"]] == ["became ready"]
    assert found["fleet"] == []


@pytest.mark.parametrize(
    "nodes",
    [
        "none",
        [None, 1, {"host": 5}],
        [{"host": "a"}],
        [{"host": "a", "state": ["x"], "verdict": {}, "root_cause": 1, "facts": [], "checks": "none"}],
        [{"host": "a", "state": "x", "checks": [None, {"id": 1}, {"id": "gpu.ecc", "status": ["pass"]}]}],
    ],
)
def test_what_is_no_report_harms_nothing(nodes):
    found = difference({"nodes": nodes, "fleet": [], "generated": {}}, report(row("a")))
    assert {change["text"] for change in found["nodes"]} <= {"new"}
