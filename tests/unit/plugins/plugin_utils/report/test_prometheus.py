# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import prometheus
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import RACK_A, check, dead, row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.hostile import HOSTILE, hostile_report

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)
SAMPLE = re.compile(r'([a-z0-9_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? ([0-9.]+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\[\\"n])*)"')
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def samples(report):
    """[(name, labels, value)], read as the text format says; a line that does not follow it fails here."""
    found = []
    for line in "".join(prometheus.chunks(report)).rstrip("\n").split("\n"):
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        unescaped = {
            key: re.sub(r"\\.", lambda mark: ESCAPES[mark[0]], text) for key, text in LABEL.findall(labels or "")
        }
        found.append((name, unescaped, float(value)))
    return found


def of(found, name, **labels):
    return [value for series, given, value in found if series == name and labels.items() <= given.items()]


@pytest.fixture
def found():
    bad = {
        **row("b", verdict="not_ready"),
        "checks": [check("gpu.ecc", "fail"), check("gpu.mig"), check("gpu.xid", "not_applicable")],
        "root_cause": "gpu.ecc",
    }
    rows = [row("a", domain=RACK_A, partition="2"), bad, dead("c")]
    return samples(document(rows, "probe", WHEN, "0.1.0", {"a": {"deployment": "k3", "nvlink_domain": "rack-1"}}))


def test_when_the_nodes_were_asked_and_how_many_there_are(found):
    assert of(found, "k3_readiness_report_timestamp_seconds") == [WHEN.timestamp()]
    assert of(found, "k3_readiness_nodes", verdict="not_ready") == [2]
    assert of(found, "k3_readiness_nodes", verdict="degraded") == [0]


def test_a_node_has_one_verdict_and_where_it_belongs(found):
    for node, verdict in (("a", "ready"), ("b", "not_ready"), ("c", "not_ready")):
        assert of(found, "k3_node_verdict", node=node, verdict=verdict) == [1]
        assert sum(of(found, "k3_node_verdict", node=node)) == 1
    info = {"deployment": "k3", "domain": "rack-1", "partition": "2", "driver": "580.126.20"}
    assert of(found, "k3_node_info", node="a", **info) == [1]


def test_a_node_that_did_not_answer_has_no_checks_and_says_so(found):
    assert of(found, "k3_node_probed", node="c") == [0]
    assert of(found, "k3_node_root_cause", node="c", check="unreachable") == [1]
    assert sum(of(found, "k3_node_checks", node="c")) == 0


def test_checks_that_need_a_look_are_named_and_all_are_counted(found):
    assert of(found, "k3_node_check", node="b") == of(found, "k3_node_check", check="gpu.ecc", status="fail") == [1]
    assert {
        label["status"]: value for name, label, value in found if name == "k3_node_checks" and label["node"] == "b"
    } == {
        "pass": 1,
        "warn": 0,
        "fail": 1,
        "unknown": 0,
        "not_applicable": 1,
        "skipped": 0,
    }


def test_the_fleet_has_a_verdict_and_names_what_it_fails(found):
    assert of(found, "k3_fleet_verdict", verdict="not_ready") == [1]
    assert of(found, "k3_fleet_check", check="fleet.nodes", status="fail") == [2]


def test_no_series_comes_twice_and_families_stand_together(found):
    assert max(Counter((name, *sorted(labels.items())) for name, labels, _value in found).values()) == 1
    families = [name for name, _labels, _value in found]
    assert len([name for number, name in enumerate(families) if families[number - 1 : number] != [name]]) == len(
        set(families)
    )


def test_each_family_has_help_and_type_and_is_no_counter():
    text = "".join(prometheus.chunks(document([row("a")], "probe", WHEN, "0.1.0")))
    names = {name for name, _labels, _value in samples(document([row("a")], "probe", WHEN, "0.1.0"))}
    assert (
        set(re.findall(r"^# HELP (\S+) \S", text, re.M))
        == set(re.findall(r"^# TYPE (\S+) gauge$", text, re.M))
        == names
    )


def test_a_report_without_nodes_has_no_ready_fleet():
    found = samples(document([], "probe", WHEN, "0.1.0"))
    assert of(found, "k3_fleet_verdict", verdict="ready") == [0]
    assert sum(of(found, "k3_readiness_nodes")) == 0


def test_hostile_texts_are_texts():
    found = samples(hostile_report())
    names = {labels["node"] for name, labels, _value in found if name == "k3_node_info"}
    assert names == {text.encode("utf-8", "backslashreplace").decode() for text in HOSTILE}


def test_names_that_look_like_tokens_stay_apart():
    rows = [dead(f"sk-bratislava-gpu{number}") for number in range(4)]
    declared = {item["host"]: {"deployment": f"sk-bratislava-{index // 2}"} for index, item in enumerate(rows)}
    found = samples(document(rows, "probe", WHEN, "1", declared))
    series = [(name, tuple(sorted(labels.items()))) for name, labels, _value in found]
    assert len(series) == len(set(series))
    assert {labels["name"] for name, labels, _value in found if name == "k3_fleet_check" and "name" in labels} >= {
        "sk-bratislava-0",
        "sk-bratislava-1",
    }
