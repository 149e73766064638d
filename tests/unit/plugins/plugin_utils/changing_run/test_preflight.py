# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a user may write for a changing run."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleUndefinedVariable

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.changing_run.preflight import INTERNAL, faults, steal_ids

ID, OTHER = "20261130T210000Z-1a2b3c4d", "20261130T210000Z-1a2b3c4e"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"k3_run_id": ID, "k3_lock_steal": f"{ID}, {OTHER}", "changing_run_playbook": "site"},
        {"k3_run_id": "", "k3_lock_steal": [], "changing_run_step": "Restart"},
        {"k3_lock_steal": [ID], "changing_run_lock_dir": "/var/lib/x", "changing_run_report_dir": "~/reports"},
        {"k3_rdma_hcas": [], "k3_deployment": "a", "changing_run_begun": {}},
    ],
)
def test_what_is_allowed_has_no_fault(values):
    assert faults({"a": values, "b": values}, {}) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"k3_run_id": "ci"}, "k3_run_id: 'ci' is not allowed; allowed: the id of a run"),
        ({"k3_run_id": None}, "k3_run_id: None is not allowed"),
        ({"k3_lock_steal": True}, "k3_lock_steal: True is not allowed"),
        ({"k3_lock_steal": "all"}, "k3_lock_steal: 'all' is not allowed"),
        ({"k3_lock_steal": [ID, 7]}, "or a list of them"),
        ({"changing_run_playbook": "../x"}, "changing_run_playbook: '../x'"),
        ({"changing_run_playbook": ""}, "changing_run_playbook: ''"),
        ({"changing_run_lock_dir": "locks"}, "the absolute path of a folder on the node"),
        ({"changing_run_lock_dir": "/"}, "changing_run_lock_dir: '/'"),
        ({"changing_run_report_dir": " "}, "changing_run_report_dir: ' '"),
        ({"changing_run_step": "a\nb"}, "changing_run_step: 'a\\nb'"),
        ({"changing_run_lockdir": "/x"}, "did you mean changing_run_lock_dir"),
        ({"k3_lock_stael": ID}, "did you mean k3_lock_steal"),
        ({"k3_runid": ID}, "did you mean k3_run_id"),
    ],
)
def test_a_fault_names_host_variable_value_and_what_is_allowed(values, words):
    found = faults({"a": {}, "b": values}, {})
    assert len(found) == 1
    assert found[0].startswith("host b: ")
    assert words in found[0]


def test_a_variable_that_cannot_be_evaluated_is_named():
    class Failing(dict):
        def __getitem__(self, name):
            raise AnsibleUndefinedVariable(f"no {name}")

    assert "k3_run_id cannot be evaluated" in faults({"a": Failing(k3_run_id="")}, {})[0]


def test_one_run_is_one_for_all_hosts():
    found = faults({"a": {"k3_run_id": ID}, "b": {"k3_run_id": OTHER}}, {})
    assert len(found) == 1
    assert "one value for all hosts" in found[0]
    assert faults({"a": {"changing_run_lock_dir": "/a"}, "b": {"changing_run_lock_dir": "/b"}}, {}) == []


@pytest.mark.parametrize("name", INTERNAL)
def test_what_the_role_registers_cannot_be_given(name):
    assert faults({"a": {}}, {name: {}}) == [f"{name}: it is not allowed with -e; allowed: nothing, the role sets it"]


def test_a_fault_that_many_hosts_share_comes_once():
    found = faults({f"gpu-{number:02d}": {"k3_run_id": "x"} for number in range(20)}, {})
    assert len(found) == 1
    assert found[0].startswith("hosts gpu-00, gpu-01, gpu-02 and 17 more: ")


@pytest.mark.parametrize(
    ("value", "ids"), [("", []), (f"{ID},{OTHER},", [ID, OTHER]), ([f" {ID} "], [ID]), (None, ["None"]), (7, ["7"])]
)
def test_ids_to_steal_come_as_a_text_or_a_list(value, ids):
    assert steal_ids(value) == ids
