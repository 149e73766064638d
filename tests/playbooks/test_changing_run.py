# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A playbook that changes nodes: its locks and its record, also where it is refused, fails or is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.ask import ask
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.rules import Request
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit import log
from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import DEAD, LOCAL, ROOT

CHANGE = str(ROOT / "tests" / "playbooks" / "changing_run" / "change")
THEIRS = "20261130T210000Z-00000001"
CHANGED = "Change the node"
BEGIN = "Refuse wrong input and begin the run"
GATE = "Refuse to go on where another run holds a lock"


@pytest.fixture
def nodes(tmp_path):
    """nodes("a", "b"): hosts on this machine, each with a lock and a file of its own."""

    def make(*names):
        return {
            name: {
                **LOCAL,
                "changing_run_lock_dir": str(tmp_path / "locks" / name),
                "file_to_change": str(tmp_path / "files" / name),
            }
            for name in names
        }

    for folder in ("locks", "files"):
        (tmp_path / folder).mkdir()
    return make


def holder(tmp_path, name):
    """The run that holds a node's lock, None where it is free."""
    file = tmp_path / "locks" / name / "lock.json"
    return json.loads(file.read_text(encoding="ascii"))["run_id"] if file.exists() else None


def hold(tmp_path, name, run_id=THEIRS):
    """Another run takes the lock."""
    request = Request("taken", time.time(), run_id, "upgrade", "eve", "ctrl-2", step="Restart")
    assert ask(request, str(tmp_path / "locks" / name), False)["outcome"] == "taken"


def changed(tmp_path):
    """The nodes that were changed."""
    return sorted(path.name for path in (tmp_path / "files").iterdir())


def record(reports):
    """The lines of the only record."""
    (folder,) = reports.glob("*-change")
    lines, torn = log.read(folder)
    assert torn == 0
    return lines


def did(lines):
    """What was done by node, without the beginning and the end."""
    return [(line["node"], line["what"], line["result"]) for line in lines if line["node"]]


def test_a_run_locks_changes_records_and_releases(play, nodes, tmp_path):
    run = play(CHANGE, nodes("a", "b"))
    assert run.rc == 0
    assert changed(tmp_path) == ["a", "b"]
    assert [holder(tmp_path, name) for name in "ab"] == [None, None]
    lines = record(run.reports)
    assert sorted(did(lines)) == sorted(
        (name, what, result)
        for name in "ab"
        for what, result in (("take the lock", "ok"), ("write the file", "changed"), ("release the lock", "ok"))
    )
    assert (lines[0]["what"], lines[-1]["what"], lines[-1]["result"]) == ("begin the run", "end the run", "ok")
    assert len({line["run_id"] for line in lines}) == 1
    assert "never to be seen" not in json.dumps(lines)
    assert next(line for line in lines if line["what"] == "write the file")["after"]["api_token"] == "********"
    assert not any(line["check"] for line in lines)
    result = run.results("Record the change")["a"]
    there = any(Path(path).exists() for path in ("/run/systemd/journal/socket", "/dev/log"))
    assert ((result["journal"] != "none"), bool(result["journal_fault"])) == (there, not there)
    # Locks come and go and count for nothing: a second run has nothing to change, and says so.
    again = play(CHANGE, nodes("a", "b"))
    assert again.rc == 0
    assert not [event for event in again.events if event.get("event_data", {}).get("res", {}).get("changed")]


def test_a_dry_run_changes_nothing_on_nodes_and_is_recorded_as_one(play, nodes, tmp_path):
    run = play(CHANGE, nodes("a", "b"), check=True)
    assert run.rc == 0
    assert (changed(tmp_path), list((tmp_path / "locks").iterdir())) == ([], [])
    lines = record(run.reports)
    assert all(line["check"] for line in lines)
    assert ("a", "take the lock", "ok") in did(lines)


def test_one_held_lock_stops_all_nodes_before_any_is_locked_or_changed(play, nodes, tmp_path):
    hold(tmp_path, "b")
    run = play(CHANGE, nodes("a", "b", "c"))
    assert run.rc == 2
    told = next(iter(run.results(GATE).values()))["msg"]
    for words in ("host b: the lock is held by run", THEIRS, "eve on ctrl-2", "at: Restart", "-e k3_lock_steal="):
        assert words in told
    assert (changed(tmp_path), run.started(CHANGED)) == ([], False)
    assert [holder(tmp_path, name) for name in "abc"] == [None, THEIRS, None]
    assert not (tmp_path / "locks" / "a").exists()
    assert ("b", "take the lock", "refused") in did(record(run.reports))


def test_a_dry_run_of_a_held_node_warns_and_comes_to_its_end(play, nodes, tmp_path):
    hold(tmp_path, "b")
    run = play(CHANGE, nodes("a", "b"), check=True)
    assert run.rc == 0
    assert run.started(CHANGED)
    assert "host b: the lock is held by run" in next(iter(run.results(GATE).values()))["faults"][0]
    assert holder(tmp_path, "b") == THEIRS
    assert ("b", "take the lock", "refused") in did(record(run.reports))


def test_a_lock_is_taken_over_only_by_the_name_of_its_run(play, nodes, tmp_path):
    hold(tmp_path, "b")
    wrong = play(CHANGE, nodes("a", "b"), {"k3_lock_steal": "20261130T210000Z-00000002"})
    assert (wrong.rc, holder(tmp_path, "b"), changed(tmp_path)) == (2, THEIRS, [])
    for file in wrong.reports.rglob("*.json*"):
        file.unlink()
    for folder in wrong.reports.iterdir():
        folder.rmdir()
    right = play(CHANGE, nodes("a", "b"), {"k3_lock_steal": THEIRS})
    assert (right.rc, holder(tmp_path, "b"), changed(tmp_path)) == (0, None, ["a", "b"])
    line = next(line for line in record(right.reports) if line["what"] == "take the lock over")
    assert (line["node"], line["before"]["run_id"], line["before"]["user"]) == ("b", THEIRS, "eve")


def test_a_spoilt_lock_stops_all_and_is_left(play, nodes, tmp_path):
    (tmp_path / "locks" / "b").mkdir(mode=0o700)
    (tmp_path / "locks" / "b" / "lock.json").symlink_to(tmp_path / "precious")
    run = play(CHANGE, nodes("a", "b"), {"k3_lock_steal": THEIRS})
    assert run.rc == 2
    assert "is a link" in next(iter(run.results(GATE).values()))["msg"]
    assert (changed(tmp_path), (tmp_path / "precious").exists()) == ([], False)


def test_a_node_that_fails_gives_its_lock_back_and_stops_nobody_else(play, nodes, tmp_path):
    hosts = nodes("a", "b")
    hosts["a"]["change_fails"] = True
    run = play(CHANGE, hosts)
    assert run.rc == 2
    assert [holder(tmp_path, name) for name in "ab"] == [None, None]
    assert ("b", "write the file", "changed") in did(record(run.reports))
    assert ("a", "release the lock", "ok") in did(record(run.reports))


def test_a_dead_node_drops_out_and_is_recorded(play, nodes, tmp_path):
    run = play(CHANGE, {**nodes("a"), "dead": DEAD})
    assert run.rc == 4
    assert changed(tmp_path) == ["a"]
    assert ("dead", "take the lock", "unreachable") in did(record(run.reports))


def test_a_node_that_dies_in_the_run_keeps_its_lock_and_is_named(play, nodes, tmp_path):
    hosts = nodes("a", "b")
    # Once b has its lock it cannot be reached any more.
    hosts["b"] |= {**DEAD, "ansible_connection": "{{ 'ssh' if changing_run_lock is defined else 'local' }}"}
    run = play(CHANGE, hosts)
    assert run.rc != 0
    assert changed(tmp_path) == ["a"]
    run_id = holder(tmp_path, "b")
    assert run_id
    ended = next(iter(run.results("Tell and record what became of the locks").values()))
    assert (ended["released"], list(ended["kept"])) == (["a"], ["b"])
    assert f"k3_run_id={run_id}" in "".join(event.get("stdout", "") for event in run.events)
    # The node answers again: the same run goes on there.
    again = play(CHANGE, nodes("b"), {"k3_run_id": run_id})
    assert (again.rc, changed(tmp_path), holder(tmp_path, "b")) == (0, ["a", "b"], None)
    assert ("b", "keep the lock", "ok") in did(record(again.reports))


@pytest.fixture
def started(tmp_path, nodes):
    """started(): the playbook at work in the background, waiting in the middle; ended with the test."""
    processes = []

    def start(*names):
        inventory = tmp_path / "background.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": nodes(*names)}}), encoding="utf-8")
        extra = {"changing_run_report_dir": str(tmp_path / "reports"), "wait_until_there": str(tmp_path / "go")}
        process = subprocess.Popen(
            [
                Path(sys.executable).parent / "ansible-playbook",
                f"--inventory={inventory}",
                f"{CHANGE}.yml",
                f"--extra-vars={json.dumps(extra)}",
            ],
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        for line in process.stdout:
            if "Wait for what the test has to do" in line:
                break
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_a_run_at_work_is_neither_continued_nor_robbed_from_its_own_control_node(play, nodes, started, tmp_path):
    process = started("a")
    run_id = holder(tmp_path, "a")
    for extra, task in (({"k3_run_id": run_id}, BEGIN), ({"k3_lock_steal": run_id}, GATE)):
        run = play(CHANGE, nodes("a"), extra)
        assert run.rc == 2
        told = next(iter(run.results(task).values()))["msg"]
        assert f"at work here as process {process.pid}" in told
    (tmp_path / "go").touch()
    process.communicate()
    assert (process.returncode, holder(tmp_path, "a"), changed(tmp_path)) == (0, None, ["a"])


@pytest.mark.parametrize("variable", ["k3_run_id", "k3_lock_steal"])
def test_a_killed_run_keeps_its_lock_and_can_be_repeated_by_its_id(play, nodes, started, tmp_path, variable):
    process = started("a")
    run_id = holder(tmp_path, "a")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    blind = play(CHANGE, nodes("a"))
    told = next(iter(blind.results(GATE).values()))["msg"]
    assert (blind.rc, changed(tmp_path)) == (2, [])
    for words in ("earlier run of the same playbook by the same user", f"{variable}={run_id}", "at: Write the file"):
        assert words in told
    run = play(CHANGE, nodes("a"), {variable: run_id})
    assert (run.rc, changed(tmp_path), holder(tmp_path, "a")) == (0, ["a"], None)


def test_a_run_whose_lock_was_taken_over_goes_no_further_there(started, tmp_path):
    process = started("a", "b")
    hold_over(tmp_path, "a")
    (tmp_path / "go").touch()
    told, _none = process.communicate()
    assert process.returncode == 2
    assert changed(tmp_path) == ["b"]
    assert "no longer has its lock and must not go on here" in told
    assert [holder(tmp_path, name) for name in "ab"] == [THEIRS, None]


def hold_over(tmp_path, name):
    """Another run takes the lock over, from another control node."""
    request = Request("taken", time.time(), THEIRS, "upgrade", "eve", "ctrl-2", steal=(holder(tmp_path, name),))
    assert ask(request, str(tmp_path / "locks" / name), False)["outcome"] == "stolen"


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"k3_lock_steal": "all"}, "hosts a, dead: k3_lock_steal: 'all' is not allowed"),
        ({"changing_run_begun": {"run_id": THEIRS}}, "changing_run_begun: it is not allowed with -e"),
    ],
)
def test_wrong_input_is_refused_for_all_before_any_node_is_contacted(play, nodes, extra, words):
    run = play(CHANGE, {**nodes("a"), "dead": DEAD}, extra)
    assert run.rc == 2
    assert words in next(iter(run.results(BEGIN).values()))["msg"]
    assert not run.started("Ask every node whether its lock is free")
