# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a fabric did not come up, and what people are told of a run."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import steps, waiting
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError

UP = {"ActiveState": "active", "SubState": "running", "Result": "success"}
DOWN = {"ActiveState": "failed", "SubState": "failed", "Result": "exit-code"}
DONE = {"bdf": "0000:1b:00.0", "state": "Completed", "status": "Success"}
C15 = "ib_umad is not loaded, so the fabric manager took this NVLink 5 board for an older one and found nothing to do (C15)"
WAITS = {"bdf": "0000:43:00.0", "state": "In Progress", "status": "N/A"}


def now(gpus, unit=None, **more):
    """An answer of fabric_state."""
    unit = UP if unit is None else unit
    return {"gpus": gpus, "units": {"manager": unit, "imex": unit}, "unloaded": [], **more}


def test_a_fabric_that_is_up_has_no_fault():
    assert waiting.fault(now([DONE]), "manager", 600, []) == ""


def test_each_gpu_is_told_with_what_it_said():
    assert waiting.fault(now([DONE, WAITS]), "manager", 600, []).splitlines() == [
        "the NVLink fabric is not up after 600 s",
        "0000:1b:00.0: state Completed, status Success",
        "0000:43:00.0: state In Progress, status N/A",
    ]


def test_c15_modules_that_are_missing_are_the_cause():
    log = ["nv-fabricmanager: Detected Pre-NVL5 system", "… WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"]
    told = waiting.fault(now([WAITS], DOWN, unloaded=["ib_umad"], manager={"log": log}), "manager", 600, [])
    assert told.splitlines() == [
        "nvidia-fabricmanager.service failed",
        "nvidia-fabricmanager.service is failed (failed, result exit-code)",
        C15,
        "0000:43:00.0: state In Progress, status N/A",
        "the fabric manager said: nv-fabricmanager: Detected Pre-NVL5 system",
        "the fabric manager said: … WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
    ]


def test_imex_that_waits_names_the_other_trays():
    unit = {"ActiveState": "activating", "SubState": "start", "Result": "success"}
    told = waiting.fault(now([DONE], unit), "imex", 60, ["192.0.2.10", "192.0.2.11"])
    assert "it may wait for IMEX on the other trays of its nodes file: 192.0.2.10, 192.0.2.11" in told


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            now({"unknown": "nvidia-smi is not installed"}),
            "what the GPUs say is not known: nvidia-smi is not installed",
        ),
        (now([]), "nvidia-smi lists no GPU"),
        (now([DONE], {"unknown": "no bus"}), "the state of nvidia-fabricmanager.service is not known: no bus"),
    ],
)
def test_what_is_not_known_is_no_fabric(answer, says):
    assert says in waiting.fault(answer, "manager", 600, [])


def test_the_step_fails_with_it():
    arguments = {"now": now([WAITS]), "plan": {"awaits": "manager"}, "seconds": 60, "wish": {"nodes": []}}
    with pytest.raises(FabricError, match=r"not up after 60 s"):
        steps.awaited(arguments, {})
    assert steps.awaited({**arguments, "now": now([DONE])}, {}) == {}


def test_the_summary_has_the_packages_of_every_kernel_once():
    change = {"name": "a", "from": None, "to": "1", "action": "install", "origin": "x"}
    kept = {"name": "b", "from": "1", "to": "1", "action": "keep", "origin": ""}
    plans = [{"packages": [change, kept], "unknown": ["no index"]}, {"packages": [change], "unknown": []}]
    told = steps.tell({"plan": {"lines": ["fabric: hgx", "reboot: not for this"]}, "predicted": plans}, {})
    assert told["summary"] == [
        "fabric: hgx",
        "package a absent -> 1 (from x)",
        "not certain: no index",
        "reboot: not for this",
    ]
    assert told["msg"] == told["summary"]


def test_idle_looks_at_what_was_read_again():
    variables = {
        "a": {
            "__nvidia_fabric_again": {
                "now": {"addresses": ["192.0.2.10"], "holders": [{"name": "python3", "pid": 4, "unit": ""}]}
            }
        },
        "b": {},
    }
    task_vars = {"ansible_play_hosts_all": ["a", "b"], "hostvars": variables}
    wish = {"nodes": ["192.0.2.10"], "restart": False, "idle_holders": []}
    with pytest.raises(FabricError, match=r"is not disturbed, since the GPUs of a are in use by python3 \(4\)"):
        steps.idle({"wish": wish, "table": {"idle_holders": []}}, task_vars)
    assert steps.idle({"wish": wish, "table": {"idle_holders": ["python3"]}}, task_vars) == {}
