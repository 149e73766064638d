# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import fleet_readiness
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import RACK_A, RACK_B, answers, dead, row

OLD, NEW = "580.126.20", "580.159.04"


def of_rack(versions, declared=None):
    """The answer for one rack whose nodes have loaded these versions; None: the node did not answer."""
    rows = [
        dead(f"tray-{number:02}") if version is None else row(f"tray-{number:02}", driver=version, domain=RACK_A)
        for number, version in enumerate(versions)
    ]
    named = {item["host"]: {"nvlink_domain": "rack-a"} for item in rows} if declared is None else declared
    return answers(fleet_readiness(rows, named), "fleet.driver")["domain", "rack-a"]


@pytest.mark.parametrize("place", [0, 7, 17])
def test_c23_one_tray_of_another_version_is_named_against_the_seventeen(place):
    """The newer version is not the right one, and what comes first in the inventory is not either."""
    check = of_rack([NEW if number == place else OLD for number in range(18)])
    assert (check["status"], check["blocking"], check["outliers"]) == ("fail", True, [f"tray-{place:02}"])
    assert check["observed"] == {"values": {OLD: 17, NEW: 1}, "not_known": 0}
    assert f"{NEW} on tray-{place:02}, while 17 of 18 nodes have {OLD}" in check["reason"]
    assert [item["line"] for item in check["evidence"]] == [NEW]
    # Tray by tray is what made the mix; the cure is for the rack.
    assert "whole rack" in check["remedy"]["action"]
    assert check["remedy"]["disruptive"] == "drain"
    assert len(check["hosts"]) == 18


@pytest.mark.parametrize(
    ("versions", "outliers"),
    [
        ([OLD, NEW], [0, 1]),
        ([OLD, OLD, NEW, NEW], [0, 1, 2, 3]),
        # The most frequent is no majority, nor is one that the silent ones could overturn.
        ([OLD, OLD, NEW, "580.65.06"], [0, 1, 2, 3]),
        ([OLD, OLD, NEW, None], [0, 1, 2]),
    ],
)
def test_without_a_majority_all_are_named_and_the_reason_says_so(versions, outliers):
    check = of_rack(versions)
    assert (check["status"], check["outliers"]) == ("fail", [f"tray-{number:02}" for number in outliers])
    assert "majority" in check["reason"]


def test_one_that_did_not_answer_is_named_and_leaves_it_open():
    check = of_rack([OLD, OLD, None])
    assert (check["status"], check["blocking"], check["outliers"]) == ("unknown", True, ["tray-02"])
    assert "tray-02 (unreachable: no route)" in check["reason"]
    assert len(check["hosts"]) == 3


def test_a_mix_is_certain_also_beside_one_that_did_not_answer():
    check = of_rack([OLD, OLD, OLD, NEW, None])
    assert (check["status"], check["outliers"]) == ("fail", ["tray-03"])
    assert "Not known: tray-04" in check["reason"]


def test_no_loaded_driver_is_no_version():
    rows = [row("a", domain=RACK_A), row("b", domain=RACK_A, driver=None)]
    check = answers(fleet_readiness(rows, {}), "fleet.driver")["domain", RACK_A]
    assert (check["status"], check["outliers"]) == ("unknown", ["b"])
    assert "no driver is loaded" in check["reason"]


@pytest.mark.parametrize(("versions", "words"), [([OLD], "the only node"), ([OLD] * 3, "all 3 nodes")])
def test_one_version_passes(versions, words):
    check = of_rack(versions)
    assert (check["status"], check["outliers"], check["remedy"]) == ("pass", [], None)
    assert words in check["reason"]


def test_racks_may_differ_from_each_other():
    rows = [row("a", domain=RACK_A), row("b", domain=RACK_B, driver=NEW)]
    found = answers(fleet_readiness(rows, {"a": {"deployment": "k3"}, "b": {"deployment": "k3"}}), "fleet.driver")
    assert {scope: check["status"] for scope, check in found.items()} == {
        ("domain", RACK_A): "pass",
        ("domain", RACK_B): "pass",
    }


def test_the_rack_is_what_the_nodes_observe_also_where_some_declare_nothing():
    check = of_rack([OLD, OLD, NEW], declared={"tray-00": {"nvlink_domain": "rack-a"}})
    assert check["outliers"] == ["tray-02"]


def test_without_a_domain_versions_of_a_deployment_only_warn():
    rows = [row("a"), row("b"), row("c", driver=NEW), row("alone", driver="580.65.06")]
    fleet = fleet_readiness(rows, {host: {"deployment": "k3"} for host in "abc"})
    found = answers(fleet, "fleet.driver")
    assert list(found) == [("deployment", "k3")]
    check = found["deployment", "k3"]
    assert (check["status"], check["blocking"], check["outliers"]) == ("warn", False, ["c"])
    assert fleet["verdict"] == "degraded"
