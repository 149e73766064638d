# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who may take, keep and release a lock."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.lock import dumps, loads
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.rules import Request, age, decide

OURS, THEIRS, THIRD = (f"20261130T210000Z-0000000{digit}" for digit in "123")
NOW = 1_796_072_400.0


def request(state="taken", run_id=OURS, now=NOW, **more):
    given = {"playbook": "site", "user": "ops", "controller": "ctrl-1", "boot_id": "b1", **more}
    return Request(state, now, run_id, **given)


def lock_of(run_id, now=NOW, **more):
    return decide(request(run_id=run_id, now=now, **more), None).lock


@pytest.mark.parametrize(
    ("state", "holder", "steal", "outcome", "refused"),
    [
        ("taken", None, (), "taken", False),
        ("taken", OURS, (), "refreshed", False),
        ("taken", THEIRS, (), "held", True),
        ("taken", THEIRS, (THIRD,), "held", True),
        ("taken", THEIRS, (THIRD, THEIRS), "stolen", False),
        ("taken", None, (THEIRS,), "taken", False),
        ("refreshed", None, (), "lost", True),
        ("refreshed", OURS, (), "refreshed", False),
        ("refreshed", THEIRS, (THEIRS,), "lost", True),
        ("released", None, (), "free", False),
        ("released", OURS, (), "released", False),
        ("released", THEIRS, (THEIRS,), "lost", True),
        ("query", None, (), "free", False),
        ("query", THEIRS, (), "held", False),
    ],
)
def test_every_state_against_every_holder(state, holder, steal, outcome, refused):
    before = lock_of(holder) if holder else None
    decision = decide(request(state, steal=steal), before)
    assert (decision.outcome, bool(decision.refused)) == (outcome, refused)
    assert decision.write == (outcome in ("taken", "refreshed", "stolen"))
    assert decision.remove == (outcome == "released")
    if not decision.write and not decision.remove:
        assert decision.lock == before


def test_age_alone_never_frees_a_lock():
    old = lock_of(THEIRS, now=NOW - 400 * 86400)
    assert decide(request(), old).outcome == "held"


def test_a_refusal_says_who_what_since_when_and_how_to_go_on():
    held = lock_of(THEIRS, now=NOW - 11000, playbook="upgrade", user="eve", step="Install the driver set")
    told = decide(request(boot_id="b2"), held).refused
    for words in (
        THEIRS,
        "playbook upgrade",
        "eve on ctrl-1",
        "2026-11-30T17:56:40Z (3 h 3 min ago)",
        "at: Install the driver set",
        "restarted since",
        f"-e k3_run_id={THEIRS} (playbook upgrade)",
        f"-e k3_lock_steal={THEIRS}",
    ):
        assert words in told
    assert "same user" not in told


def test_the_repeat_of_a_killed_run_is_told_that_it_is_its_own():
    assert "earlier run of the same playbook by the same user" in decide(request(), lock_of(THEIRS)).refused


def test_a_wrong_id_to_steal_is_named():
    told = decide(request(steal=(THIRD,)), lock_of(THEIRS)).refused
    assert f"names {THIRD}, which is not the run that holds it" in told


def test_a_run_that_goes_on_keeps_its_beginning_and_its_step():
    before = lock_of(OURS, now=NOW - 60, step="Restart", boot_id="b0")
    after = decide(request(), before).lock
    assert (after.started, after.step) == (before.started, "Restart")
    assert (after.refreshed, after.boot_id) != (before.refreshed, before.boot_id)


def test_the_id_of_a_run_of_another_playbook_is_refused():
    decision = decide(request(), lock_of(OURS, playbook="upgrade"))
    assert (decision.outcome, decision.write) == ("held", False)
    assert "belongs to one playbook" in decision.refused


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0 s ago"),
        (61, "1 min 1 s ago"),
        (3600, "1 h 0 min ago"),
        (90061, "1 d 1 h ago"),
        (-5, "in the future of the node's clock"),
    ],
)
def test_ages_are_told_in_two_units(seconds, told):
    assert age(seconds) == told


def test_a_lock_reads_back_as_it_was_written():
    lock = lock_of(OURS, user="j\u00fcrgen as root")
    assert loads(dumps(lock)) == lock


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"{", "no whole JSON"),
        (b"\xff\x00", "no whole JSON"),
        (b"[" * 30000, "no whole JSON"),
        (b"[]", "no lock of this collection"),
        (b"{}", "has the form None"),
        (b'{"schema": 2}', "has the form 2"),
        (dumps(lock_of(OURS))[:-40], "no whole JSON"),
        (dumps(lock_of(OURS)).replace(b'"site"', b"7"), "no usable playbook"),
        (dumps(lock_of(OURS)).replace(b'"ops"', b'"\\u001b[31m"'), "no usable user"),
        (dumps(lock_of(OURS)).replace(OURS.encode(), b"$(reboot)"), "no usable run_id"),
        (dumps(lock_of(OURS)).replace(b"2026-11-30T", b"2026-13-30T"), "no usable started"),
    ],
)
def test_what_is_no_lock_is_refused_with_its_reason(content, words):
    with pytest.raises(ValueError, match=words):
        loads(content)
