# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A dry run of the driver and the fabric: the second is judged on what the first would have left."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import foreseen, hgx

MANAGER = "nvidia-fabricmanager.service"
ABSENT = {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "UnitFileState": "", "Result": ""}
KERNEL = "6.8.0-85-generic"
FACTS = {"driver": {"kernels": {"running": KERNEL, "boot": KERNEL}, "disk": {KERNEL: None}}}
BARE = {
    "driver": None,
    "gpus": {"unknown": "nvidia-smi is not there"},
    "units": {"manager": ABSENT, "imex": ABSENT},
    "unloaded": [],
    "manager": {"packages": {}, "binary": None, "running": False},
    "nvlsm": {"packages": {}, "binary": False},
    "imex": {"packages": {}},
}
TOLD = {"version": "580.126.20", "packages": {"nvidia-fabricmanager": "580.126.20", "nvidia-open": "580.126.20"}}


def lines(told):
    made = hgx.plan(
        {"kind": "hgx", "evidence": "product h100", "kernels": [KERNEL]},
        foreseen.facts(FACTS, told),
        foreseen.now(BARE, told),
        {},
        "gpu-01",
    )
    return made.lines()


def test_alone_a_bare_board_is_told_what_brings_the_fabric_manager():
    (_kind, told, reboot) = lines({})
    assert told.startswith(f"not started: {MANAGER}: nvidia-fabricmanager is not installed; the role nvidia_driver")
    assert reboot == "reboot: not for this"


def test_after_the_driver_was_foretold_the_reboot_is_what_it_waits_for():
    (_kind, enabled, told, reboot) = lines(TOLD)
    assert enabled == f"service {MANAGER}: enabled at boot, where its package brings it disabled"
    why = "no driver is loaded, and nvidia-fabricmanager is 580.126.20, as the driver of the next boot is"
    assert told == f"not started before the reboot: {MANAGER}: {why}"
    assert reboot == f"reboot: due, {why}"


@pytest.mark.parametrize("kept", [{"nvidia-fabricmanager-575": "575.57.08"}, {}])
def test_what_goes_is_not_there_afterwards(kept):
    read = {**BARE, "manager": {**BARE["manager"], "packages": kept}}
    told = {**TOLD, "packages": {**TOLD["packages"], "nvidia-fabricmanager-575": None}}
    assert foreseen.now(read, told)["manager"]["packages"] == {"nvidia-fabricmanager": "580.126.20"}


def test_a_unit_that_is_there_is_taken_as_it_is():
    there = {**ABSENT, "LoadState": "loaded", "UnitFileState": "enabled"}
    read = {**BARE, "units": {**BARE["units"], "manager": there}}
    assert foreseen.now(read, TOLD)["units"]["manager"] == there


@pytest.mark.parametrize("facts", [{}, {"driver": {"unknown": "it hung"}}])
def test_facts_that_are_not_known_stay_so(facts):
    assert foreseen.facts(facts, TOLD) == facts
