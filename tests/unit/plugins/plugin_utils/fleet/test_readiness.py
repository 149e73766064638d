# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every fleet check has in common, and that it reads what the probe really tells."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import blamed, fleet_readiness
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import FleetInputError, Member, survey
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.table import FLEET_CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import node_row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import RACK_A, dead, row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.variants import VARIANTS

SCHEMA = json.loads((Path(__file__).resolve().parents[5] / "docs" / "readiness.schema.json").read_text("utf-8"))
ONE = {"deployment": "k3"}


def test_healthy_nodes_of_every_kind_pass_every_check_that_applies(report_of):
    rows, declared = [], {}
    for kind in ("gb200-healthy", "b200-healthy", "h100-healthy"):
        answer = report_of(VARIANTS[kind].profile())
        for number in range(2):
            host = f"{kind}-{number}"
            rows.append(node_row(host, {"readiness": answer}))
            declared[host] = {"deployment": kind}
            if kind.startswith("gb200"):
                fabric = answer["facts"]["fabric"]
                declared[host] |= {"nvlink_domain": "rack-a", "nvlink_partition": fabric["partition"]}
    fleet = fleet_readiness(rows, declared)
    assert (fleet["verdict"], fleet["root_cause"]) == ("ready", None)
    statuses = {check["id"]: set() for check in fleet["checks"]}
    for check in fleet["checks"]:
        statuses[check["id"]].add(check["status"])
    # peermem is needed by none of them, and the ports were not tried; each other check found what it asks for.
    assert statuses.pop("fleet.peermem") == {"not_applicable"}
    assert statuses.pop("network.peer_tcp") == {"not_applicable"}
    assert set(map(frozenset, statuses.values())) == {frozenset({"pass"})}


def test_no_node_is_never_ready():
    fleet = fleet_readiness([], {})
    assert (fleet["verdict"], fleet["root_cause"]) == ("not_ready", "fleet.nodes")
    assert {check["id"] for check in fleet["checks"]} == {spec.id for spec in FLEET_CHECKS}


def test_where_nothing_is_declared_nothing_is_compared_and_every_check_says_so():
    fleet = fleet_readiness([row("a"), row("b", driver="580.159.04", mtu=1500)], {})
    assert {check["id"]: check["status"] for check in fleet["checks"]} == {
        **{spec.id: "not_applicable" for spec in FLEET_CHECKS},
        "fleet.nodes": "pass",
    }
    assert fleet["verdict"] == "ready"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("a"), row("b", verdict="degraded")], ("degraded", None, ["b"])),
        ([row("a"), row("b", verdict="not_ready")], ("not_ready", "fleet.nodes", ["b"])),
        ([row("a", verdict="degraded"), dead("b")], ("not_ready", "fleet.nodes", ["b"])),
    ],
)
def test_a_fleet_is_as_ready_as_its_worst_node(rows, expected):
    fleet = fleet_readiness(rows, {})
    assert (fleet["verdict"], fleet["root_cause"], fleet["checks"][-1]["outliers"]) == expected


@pytest.mark.parametrize("hosts", [1, 2, 5])
def test_a_document_holds_to_the_schema(hosts):
    rows = [row(f"n{number}", domain=RACK_A, partition="0") for number in range(hosts - 1)] + [dead("dead")]
    declared = {item["host"]: {**ONE, "nvlink_domain": "rack-a", "nvlink_partition": 0} for item in rows}
    report = document(rows, "probe", datetime(2026, 11, 30, tzinfo=UTC), "0.2.0", declared)
    jsonschema.validate(report, SCHEMA)
    assert [node["place"] for node in report["nodes"]] == [
        {"deployment": "k3", "domain": "rack-a", "partition": "0"}
    ] * hosts
    scopes = [(check["id"], check["scope"]["kind"], check["scope"]["name"]) for check in report["fleet"]["checks"]]
    assert len(set(scopes)) == len(scopes)


def test_a_check_that_does_not_pass_has_a_remedy_and_names_hosts_it_looked_at():
    rows = [row("a", domain=RACK_A), row("b", domain=RACK_A, driver="580.159.04", mtu=1500, gpus=()), dead("c")]
    checks = fleet_readiness(rows, dict.fromkeys("abc", ONE))["checks"]
    bad = [check for check in checks if check["status"] not in ("pass", "not_applicable")]
    assert len(bad) > 4
    for check in bad:
        assert check["remedy"]["action"]
        assert set(check["outliers"]) <= set(check["hosts"])
        assert check["outliers"]


def test_who_is_blamed_by_what_blocks():
    rows = [row("a"), row("b", gpus=("b200",) * 7, mtu=1500), dead("c")]
    found = blamed(fleet_readiness(rows, dict.fromkeys("abc", ONE)))
    # No majority of three: 8 GPUs, 7 GPUs and not known. What only warns blames nobody; fleet.nodes is the row's own.
    assert found == {
        "a": ["fleet.gpus (deployment k3)"],
        "b": ["fleet.gpus (deployment k3)"],
        "c": ["fleet.rails (deployment k3)", "fleet.peermem (deployment k3)"],
    }


@pytest.mark.parametrize(
    ("rows", "declared", "words"),
    [
        ("rows", {}, "no list"),
        ({"a": 1}, {}, "no list"),
        ([{"host": "a"}], {}, "row 0 is none"),
        ([row("a"), row("a")], {}, "'a' has two rows"),
        ([row("a")], [], "no dictionary"),
        ([row("a")], {"a": "k3"}, "no dictionary"),
    ],
)
def test_wrong_input_is_one_clear_error(rows, declared, words):
    with pytest.raises(FleetInputError, match=words):
        fleet_readiness(rows, declared)


def test_hostile_names_and_answers_are_text():
    evil = '<script>alert(1)</script>\x1b[31m\n"]]>'
    rows = [row("a"), row(evil, driver=evil, domain=evil, mtu=evil, vbios=evil, hca_firmware=evil)]
    checks = fleet_readiness(rows, {"a": ONE, evil: ONE})["checks"]
    told = [{key: value for key, value in check.items() if key not in ("hosts", "outliers")} for check in checks]
    assert "\\u001b" not in json.dumps(told)
    driver = next(check for check in checks if check["id"] == "fleet.driver")
    assert driver["outliers"] == ["a", evil]


GARBAGE = (None, True, 0, -1, 1.5, "", "x", [], [1], ["a", None], {}, {"unknown": 1}, {"unknown": "why"}, {"1": []})


@pytest.mark.parametrize("seed", range(40))
def test_no_answer_of_a_node_breaks_the_judgement_of_the_others(seed):
    chance = random.Random(seed)

    def spoil(value):
        if chance.random() < 0.15:
            return chance.choice(GARBAGE)
        if isinstance(value, dict):
            return {key: spoil(item) for key, item in value.items()}
        return [spoil(item) for item in value] if isinstance(value, list) else value

    rows = [row("a", domain=RACK_A), row("b", domain=RACK_A), row("c", domain=RACK_A)]
    rows[2]["facts"] = {name: spoil(value) for name, value in rows[2]["facts"].items() if chance.random() < 0.9}
    for item in rows[2]["checks"]:
        item.update(observed=spoil(item["observed"]), required=spoil(item["required"]))
    fleet = fleet_readiness(rows, {host: {**ONE, "nvlink_domain": "rack-a"} for host in "abc"})
    json.dumps(fleet)
    for check in fleet["checks"]:
        assert not {"a", "b"} & set(check["outliers"]), check


def test_time_is_linear_where_every_node_differs(monkeypatch):
    """Counted, not timed: each node's facts are asked the same number of times, however many there are."""
    asked = []
    original = Member.fact
    monkeypatch.setattr(Member, "fact", lambda self, *path: asked.append(path) or original(self, *path))
    for count in (20, 200):
        asked.clear()
        rows = [row(f"n{number}", driver=f"580.{number}", domain=RACK_A) for number in range(count)]
        fleet_readiness(rows, {item["host"]: ONE for item in rows})
        assert len(asked) % count == 0
        assert len(asked) // count < 20


def test_the_name_of_a_domain_is_what_its_nodes_declare_else_its_uuid():
    rows = [row("a", domain=RACK_A, partition="0"), row("b", domain=RACK_A), dead("c"), row("d"), dead("e")]
    found = survey(rows, {"a": {"nvlink_domain": "rack-a"}, "c": {"nvlink_domain": RACK_A.upper()}, "e": None})
    assert [member.domain for member in found.members] == ["rack-a", "rack-a", "rack-a", None, None]
    assert found.members[0].place() == {"deployment": None, "domain": "rack-a", "partition": "0"}
