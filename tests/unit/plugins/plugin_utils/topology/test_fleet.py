# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From what a made-up node answers to the topology file."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime

import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import DIFFERS, HOLDS, SAME, UNKNOWN
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.fleet import (
    NodeInput,
    compare_all,
    conflicts,
    new_text,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import TopologyFile, parse
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)
LATER = datetime(2026, 12, 24, 18, 0, 0, tzinfo=UTC)
PATH = "/srv/inventory/topology.yml"
DOMAIN = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"
TRAY = {
    "k3_nvlink_domain": DOMAIN,
    "k3_nvlink_partition": "2",
    "k3_rdma_hcas": ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"],
    "k3_data_interface": "eth0",
    "k3_gpudirect_path": "dmabuf",
}
DEAD = {"unreachable": True, "msg": "no route to host"}


@pytest.fixture
def answer(report_of):
    """answer(profile, require): the registered result of the probe of a node."""

    def result(profile, require=None):
        # As it comes over the wire.
        return json.loads(json.dumps({"changed": False, "readiness": report_of(profile, require)}))

    return result


def one(result, variables=None, file=None, loaded=True, **others):
    return compare_all([NodeInput("a", result, variables or {}, **others)], file or TopologyFile(), PATH, loaded)[0]


def states(node):
    return {name: cell["state"] for name, cell in node.row["variables"].items()}


def discovered(node):
    return {name: cell["discovered"] for name, cell in node.row["variables"].items() if cell["discovered"] is not None}


def test_a_tray_shows_its_whole_topology(answer):
    node = one(answer(healthy("gb200")), TRAY)
    assert discovered(node) == TRAY
    assert set(states(node).values()) == {SAME}


@pytest.mark.parametrize("kind", ["b200", "h100"])
def test_an_hgx_node_has_no_domain(answer, kind):
    node = one(answer(healthy(kind)), {"k3_nvlink_domain": DOMAIN})
    assert (states(node)["k3_nvlink_domain"], states(node)["k3_nvlink_partition"]) == (DIFFERS, "none")
    assert {"k3_rdma_hcas", "k3_data_interface"} <= set(discovered(node))


def test_a_machine_without_gpus_has_nothing_of_it_to_declare(answer):
    nodes = [one(answer(Profile()))]
    assert new_text(nodes, TopologyFile(), "", WHEN, {}) == ""


def test_a_declared_interface_that_is_up_holds_and_one_that_is_not_there_differs(answer):
    interfaces = ("ip", "-j", "addr", "show")
    profile = healthy("gb200")
    told = json.loads(profile.commands[interfaces].stdout)
    second = {**copy.deepcopy(next(item for item in told if item["ifname"] == "eth0")), "ifname": "bond0"}
    profile.commands[interfaces] = Reply(json.dumps([*told, second]))
    for name, state in (("bond0", HOLDS), ("bond1", DIFFERS)):
        result = answer(profile, {"data_interface": name})
        assert states(one(result, {"k3_data_interface": name}))["k3_data_interface"] == state


def test_facts_of_another_form_are_not_taken_for_a_topology(answer):
    result = answer(healthy("gb200"))
    result["readiness"]["facts"] = {"fabric": ["x"], "rdma": 3, "network": None, "gpudirect": {"path": []}}
    node = one(result, TRAY)
    assert set(states(node).values()) == {UNKNOWN}
    assert discovered(node) == {}


@pytest.mark.parametrize("hostile", ["{{ lookup('pipe', 'id') }}", "eth0\n  evil: true", "a b", "x" * 100, "-flag"])
def test_a_hostile_value_is_neither_taken_nor_written(answer, hostile):
    result = answer(healthy("gb200"))
    result["readiness"]["facts"]["network"]["default"] = hostile
    result["readiness"]["facts"]["fabric"]["partition"] = hostile
    node = one(result)
    assert {states(node)[name] for name in ("k3_data_interface", "k3_nvlink_partition")} == {UNKNOWN}
    text = new_text([node], TopologyFile(), "", WHEN, {})
    assert set(yaml.safe_load(text)["all"]["hosts"]["a"]) == {"k3_nvlink_domain", "k3_rdma_hcas", "k3_gpudirect_path"}
    assert hostile not in text


def test_a_hostile_reason_stays_on_its_line(answer):
    result = answer(healthy("gb200"))
    result["readiness"]["facts"]["network"]["default"] = {"unknown": "x\n---\nall: {vars: {evil: true}}\x1b"}
    text = new_text([one(result)], TopologyFile(), "", WHEN, {})
    assert set(yaml.safe_load(text)["all"]) == {"hosts", "children"}


def test_where_the_probe_could_not_run_what_the_inventory_plugin_saw_serves(answer):
    plugin = {
        "k3_nvlink_domain": DOMAIN,
        "k3_nvlink_partition": "2",
        "gpu_count": 4,
        "unknown": {"k3_rdma_hcas": "why"},
    }
    node = one(DEAD, plugin, raw={"gpu_fabric": plugin})
    assert node.row["seen"] == "gpu_fabric"
    assert states(node)["k3_nvlink_domain"] == "undeclared"
    assert node.row["variables"]["k3_rdma_hcas"]["reason"] == "why"
    text = new_text([node], TopologyFile(), "", WHEN, {})
    assert yaml.safe_load(text)["all"]["hosts"]["a"] == {"k3_nvlink_domain": DOMAIN, "k3_nvlink_partition": "2"}


def test_why_the_plugin_saw_nothing_is_told_as_well():
    node = one(DEAD, raw={"gpu_fabric_error": "the host key changed\x1b"})
    assert node.row["reason"] == "unreachable: no route to host; gpu_fabric: the host key changed?"


def test_the_name_that_the_plugin_gave_to_a_domain_is_the_files_name(answer):
    plugin = {"k3_nvlink_domain": DOMAIN}
    node = one(answer(healthy("gb200")), plugin, raw={"gpu_fabric": plugin})
    text = new_text([node], TopologyFile(), "", WHEN, {"domain_rack07": ["a"], "all": ["a"], "domain_x": ["b"]})
    assert list(parse(text).domains) == ["domain_rack07"]


def test_what_the_probe_saw_comes_before_what_the_plugin_saw_earlier(answer):
    plugin = {"k3_nvlink_partition": "7"}
    node = one(answer(healthy("gb200")), plugin, raw={"gpu_fabric": plugin})
    assert (node.row["seen"], discovered(node)["k3_nvlink_partition"]) == ("probe", "2")
    assert states(node)["k3_nvlink_partition"] == "undeclared"


def test_the_file_says_when_and_from_what_and_a_second_time_changes_nothing(answer):
    result = answer(healthy("gb200"))
    inputs = [NodeInput("a", result, {}), NodeInput("b", DEAD, {})]
    text = new_text(compare_all(inputs, TopologyFile(), PATH, False), TopologyFile(), "", WHEN, {})
    assert "# Changed: 2026-11-30T21:00:00Z; of 2 nodes asked were seen: 1 by probe\n" in text
    assert "#   b: not seen\n" in text
    file = parse(text)
    again = [NodeInput("a", result, file.hosts["a"]), NodeInput("b", {**DEAD, "msg": "another"}, {})]
    assert new_text(compare_all(again, file, PATH, True), file, text, LATER, {}) == text


def test_a_conflict_names_both_values(answer):
    file = TopologyFile({"all": {"hosts": {"a": {"k3_nvlink_partition": "2"}}}})
    node = one(answer(healthy("gb200")), {"k3_nvlink_partition": 7}, file)
    assert conflicts([node]) == [{"host": "a", "variable": "k3_nvlink_partition", "file": "2", "used": "7"}]
    assert states(node)["k3_nvlink_partition"] == DIFFERS


def test_a_node_that_only_the_file_knows_is_reminded_of():
    assert f"take it out of {PATH}" in one(DEAD, first_met=PATH).row["reason"]
    assert PATH not in one(DEAD, first_met="/srv/inventory/hosts.yml").row["reason"]
