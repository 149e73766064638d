# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.declared import declared_of


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
