# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The variables of a role, held against what is allowed."""

from __future__ import annotations

from ansible.errors import AnsibleError

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import role_variables
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.role_variables import Rules, boolean, one_of, seconds

RULES = Rules(
    prefix="web_",
    judges={"web_port": seconds(1, 9), "web_on": boolean, "web_mode": one_of("a", "")},
    together=lambda values: ["both"] if len(values) == 2 else [],
    internal=("web_summary",),
)


class Broken(dict):
    """Variables of which one cannot be evaluated, as Ansible's do it."""

    def __getitem__(self, name):
        raise AnsibleError("'colour' is undefined\nin a template")


def test_what_is_fine_gives_nothing():
    assert role_variables.faults(RULES, {"a": {"web_port": "5", "other": 1, "web_summary": {}}, "b": {}}) == []


def test_each_fault_names_hosts_variable_value_and_what_is_allowed():
    hosts = {name: {"web_port": 70} for name in "abcde"}
    assert role_variables.faults(RULES, {**hosts, "f": {"web_prot": 1, "web_on": "maybe", "web_mode": 3}}) == [
        "hosts a, b, c and 2 more: web_port: 70 is not allowed; allowed: seconds from 1 to 9",
        "host f: there is no variable 'web_prot'; did you mean web_port or web_on?",
        "host f: web_on: 'maybe' is not allowed; allowed: true or false",
        "host f: web_mode: 3 is not allowed; allowed: a or empty",
    ]


def test_variables_are_held_against_each_other_only_where_each_is_fine():
    assert role_variables.faults(RULES, {"a": {"web_port": 5, "web_on": True}}) == ["host a: both"]
    (fault,) = role_variables.faults(RULES, {"a": {"web_port": 5, "web_on": "x"}})
    assert "web_on" in fault


def test_what_cannot_be_evaluated_is_a_fault_in_one_line():
    (fault,) = role_variables.faults(RULES, {"a": Broken(web_port=1)})
    assert fault == "host a: web_port cannot be evaluated: 'colour' is undefined"


def test_true_is_no_number_of_seconds():
    assert seconds(0, 9)(True)
    assert not seconds(0, 9)(0)
    assert seconds(0, 9)(-1)
