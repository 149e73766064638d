# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import (
    DIFFERS,
    HOLDS,
    NONE,
    SAME,
    UNDECLARED,
    UNKNOWN,
    Seen,
    compare,
    gate_fault,
)

DOMAIN = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"
FOUND = {
    "k3_nvlink_domain": DOMAIN,
    "k3_nvlink_partition": "0",
    "k3_rdma_hcas": ["mlx5_0", "mlx5_1"],
    "k3_data_interface": "eth0",
    "k3_gpudirect_path": "dmabuf",
}


def states(declared, seen):
    return {name: cell["state"] for name, cell in compare("a", declared, seen)["variables"].items()}


@pytest.mark.parametrize(
    ("name", "declared", "state"),
    [
        ("k3_nvlink_domain", DOMAIN, SAME),
        ("k3_nvlink_domain", "another", DIFFERS),
        ("k3_nvlink_domain", "", UNDECLARED),
        ("k3_nvlink_domain", None, UNDECLARED),
        # 0 is a partition like any other (facts, corrections (NVLink domain)).
        ("k3_nvlink_partition", "0", SAME),
        ("k3_nvlink_partition", "1", DIFFERS),
        ("k3_rdma_hcas", ["mlx5_1", "mlx5_0"], SAME),
        ("k3_rdma_hcas", ["mlx5_0"], DIFFERS),
        ("k3_rdma_hcas", [], UNDECLARED),
        ("k3_gpudirect_path", "auto", UNDECLARED),
        ("k3_gpudirect_path", "peermem", DIFFERS),
        ("k3_data_interface", "bond0", DIFFERS),
    ],
)
def test_a_declared_value_beside_the_one_that_is_there(name, declared, state):
    assert states({} if declared is None else {name: declared}, Seen("probe", values=FOUND))[name] == state


def test_another_choice_that_holds_on_the_node_is_no_difference():
    declared = {"k3_data_interface": "bond0", "k3_gpudirect_path": "peermem"}
    seen = Seen("probe", values=FOUND, holding=frozenset({"k3_data_interface"}))
    found = states(declared, seen)
    assert (found["k3_data_interface"], found["k3_gpudirect_path"]) == (HOLDS, DIFFERS)


def test_what_is_declared_and_not_there_differs_and_what_is_neither_is_none():
    found = states({"k3_nvlink_domain": DOMAIN}, Seen("probe", values={}))
    assert found == {**dict.fromkeys(FOUND, NONE), "k3_nvlink_domain": DIFFERS}


def test_what_could_not_be_read_is_never_the_same_or_different():
    seen = Seen("probe", values=FOUND, unknown={"k3_nvlink_domain": "nvidia-smi hangs"})
    cell = compare("a", {"k3_nvlink_domain": DOMAIN}, seen)["variables"]["k3_nvlink_domain"]
    assert (cell["state"], cell["reason"]) == (UNKNOWN, "nvidia-smi hangs")


def test_a_node_that_was_not_seen_is_a_row_that_says_why():
    row = compare("a", {"k3_nvlink_domain": DOMAIN}, Seen("", "unreachable: no route"))
    assert (row["seen"], row["reason"]) == (None, "unreachable: no route")
    assert {cell["state"] for cell in row["variables"].values()} == {UNKNOWN}
    assert row["variables"]["k3_nvlink_domain"]["declared"] == DOMAIN


@pytest.mark.parametrize(
    ("declared", "seen", "words"),
    [
        ({"k3_nvlink_domain": DOMAIN}, Seen("probe", values=FOUND), ""),
        ({"k3_data_interface": "x"}, Seen("probe", values=FOUND, holding=frozenset({"k3_data_interface"})), ""),
        ({"k3_nvlink_domain": "other"}, Seen("probe", values=FOUND), "1 declared values are not what is there"),
        ({"k3_nvlink_domain": DOMAIN}, Seen("", "dead"), "1 declared values could not be read (a: k3_nvlink_domain)"),
        ({}, Seen("probe", values=FOUND), "no value of the topology is declared"),
        ({"k3_gpudirect_path": "auto"}, Seen("probe", values=FOUND), "no value of the topology is declared"),
        ({}, Seen("", "dead"), "no value of the topology is declared"),
    ],
)
def test_the_gate_opens_only_where_every_declared_value_was_found(declared, seen, words):
    fault = gate_fault([compare("a", declared, seen)])
    assert words in fault
    assert bool(words) == bool(fault)


def test_the_gate_of_no_node_stays_shut():
    assert gate_fault([])
