# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The face that templates see, and its documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.kimi_k3.plugins.filter.fleet_readiness import FilterModule
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import RACK_A, row

DOCUMENTATION = Path(__file__).resolve().parents[4] / "plugins" / "filter" / "fleet_readiness.yml"
filtered = FilterModule().filters()["fleet_readiness"]


@pytest.mark.parametrize("declared", [(), (None,), ({},)])
def test_without_declarations_nothing_is_declared(declared):
    assert filtered([row("a")], *declared)["verdict"] == "ready"


def test_declarations_are_handed_on():
    checks = filtered([row("a")], {"a": {"deployment": "k3"}})["checks"]
    assert {check["scope"]["name"] for check in checks} == {"k3", "all"}


def test_wrong_input_is_an_error_of_the_filter():
    with pytest.raises(AnsibleFilterError, match="fleet_readiness: row 0 is none"):
        filtered([1])


def test_the_documented_answer_is_one():
    sample = yaml.safe_load(DOCUMENTATION.read_text("utf-8"))["RETURN"]["_value"]["contains"]["checks"]["sample"][0]
    rows = [row("tray-01", domain=RACK_A), row("tray-02", domain=RACK_A)]
    rows.append(row("tray-03", domain=RACK_A, driver="580.159.04"))
    declared = {item["host"]: {"nvlink_domain": "rack-a"} for item in rows}
    real = next(check for check in filtered(rows, declared)["checks"] if check["id"] == sample["id"])
    sample["remedy"]["action"] = real["remedy"]["action"]
    assert sample == real
