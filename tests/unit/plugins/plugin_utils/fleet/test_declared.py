# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.declared import declared_of, left_out


def never():
    raise AssertionError("it costs milliseconds a host")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, (None, None, None)),
        ({"k3_deployment": "k3", "k3_nvlink_domain": "r", "k3_nvlink_partition": 0}, ("k3", "r", 0)),
        ({"other": "{{ x }}"}, (None, None, None)),
    ],
)
def test_plain_values_are_taken_as_they_are(raw, expected):
    assert tuple(declared_of(raw, never).values()) == expected


@pytest.mark.parametrize("template", ["{{ rack }}", "{% if true %}a{% endif %}", "a{# why #}"])
def test_a_template_is_evaluated(template):
    evaluated = {"k3_deployment": "a", "k3_nvlink_partition": 7}
    found = declared_of({"k3_deployment": template, "k3_nvlink_partition": 0}, lambda: evaluated)
    assert found == {"deployment": "a", "nvlink_domain": None, "nvlink_partition": 0}


def test_a_deployment_that_is_only_in_part_in_a_run_is_told_once():
    inside = {"a": {"deployment": "k3", "nvlink_domain": 7}, "b": {"deployment": None, "nvlink_domain": ""}}
    outside = {f"n{number}": {"deployment": "k3", "nvlink_domain": None} for number in range(7)}
    outside |= {"o": {"deployment": "other", "nvlink_domain": "7"}, "p": {"deployment": "", "nvlink_domain": ""}}
    end = "not, and no fleet check speaks of what was left out"
    assert left_out(inside, outside) == [
        f"deployment k3 is only in part in this run: n0, n1, n2, n3, n4 and 2 more are {end}",
        f"NVLink domain 7 is only in part in this run: o is {end}",
    ]
