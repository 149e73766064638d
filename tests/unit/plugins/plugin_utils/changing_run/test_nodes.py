# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the nodes answered about their locks, judged together."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.changing_run.nodes import ending, gate, not_told, summary

RUN, THEIRS = "20261130T210000Z-1a2b3c4d", "20261130T200000Z-00000000"
TAKEN = {"outcome": "taken", "refused": "", "lock": {"run_id": RUN}, "previous": None, "run_id": RUN}
KEPT = {**TAKEN, "outcome": "refreshed"}
STOLEN = {**TAKEN, "outcome": "stolen", "previous": {"run_id": THEIRS}}
HELD = {"outcome": "held", "refused": "held by x", "failed": True, "previous": {"run_id": THEIRS}, "run_id": RUN}
BROKEN = {"failed": True, "msg": "no python"}
DEAD = {"unreachable": True, "msg": "no route"}
RELEASED = {"outcome": "released", "refused": "", "run_id": RUN}


def test_all_that_is_free_may_be_changed():
    judged = gate({"a": TAKEN, "b": KEPT, "c": STOLEN}, False)
    assert (judged.faults, judged.missing, judged.give_back) == ([], [], [])
    assert [(deed.what, deed.result) for deed in judged.deeds] == [
        ("take the lock", "ok"),
        ("keep the lock", "ok"),
        ("take the lock over", "ok"),
    ]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (HELD, "host b: held by x"),
        (BROKEN, "host b: its lock cannot be read: no python"),
        ({"outcome": "free"}, "host b: its lock cannot be read"),
        ({}, "host b: its lock cannot be read"),
    ],
)
def test_one_node_that_refuses_stops_all_and_what_was_taken_is_given_back(result, words):
    judged = gate({"a": TAKEN, "b": result, "c": KEPT, "d": STOLEN}, False)
    assert len(judged.faults) == 1
    assert words in judged.faults[0]
    # The lock of an earlier part of this run is none of this moment.
    assert judged.give_back == ["a", "d"]
    assert {deed.node: deed.result for deed in judged.deeds} == {"a": "ok", "b": "refused", "c": "ok", "d": "ok"}


@pytest.mark.parametrize("result", [None, DEAD])
def test_a_node_that_does_not_answer_is_missing_and_stops_nobody(result):
    judged = gate({"a": TAKEN, "b": result}, False)
    assert (judged.faults, judged.missing) == ([], ["b"])
    assert judged.deeds[1].result == "unreachable"


def test_the_lock_of_a_run_that_is_at_work_here_is_not_taken_over():
    judged = gate({"a": STOLEN}, False, {THEIRS: 4711})
    assert "at work here as process 4711; end it first" in judged.faults[0]


def test_nodes_with_one_reason_are_one_sentence():
    assert gate({f"n{number}": HELD for number in range(9)}, False).faults == ["hosts n0, n1, n2 and 6 more: held by x"]


@pytest.mark.parametrize(
    ("lock", "release", "in_play", "released", "kept", "lost"),
    [
        (TAKEN, RELEASED, True, True, "", ""),
        (KEPT, {**RELEASED, "outcome": "free"}, True, True, "", ""),
        (TAKEN, None, True, False, "", ""),
        (TAKEN, None, False, False, "failed or stopped answering", ""),
        (TAKEN, {"skipped": True}, False, False, "failed or stopped answering", ""),
        (TAKEN, DEAD, True, False, "did not answer", ""),
        (TAKEN, {"failed": True, "outcome": "lost", "refused": "it is x's"}, True, False, "", "it is x's"),
        (TAKEN, {"failed": True, "outcome": "faulty", "msg": "a link"}, True, False, "a link", ""),
        (TAKEN, {**RELEASED, "run_id": THEIRS}, False, False, "failed or stopped answering", ""),
        (HELD, None, False, False, "", ""),
        ({**TAKEN, "run_id": THEIRS}, None, False, False, "", ""),
        (None, None, False, False, "may have it or not", ""),
        (DEAD, None, False, False, "may have it or not", ""),
        (None, None, True, False, "", ""),
    ],
)
def test_every_end_of_a_lock_is_told(lock, release, in_play, released, kept, lost):
    ended = ending({"a": TAKEN}, {"a": lock}, {"a": release}, ["a"] if in_play else [], RUN)
    assert bool(ended.released) == released
    assert (kept in ended.kept["a"]) if kept else ended.kept == {}
    assert (lost in ended.lost["a"]) if lost else ended.lost == {}
    assert len(ended.deeds) == bool(released) + bool(kept) + bool(lost)


def test_a_host_that_never_answered_has_nothing_of_this_run():
    assert ending({"a": None}, {"a": None}, {"a": None}, [], RUN).kept == {}


@pytest.mark.parametrize(
    ("earlier", "nodes"),
    [
        (None, ["a", "b"]),
        ({"skipped": True}, ["a", "b"]),
        ({"run_id": THEIRS, "released": ["a"], "kept": {}, "lost": {}}, ["a", "b"]),
        ({"run_id": RUN, "released": ["a"], "kept": {}, "lost": {}}, ["b"]),
        ({"run_id": RUN, "released": [], "kept": {"b": "x"}, "lost": {"a": "x"}}, []),
    ],
)
def test_a_batch_records_only_its_own_endings(earlier, nodes):
    ended = ending({}, {"a": TAKEN, "b": TAKEN}, {"a": RELEASED, "b": DEAD}, [], RUN)
    assert [deed.node for deed in not_told(ended, [None, earlier], RUN)] == nodes


def test_the_summary_names_what_is_left_and_how_to_go_on():
    ended = ending({}, {"a": TAKEN, "b": TAKEN}, {"a": RELEASED, "b": DEAD}, ["a", "b"], RUN)
    lines = summary(ended, RUN)
    assert lines[0] == f"run {RUN}: lock released on 1 node"
    assert lines[1] == "  b: still locked by this run: it did not answer"
    assert f"-e k3_run_id={RUN}" in lines[2]
    assert f"-e k3_lock_steal={RUN}" in lines[2]
