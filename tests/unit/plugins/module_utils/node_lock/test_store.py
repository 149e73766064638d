# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The file of the lock, on a real file system and under real processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock import store as store_module
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.ask import ask, input_faults
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.lock import LockFault
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.rules import Request
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.store import LockStore

OURS, THEIRS = (f"20261130T210000Z-0000000{digit}" for digit in "12")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def request(state="taken", run_id=OURS, **more):
    return Request(state, time.time(), run_id, "site", "ops", "ctrl-1", **more)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "locks"


def content(folder):
    """Every name below with its kind, mode and text."""
    return sorted(
        (str(path.relative_to(folder)), oct(path.lstat().st_mode), path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    )


def test_a_lock_lives_from_taking_to_releasing(folder):
    assert ask(request(), str(folder), False)["outcome"] == "taken"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "lock.json")] == [0o700, 0o600]
    assert ask(request(run_id=THEIRS), str(folder), False)["outcome"] == "held"
    assert ask(request("refreshed"), str(folder), False)["outcome"] == "refreshed"
    assert ask(request("released", THEIRS), str(folder), False)["outcome"] == "lost"
    assert json.loads((folder / "lock.json").read_text(encoding="ascii"))["run_id"] == OURS
    assert ask(request("released"), str(folder), False)["outcome"] == "released"
    assert content(folder) == []


def test_a_stolen_lock_tells_whose_it_was(folder):
    ask(request(run_id=THEIRS), str(folder), False)
    answer = ask(request(steal=(THEIRS,)), str(folder), False)
    assert (answer["outcome"], answer["previous"]["run_id"], answer["lock"]["run_id"]) == ("stolen", THEIRS, OURS)


@pytest.mark.parametrize("state", ["taken", "refreshed", "released"])
@pytest.mark.parametrize("holder", [None, OURS, THEIRS])
def test_a_dry_run_foretells_and_changes_nothing(tmp_path, folder, state, holder):
    if holder:
        ask(request(run_id=holder), str(folder), False)
    before = content(tmp_path)
    foretold = ask(request(state), str(folder), True)
    assert content(tmp_path) == before
    assert foretold["journal"] == "none"
    real = ask(request(state), str(folder), False)
    assert [foretold[name] for name in ("outcome", "changed")] == [real[name] for name in ("outcome", "changed")]
    assert bool(foretold["refused"]) == bool(real["refused"])


def test_a_query_changes_nothing_and_refuses_nothing(tmp_path, folder):
    assert ask(request("query"), str(folder), False)["outcome"] == "free"
    assert content(tmp_path) == []


def race(folder, ids, steal=()):
    """The outcomes of one process for each id, all let go at once."""
    gate, opener = os.pipe()
    told, teller = os.pipe()
    children = []
    for run_id in ids:
        child = os.fork()
        if not child:
            try:
                os.close(opener)
                # Ends when the parent lets go of the other end.
                os.read(gate, 1)
                os.write(
                    teller, (ask(request(run_id=run_id, steal=steal), str(folder), False)["outcome"] + "\n").encode()
                )
            finally:
                os._exit(0)
        children.append(child)
    os.close(gate)
    os.close(teller)
    os.close(opener)
    with open(told, encoding="ascii") as outcomes:
        found = outcomes.read().split()
    for child in children:
        os.waitpid(child, 0)
    return found


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_of_twenty_processes_exactly_one_gets_a_free_lock(folder):
    outcomes = race(folder, [f"20261130T210000Z-000000{number:02d}" for number in range(20)])
    assert sorted(outcomes) == ["held"] * 19 + ["taken"]
    assert [name for name, _mode, _text in content(folder)] == ["lock.json"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_of_many_that_steal_the_same_lock_exactly_one_gets_it(folder):
    ask(request(run_id=THEIRS), str(folder), False)
    outcomes = race(folder, [f"20261130T220000Z-000000{number:02d}" for number in range(6)], (THEIRS,))
    assert sorted(outcomes) == ["held"] * 5 + ["stolen"]


def test_a_process_killed_while_it_had_the_folder_leaves_nothing_in_the_way(folder):
    ask(request(), str(folder), False)
    code = (
        "import fcntl, os, sys, time\n"
        f"fcntl.flock(os.open({str(folder)!r}, os.O_RDONLY), fcntl.LOCK_EX)\n"
        f"open({str(folder / '.lock.json.new')!r}, 'w').write('half a lo')\n"
        "print('ready', flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout.readline() == "ready\n"
        victim.send_signal(signal.SIGKILL)
    assert ask(request("refreshed"), str(folder), False)["outcome"] == "refreshed"
    assert [name for name, _mode, _text in content(folder)] == ["lock.json"]


def test_a_process_that_has_the_folder_is_waited_for_and_then_told_of(folder, monkeypatch):
    import fcntl

    ask(request(), str(folder), False)
    monkeypatch.setattr(store_module, "PATIENCE", 0.1)
    other = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        answer = ask(request("refreshed"), str(folder), False)
    finally:
        os.close(other)
    assert answer["outcome"] == "faulty"
    assert "another process has been at work" in answer["refused"]


def spoilt(folder, how):
    """A lock of this run, and then something done to it by others."""
    ask(request(), str(folder), False)
    lock = folder / "lock.json"
    if how == "empty":
        lock.write_bytes(b"")
    elif how == "truncated":
        lock.write_bytes(lock.read_bytes()[:50])
    elif how == "foreign":
        lock.write_text("12345\n", encoding="ascii")
    elif how == "huge":
        os.truncate(lock, 70_000)
    elif how == "writable":
        lock.chmod(0o666)
    elif how == "owned":
        os.chown(lock, 12345, 12345)
    else:
        lock.unlink()
        elsewhere = folder.parent / "elsewhere"
        elsewhere.write_text("precious", encoding="ascii")
        if how == "link":
            lock.symlink_to(elsewhere)
        elif how == "dangling":
            lock.symlink_to(folder.parent / "nowhere")
        elif how == "folder":
            lock.mkdir()
        elif how == "pipe":
            os.mkfifo(lock)


SPOILT = ["empty", "truncated", "foreign", "huge", "writable", "link", "dangling", "folder", "pipe"]


@pytest.mark.parametrize("state", ["taken", "refreshed", "released", "query"])
@pytest.mark.parametrize("how", [*SPOILT, pytest.param("owned", marks=root_only)])
def test_a_spoilt_lock_is_an_error_and_left_as_it_is(tmp_path, folder, how, state):
    spoilt(folder, how)
    before = [entry[:2] for entry in content(tmp_path)]
    answer = ask(request(state, steal=(OURS,)), str(folder), False)
    assert answer["outcome"] == "faulty"
    assert str(folder / "lock.json") in answer["refused"]
    assert "rm " in answer["refused"]
    assert [entry[:2] for entry in content(tmp_path)] == before
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.symlink_to(path.parent), "is a link or no folder"),
        (lambda path: path.write_text("", encoding="ascii"), "is a link or no folder"),
        (lambda path: (path.mkdir(), path.chmod(0o777)), "others may write"),
        pytest.param(lambda path: (path.mkdir(0o700), os.chown(path, 12345, -1)), "belongs to user", marks=root_only),
    ],
    ids=["link", "file", "writable", "owned"],
)
def test_a_folder_that_others_could_change_is_refused(tmp_path, folder, make, words):
    make(folder)
    before = content(tmp_path)
    answer = ask(request(), str(folder), False)
    assert answer["outcome"] == "faulty"
    assert words in answer["refused"]
    assert content(tmp_path) == before


def test_a_folder_is_made_but_not_the_one_above(tmp_path):
    deep = tmp_path / "a" / "b"
    for check in (True, False):
        answer = ask(request(), str(deep), check)
        assert (answer["outcome"], f"{tmp_path / 'a'} is not there" in answer["refused"]) == ("faulty", True)
    assert content(tmp_path) == []


def test_a_folder_that_was_exchanged_meanwhile_is_not_written_to(folder, monkeypatch):
    """The lock must be in the folder that the next run opens, not in one that was moved away."""
    ask(request(run_id=THEIRS), str(folder), False)
    moved = folder.parent / "moved"
    waited = LockStore._wait

    def exchange(self, directory, deadline):
        waited(self, directory, deadline)
        if not moved.exists():
            folder.rename(moved)

    monkeypatch.setattr(LockStore, "_wait", exchange)
    assert ask(request(), str(folder), False)["outcome"] == "taken"
    assert LockStore(str(folder)).read().run_id == OURS
    assert LockStore(str(moved)).read().run_id == THEIRS


def test_a_disk_that_is_full_leaves_the_lock_as_it_was(folder, monkeypatch):
    ask(request(), str(folder), False)
    before = content(folder)

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = ask(request(steal=()), str(folder), False)
    assert (answer["outcome"], "No space left" in answer["refused"]) == ("faulty", True)
    assert content(folder) == before


def test_a_fault_of_reading_is_a_sentence(folder):
    folder.mkdir()
    (folder / "lock.json").write_text("{", encoding="ascii")
    folder.chmod(0o700)
    with pytest.raises(LockFault, match="no whole JSON text; it was left as it is"):
        LockStore(str(folder)).read()


@pytest.mark.parametrize(
    ("more", "folder", "words"),
    [
        ({"run_id": "ci"}, "/x", "run_id: 'ci' is not allowed"),
        ({"run_id": ""}, "/x", "run_id: ''"),
        ({"steal": ("all",)}, "/x", "steal: 'all'"),
        ({"step": "a\nb"}, "/x", "step: 'a\\nb'"),
        ({"step": "a" * 201}, "/x", "step: 'aaa"),
        ({}, "x", "folder: 'x'"),
        ({}, "/", "folder: '/'"),
        ({}, "/x\n", "folder: '/x\\n'"),
    ],
)
def test_wrong_arguments_are_named_with_what_is_allowed(more, folder, words):
    faults = input_faults(request(**{"run_id": OURS, **more}), folder)
    assert len(faults) == 1
    assert words in faults[0]
    assert "allowed: " in faults[0]


def test_nobody_takes_a_lock_without_a_name():
    faults = input_faults(Request("taken", 0.0, OURS), "/x")
    assert [fault.split(":")[0] for fault in faults] == ["playbook", "user", "controller"]
    assert input_faults(Request("released", 0.0, OURS), "/x") == []
    assert input_faults(Request("query", 0.0), "/x") == []
