# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import Seen, compare
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.declare import declared, to_write

EVERYTHING = {"k3_nvlink_partition": "2", "k3_rdma_hcas": ["mlx5_0", "mlx5_1"], "k3_data_interface": "eth0"}


def written(variables, found, in_file=None, loaded=True, host="a", discovered=None, **seen):
    """What is to be written of a node, and the note."""
    known = declared(variables, discovered or {}, in_file or {}, loaded)
    node = Seen(**{"by": "probe", "values": found, **seen})
    return to_write(compare(host, known.values, node), node, known)


def test_what_nobody_declared_is_written():
    assert written({}, EVERYTHING) == (EVERYTHING, None)


@pytest.mark.parametrize(
    ("variables", "note"),
    [
        ({"k3_nvlink_partition": 2}, None),
        ({"k3_nvlink_partition": "3"}, "declared elsewhere, and not what is there: k3_nvlink_partition"),
        # Left open on purpose.
        ({"k3_nvlink_partition": ""}, None),
    ],
)
def test_what_is_declared_elsewhere_is_left_alone(variables, note):
    values, told = written(variables, EVERYTHING)
    assert "k3_nvlink_partition" not in values
    assert told == note


@pytest.mark.parametrize("loaded", [True, False])
def test_a_value_of_the_file_gives_way_to_what_is_there(loaded):
    variables = {"k3_nvlink_partition": "1"} if loaded else {}
    values, _note = written(variables, EVERYTHING, {"k3_nvlink_partition": "1"}, loaded)
    assert values["k3_nvlink_partition"] == "2"


def test_a_value_of_the_file_that_means_the_same_stays_as_it_is_written():
    in_file = {"k3_rdma_hcas": ["mlx5_1", "mlx5_0"], "k3_nvlink_partition": 2, "k3_data_interface": "eth0"}
    assert written(in_file, EVERYTHING, in_file) == ({}, None)


def test_a_choice_of_the_file_that_holds_stays():
    in_file = {**EVERYTHING, "k3_data_interface": "bond0"}
    assert written(in_file, EVERYTHING, in_file, holding=frozenset({"k3_data_interface"})) == ({}, None)
    assert written(in_file, EVERYTHING, in_file)[0] == {"k3_data_interface": "eth0"}


def test_what_the_inventory_plugin_found_counts_as_found_and_not_as_declared():
    plugin = {"k3_nvlink_partition": "2"}
    known = declared(plugin, plugin, {}, True)
    assert known.values == {}
    assert written(plugin, EVERYTHING, discovered=plugin)[0] == EVERYTHING
    # Once the file declares it, it is declared, though both say the same.
    assert declared(plugin, plugin, plugin, True).values == plugin
    # Another value than the plugin's is somebody's.
    assert declared({"k3_nvlink_partition": "3"}, plugin, {}, True).values == {"k3_nvlink_partition": "3"}


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"by": "", "reason": "unreachable: x"}, "not seen"),
        ({"gpus": 0}, "it has no GPU"),
        ({"host": "a:22"}, "Ansible would read its name as a range or a port"),
    ],
)
def test_of_such_a_node_nothing_is_written_or_taken_out(options, note):
    assert written({"k3_nvlink_partition": "1"}, EVERYTHING, {"k3_nvlink_partition": "1"}, **options) == ({}, note)


def test_what_is_not_there_or_cannot_be_read_is_left_and_told():
    in_file = {"k3_nvlink_partition": "1", "k3_nvlink_domain": "x"}
    values, note = written(in_file, {}, in_file, unknown={"k3_nvlink_domain": "it hangs", "k3_gpudirect_path": "why"})
    assert values == {}
    assert note == "cannot be read: k3_nvlink_domain, k3_gpudirect_path; declared, and not there: k3_nvlink_partition"


def test_what_another_place_overrules_is_a_conflict():
    known = declared({"k3_nvlink_partition": "2"}, {}, {"k3_nvlink_partition": "1", "k3_data_interface": "eth0"}, True)
    assert known.conflicts == ("k3_nvlink_partition", "k3_data_interface")
    assert declared({}, {}, {"k3_nvlink_partition": "1"}, False).conflicts == ()


def test_whether_rails_are_isolated_is_never_written():
    assert "k3_rail_isolated" not in written({}, {**EVERYTHING, "k3_rail_isolated": True})[0]
