# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""probe.yml on this machine, which has no GPU, and on hosts that do not answer."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import DEAD, LOCAL, ROOT

PROBE = "Probe the node"
PREFLIGHT = "Refuse wrong input before any node is contacted"
GATE = "Fail the node that is not ready"


def interpreter(version: str) -> str | None:
    """An old Python of this machine: by name on PATH, or among pyenv's."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0:
        return found
    if not shutil.which("pyenv"):
        return None
    root = subprocess.run(["pyenv", "root"], check=True, capture_output=True, text=True).stdout.strip()
    versions = sorted(Path(root).glob(f"versions/{version}.*/bin/python"))
    return str(versions[-1]) if versions else None


def test_this_machine_and_one_that_is_dead_are_both_rows(play):
    run = play("probe", {"here": LOCAL, "dead": DEAD})
    assert run.rc == 0
    report = run.report()
    rows = {node["host"]: node for node in report["nodes"]}
    assert rows["here"]["state"] == "probed"
    assert rows["here"]["verdict"] in ("degraded", "not_ready")
    assert (rows["dead"]["state"], rows["dead"]["verdict"]) == ("unreachable", "not_ready")
    assert report["summary"]["nodes"] == 2
    jsonschema.validate(report, json.loads((ROOT / "docs" / "readiness.schema.json").read_text(encoding="utf-8")))


def test_a_fleet_of_dead_nodes_still_has_its_report(play):
    run = play("probe", {"dead": DEAD})
    assert run.rc == 0
    assert [node["state"] for node in run.report()["nodes"]] == ["unreachable"]


def test_the_probe_is_one_module_call_and_changes_nothing(play):
    run = play("probe", {"here": LOCAL})
    modules = [event["event_data"]["task_action"] for event in run.events if event["event"] == "runner_on_ok"]
    assert modules.count("gpufleet.kimi_k3.gpu_node_readiness") == 1
    assert not [event for event in run.events if event.get("event_data", {}).get("res", {}).get("changed")]


def test_check_mode_answers_as_the_real_run_does(play):
    real, check = (play("probe", {"here": LOCAL}, check=mode) for mode in (False, True))
    assert check.rc == 0

    def answers(run):
        return {check["id"]: check["status"] for check in run.report()["nodes"][0]["checks"]}

    assert answers(real) == answers(check)


def test_the_gate_fails_a_node_that_is_not_ready_after_the_report(play):
    run = play("probe", {"here": LOCAL, "dead": DEAD}, {"node_readiness_gate": True})
    assert run.rc == 2
    assert {host for host, result in run.results(GATE).items() if result["event"] == "runner_on_failed"} == {
        "here",
        "dead",
    }
    assert run.report()["summary"]["nodes"] == 2


def test_without_the_gate_nothing_fails(play):
    assert play("probe", {"here": LOCAL}).rc == 0


def test_an_empty_inventory_is_an_error(play):
    run = play("probe", {})
    assert run.rc == 2
    assert "holds no host" in run.results("Refuse an inventory without hosts")["localhost"]["msg"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"node_readiness_require": {"gpu_cont": 8}}, "did you mean gpu_count"),
        ({"node_readiness_require": {"driver_branch_min": "new"}}, "allowed: an integer"),
        ({"node_readiness_skip": {"driver.brunch": "why"}}, "did you mean driver.branch"),
        ({"node_readiness_gate": "maybe"}, "true or false"),
        ({"node_readiness_tiemout": 3}, "did you mean node_readiness_timeout"),
    ],
)
def test_wrong_input_is_refused_for_all_before_any_node_is_contacted(play, extra, words):
    run = play("probe", {"here": LOCAL, "dead": DEAD}, extra)
    assert run.rc == 2
    assert words in next(iter(run.results(PREFLIGHT).values()))["msg"]
    assert not run.started(PROBE)


@pytest.mark.parametrize("name", ["$(touch pwned)", "{{ lookup('pipe', 'touch pwned') }}", "a;touch pwned"])
def test_a_hostile_host_name_is_refused_and_nothing_executed(play, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    run = play("probe", {name: LOCAL})
    assert run.rc == 2
    assert not run.started(PROBE)
    assert not list(tmp_path.rglob("pwned"))


def test_a_python_too_old_is_one_clear_row(play):
    old = interpreter("3.8") or interpreter("3.7")
    if old is None:
        pytest.skip("this machine has no Python older than 3.9")
    run = play("probe", {"old": {**LOCAL, "ansible_python_interpreter": old}, "here": LOCAL})
    row = next(node for node in run.report()["nodes"] if node["host"] == "old")
    assert (run.rc, row["state"], row["verdict"]) == (0, "broken", "not_ready")
    assert "too old" in row["reason"]


def test_one_node_of_a_limit_is_probed_alone(play):
    run = play("probe", {"here": LOCAL, "dead": DEAD}, limit="here")
    assert [node["host"] for node in run.report()["nodes"]] == ["here"]


def test_that_a_deployment_is_only_in_part_in_the_run_is_told(play):
    hosts = {"here": LOCAL, "dead": DEAD, "other": DEAD}
    hosts = {name: {**host, "k3_deployment": "b" if name == "other" else "a"} for name, host in hosts.items()}
    (report,) = play("probe", hosts, limit="here").results("Write the report and print the table").values()
    assert report["warnings"] == [
        "deployment a is only in part in this run: dead is not, and no fleet check speaks of what was left out"
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"ansible_host": "{{ nowhere }}"}, {"ansible_connection": "nosuch"}, {"ansible_user": "{{ nobody }}"}],
    ids=["host", "connection", "user"],
)
def test_a_first_host_that_cannot_be_connected_to_is_a_row_beside_the_others(play, wrong):
    run = play("probe", {"a-wrong": wrong, "b-here": LOCAL})
    states = {node["host"]: node["state"] for node in run.report()["nodes"]}
    assert (run.rc, states) == (0, {"a-wrong": "broken", "b-here": "probed"})


def test_a_variable_of_the_role_is_not_taken_from_the_command_line(play):
    run = play("probe", {"here": LOCAL}, {"node_readiness_result": {"readiness": {"verdict": "ready"}}})
    assert run.rc == 2
    assert not run.started(PROBE)
