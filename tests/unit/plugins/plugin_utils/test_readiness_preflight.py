# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import os

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.readiness_preflight import faults, gated, internal_faults


def fault_of(variables, host="gpu-01"):
    found = faults({host: variables})
    return found[0] if found else None


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"other_role_x": 1},
        {"node_readiness_timeout": "30"},
        {"node_readiness_gate": "yes"},
        {"node_readiness_require": {"gpu_count": 8}, "node_readiness_require_host": {"data_interface": "bond0"}},
        {"node_readiness_skip": {"network.mtu": "Measured by the site."}},
        {"k3_nvlink_partition": 0},
        {"k3_deployment": "k3-a"},
        {"k3_deployment": ""},
        {"k3_rdma_hcas": ["mlx5_0"]},
        {"node_readiness_report_dir": "~/reports"},
    ],
)
def test_what_is_right_passes(variables):
    assert fault_of(variables) is None


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"node_readiness_tiemout": 1}, "did you mean node_readiness_timeout"),
        ({"node_readiness_timeout": "soon"}, "seconds from 1 to 600"),
        ({"node_readiness_timeout": True}, "seconds from 1 to 600"),
        ({"node_readiness_timeout": "nan"}, "seconds from 1 to 600"),
        ({"node_readiness_timeout": 0}, "seconds from 1 to 600"),
        ({"node_readiness_gate": "maybe"}, "true or false"),
        ({"node_readiness_report_dir": ""}, "path of a folder"),
        ({"node_readiness_report_dir": "a\x1b[31m"}, "path of a folder"),
        ({"node_readiness_require": ["gpu_count"]}, "must be a dictionary"),
        ({"node_readiness_require": {"gpu_count": "many"}}, "require.gpu_count: 'many'"),
        ({"node_readiness_require_host": {"gpu_cont": 8}}, "did you mean gpu_count"),
        ({"node_readiness_skip": {"network.mtu": ""}}, "a sentence that says why"),
        ({"k3_rail_isolated": "perhaps"}, "k3_rail_isolated: require.rail_isolated: 'perhaps'"),
        ({"k3_rdma_hcas": "mlx5_0"}, "a list of device names"),
        ({"k3_deployment": 3}, "allowed: a name of at most 64"),
        ({"k3_deployment": None}, "allowed: a name of at most 64"),
        ({"k3_deployment": ["k3-a"]}, "allowed: a name of at most 64"),
        ({"k3_deployment": "k3 a"}, "allowed: a name of at most 64"),
        ({"k3_deployment": "<script>"}, "allowed: a name of at most 64"),
    ],
)
def test_what_is_wrong_is_named_with_host_variable_value_and_what_is_allowed(variables, words):
    fault = fault_of(variables)
    assert fault.startswith("host gpu-01: ")
    assert next(iter(variables)) in fault
    assert words in fault
    assert fault.isprintable()


@pytest.mark.parametrize(
    "name",
    [
        "$(reboot)",
        "{{ lookup('pipe', 'id') }}",
        "-oProxyCommand=x",
        "a b",
        "a\x1b[31m",
        "a;b",
        "../a",
        "a'b",
        "",
        "a" * 300,
    ],
)
def test_a_host_name_that_something_could_act_upon_is_refused(name):
    fault = fault_of({}, name)
    assert "the name is not allowed" in fault
    assert fault.isprintable()


def test_a_fault_of_many_hosts_comes_once():
    found = faults({f"gpu-{number}": {"node_readiness_gate": "maybe"} for number in range(1000)})
    assert found == [
        "hosts gpu-0, gpu-1, gpu-2 and 997 more: node_readiness_gate: 'maybe' is not allowed; allowed: true or false"
    ]


@pytest.mark.parametrize(("values", "expected"), [([None, None], False), ([None, "yes"], True), ([False, "0"], False)])
def test_one_node_that_asks_for_the_gate_is_enough(values, expected):
    variables = [{} if value is None else {"node_readiness_gate": value} for value in values]
    assert gated(dict(enumerate(variables))) is expected


@pytest.mark.parametrize("place", ["file", "file/below", "closed/x" if os.geteuid() else "file/x/y", "n" * 300])
def test_a_folder_that_cannot_be_is_refused_before_the_nodes_are_asked(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "node_readiness_report_dir: " in fault_of({"node_readiness_report_dir": str(tmp_path / place)})
    assert fault_of({"node_readiness_report_dir": str(tmp_path / "new" / "folder")}) is None
    assert not (tmp_path / "new").exists()


def test_a_folder_of_nobodys_is_refused():
    assert "home directory" in fault_of({"node_readiness_report_dir": "~no-such-user/x"})


def test_a_run_has_one_folder(tmp_path):
    variables = {name: {"node_readiness_report_dir": str(tmp_path / name)} for name in ("a", "b")}
    assert faults(variables)[0].endswith("allowed: one folder for all hosts")


@pytest.mark.parametrize("name", ["k3_rail_isolatd", "k3_nvlink_domian", "k3_deploymnet"])
def test_a_misspelt_declaration_is_refused(name):
    assert "did you mean k3_" in fault_of({name: "x"})


@pytest.mark.parametrize("name", ["k3_quarantined_hosts", "k3_image_digest", "k3_launch_port"])
def test_what_other_roles_call_their_own_is_left_alone(name):
    assert fault_of({name: "x"}) is None


def test_the_roles_own_variables_are_not_given_by_hand():
    given = {"node_readiness_result": {}, "node_readiness_report": {}, "node_readiness_gate": True}
    assert internal_faults(given) == [
        f"{name}: it is not allowed with -e; allowed: nothing, the role sets it"
        for name in ("node_readiness_result", "node_readiness_report")
    ]
