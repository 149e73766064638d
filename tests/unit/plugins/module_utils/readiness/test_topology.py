# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the facts of a node to its place in the fleet."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown, to_json
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.topology import VARIABLES, observed
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS


@pytest.fixture
def facts_of(make_node):
    """facts_of(profile): what the probe collects of it."""

    def collect(profile, **options):
        node = make_node(profile, **options)
        node.require = contract.resolve({})
        return probe.collect(node)

    return collect


def port(state="ACTIVE", rate=400.0, layer="InfiniBand", phys="LinkUp"):
    return {"state": state, "phys_state": phys, "rate_gbps": rate, "link_layer": layer, "counters": {}, "gids": []}


def device(*ports, management=False, soft=False):
    numbered = {str(number): item for number, item in enumerate(ports, 1)}
    return {"soft": soft, "switch_management": management, "ports": numbered, "board_id": None, "hca_type": None}


def of_devices(**devices):
    return observed({"rdma": {"devices": devices}})


@pytest.mark.parametrize("kind", KINDS)
def test_collected_facts_and_those_of_a_report_tell_the_same(facts_of, kind):
    facts = facts_of(healthy(kind))
    told = observed(facts)
    assert told == observed(to_json(facts)) == observed(probe.report([], facts)["facts"])
    assert told["unknown"] == {}
    assert told["gpu_model"] == kind
    assert told["gpu_count"] == (4 if kind == "gb200" else 8)
    assert ("k3_nvlink_domain" in told) is (kind == "gb200")
    assert told["k3_gpudirect_path"] == "dmabuf"


def test_a_tray_is_told_with_texts_where_an_inventory_wants_texts(facts_of):
    told = observed(facts_of(healthy("gb200")))
    assert told["k3_nvlink_domain"] == "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"
    assert told["k3_nvlink_partition"] == "2"
    assert told["k3_rdma_hcas"] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    assert told["rdma_rate"] == 400
    assert isinstance(told["rdma_rate"], int)
    for name, key in (("k3_nvlink_partition", "nvlink_partition"), ("k3_rdma_hcas", "rdma_hcas")):
        assert contract.resolve({key: told[name]})[key] == told[name]


def test_partition_zero_is_a_partition(facts_of):
    facts = facts_of(healthy("gb200"))
    facts["fabric"]["partition"] = "0"
    assert observed(facts)["k3_nvlink_partition"] == "0"


def test_where_nothing_was_read_everything_is_unknown_and_nothing_absent():
    told = observed({})
    assert set(told) == {"unknown"}
    assert set(told["unknown"]) == set(VARIABLES)


@pytest.mark.parametrize("why", [Unknown("the probe hung"), {"unknown": "the probe hung"}])
def test_a_concern_that_broke_makes_its_variables_unknown_with_its_reason(facts_of, why):
    facts = {**facts_of(healthy("gb200")), "fabric": why}
    told = observed(facts)
    assert told["unknown"] == dict.fromkeys(
        ("driver_version", "k3_nvlink_domain", "k3_nvlink_partition"), "the probe hung"
    )
    assert told["gpu_model"] == "gb200"


def test_a_machine_without_a_gpu_has_no_domain_and_no_driver(facts_of):
    told = observed(facts_of(healthy("b200").without("/sys/bus/pci/devices")))
    assert told["unknown"]["gpu_count"]
    empty = {"gpu": {"pci": []}, "fabric": Unknown("this machine has no GPU"), "host": {"arch": "x86_64"}}
    told = observed(empty)
    assert told["gpu_count"] == 0
    assert not {"gpu_model", "k3_nvlink_domain", "driver_version"} & {*told, *told["unknown"]}


def test_unlisted_and_mixed_gpus_have_no_model():
    row = {"vendor": "10de", "device": "ffff", "product": None}
    listed = [{"vendor": "10de", "device": "2330", "product": name} for name in ("h100", "h200")]
    one = observed({"gpu": {"pci": [row]}})
    assert one["gpu_count"] == 1
    assert "10de:ffff" in one["unknown"]["gpu_model"]
    assert "mixes GPUs: h100, h200" in observed({"gpu": {"pci": listed}})["unknown"]["gpu_model"]


def test_rails_are_the_fastest_active_ports_by_the_name_nccl_uses():
    told = of_devices(
        mlx5_0=device(port(), port()),
        mlx5_1=device(port(rate=100.0)),
        mlx5_2=device(port(state="DOWN")),
        mlx5_3=device(port(), management=True),
        rxe0=device(port(), soft=True),
    )
    assert told["k3_rdma_hcas"] == ["mlx5_0:1", "mlx5_0:2"]


def test_no_rail_is_no_rail_and_not_unknown():
    told = of_devices(mlx5_0=device(port(state="DOWN")))
    assert not {"k3_rdma_hcas", "rdma_rate", "rdma_link_layer"} & {*told, *told["unknown"]}


@pytest.mark.parametrize(
    "devices",
    [
        {"mlx5_0": device(port(), management=Unknown("needs root"))},
        {"mlx5_0": device(port()), "mlx5_1": device(port(state=Unknown("unreadable")))},
        {"mlx5_0": device(port()), "mlx5_1": device(port(rate=Unknown("unreadable")))},
        {"{{ lookup('pipe', 'id') }}": device(port())},
    ],
)
def test_a_rail_that_may_be_none_makes_them_all_unknown(devices):
    told = observed({"rdma": {"devices": devices}})
    assert set(told["unknown"]) >= {"k3_rdma_hcas", "rdma_rate", "rdma_link_layer"}
    assert "k3_rdma_hcas" not in told


def test_rails_of_two_kinds_have_no_one_link_layer():
    told = of_devices(mlx5_0=device(port()), mlx5_1=device(port(layer="Ethernet")))
    assert told["k3_rdma_hcas"] == ["mlx5_0", "mlx5_1"]
    assert "Ethernet, InfiniBand" in told["unknown"]["rdma_link_layer"]


@pytest.mark.parametrize(
    ("variable", "facts"),
    [
        ("arch", {"host": {"arch": "{{ 1 }}"}}),
        ("driver_version", {"fabric": {"driver": "580; reboot", "domain": None, "partition": None}}),
        ("k3_nvlink_domain", {"fabric": {"driver": None, "domain": "../../x", "partition": None}}),
        ("k3_nvlink_partition", {"fabric": {"driver": None, "domain": None, "partition": "one"}}),
        ("k3_data_interface", {"network": {"default": "eth0\n"}}),
        ("k3_gpudirect_path", {"gpudirect": {"path": "auto"}}),
    ],
)
def test_a_text_of_another_form_is_no_value(variable, facts):
    told = observed(facts)
    assert variable not in told
    assert "the node tells" in told["unknown"][variable]
