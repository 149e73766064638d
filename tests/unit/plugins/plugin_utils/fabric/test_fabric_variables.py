# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role nvidia_fabric refuses before any node is contacted."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import variables
from ansible_collections.gpufleet.kimi_k3.tests.fixtures import fabric_wishes

HOST = {"nvidia_fabric_imex_owner": "host", "nvidia_fabric_imex_nodes": ["192.0.2.10", "192.0.2.11"]}
DECLARED = {"k3_nvlink_domain": "6e0a4a1c-0d6b-4a3e-9a58-9d1f7f0f0001", "k3_nvlink_partition": 32766}


def test_the_defaults_are_fine():
    role = fabric_wishes.VARS.parents[2]
    defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text(encoding="utf-8"))
    options = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"][
        "main"
    ]["options"]
    assert set(defaults) == set(options) == set(variables.RULES.judges)
    plain = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    assert variables.faults({"a": plain}) == []
    choices = {name: option["choices"] for name, option in options.items() if "choices" in option}
    assert {name: set(allowed) for name, allowed in choices.items()} == {
        "nvidia_fabric_kind": set(variables.KINDS),
        "nvidia_fabric_imex_owner": {*variables.OWNERS, ""},
        "nvidia_fabric_gpu_memory_mode": set(variables.MEMORY_MODES),
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"nvidia_fabric_kind": "nvl72"}, "nvidia_fabric_kind: 'nvl72' is not allowed; allowed: auto or none or hgx"),
        ({"nvidia_fabric_imex_owner": "kubernetes"}, "allowed: host or slurm or dra or none or empty"),
        ({"nvidia_fabric_imex_restart": "perhaps"}, "allowed: true or false"),
        ({"nvidia_fabric_gpu_memory_mode": "cdmm"}, "allowed: driver or numa or leave"),
        ({"nvidia_fabric_timeout": 0}, "allowed: seconds from 5 to 86400"),
        ({"nvidia_fabric_lock_timeout": "soon"}, "allowed: seconds from 0 to 86400"),
        ({"nvidia_fabric_idle_holders": "dcgm"}, "a list of names of processes"),
        ({"nvidia_fabric_imex_owners": "host"}, "did you mean nvidia_fabric_imex_owner"),
        # A tray that is named as one.
        ({"nvidia_fabric_kind": "tray"}, "nvidia_fabric_imex_owner: '' is not allowed on a tray"),
        ({"nvidia_fabric_imex_owner": "host"}, "nvidia_fabric_imex_nodes: [] is not allowed; allowed: with"),
        ({"nvidia_fabric_imex_owner": "dra", "nvidia_fabric_imex_nodes": ["192.0.2.10"]}, "since only the owner host"),
    ],
)
def test_each_wrong_value_is_refused_with_what_is_allowed(given, says):
    (fault,) = variables.faults({"tray-1": given})
    assert fault.startswith("host tray-1: ")
    assert says in fault


@pytest.mark.parametrize(
    "nodes",
    [
        "192.0.2.10",
        ["192.0.2.10", "192.0.2.10"],
        ["2001:db8::1", "2001:0db8::1"],
        ["tray-1"],
        ["192.0.2.300"],
        ["127.0.0.1"],
        ["0.0.0.0"],
        ["224.0.0.1"],
        ["fe80::1"],
        [3221225994],
        ["192.0.2.10\n"],
    ],
)
def test_nodes_that_are_no_list_of_addresses_are_refused(nodes):
    (fault,) = variables.faults({"a": {**HOST, "nvidia_fabric_imex_nodes": nodes}})
    assert "nvidia_fabric_imex_nodes: " in fault
    assert "a list of the IPv4 or IPv6 addresses" in fault


def test_trays_of_one_declared_partition_are_given_the_same():
    same = {**HOST, **DECLARED}
    # Declared with other letters, it is the same domain.
    other = {**same, "k3_nvlink_domain": DECLARED["k3_nvlink_domain"].upper(), "k3_nvlink_partition": "32766"}
    assert variables.faults({"a": same, "b": other}) == []
    (fault,) = variables.faults({"a": same, "b": {**other, "nvidia_fabric_imex_nodes": ["192.0.2.11", "192.0.2.10"]}})
    assert fault.startswith("nvidia_fabric_imex_nodes differs between trays of one NVLink partition")
    assert "host a: ['192.0.2.10', '192.0.2.11']; host b: ['192.0.2.11', '192.0.2.10']" in fault
    (fault, _nodes) = variables.faults({"a": same, "b": {**DECLARED, "nvidia_fabric_imex_owner": "slurm"}})
    assert "nvidia_fabric_imex_owner differs" in fault


def test_long_lists_that_differ_at_their_ends_differ():
    nodes = [f"192.0.2.{number}" for number in range(1, 19)]
    (fault,) = variables.faults(
        {
            "a": {**HOST, **DECLARED, "nvidia_fabric_imex_nodes": nodes},
            "b": {**HOST, **DECLARED, "nvidia_fabric_imex_nodes": [*nodes[:-1], "192.0.2.99"]},
        }
    )
    assert "differs" in fault


def test_other_partitions_have_lists_of_their_own():
    other = {**HOST, **DECLARED, "k3_nvlink_partition": 1, "nvidia_fabric_imex_nodes": ["192.0.2.12"]}
    assert variables.faults({"a": {**HOST, **DECLARED}, "b": other, "c": {"nvidia_fabric_imex_owner": "none"}}) == []
