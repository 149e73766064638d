# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who may take, refresh and release a lock, and what a person is told who may not. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.lock import Lock, seconds_of, stamp

STATES = ("taken", "refreshed", "released", "query")


@dataclass(frozen=True)
class Request:
    """What a run asks of the lock. now: seconds since 1970; steal: the run ids whose lock it may take over."""

    state: str
    now: float
    run_id: str = ""
    playbook: str = ""
    user: str = ""
    controller: str = ""
    step: str = ""
    boot_id: str = ""
    steal: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What becomes of the lock.

    outcome: taken, refreshed, stolen, released; free or held where nothing is done; lost where a run's own lock is
    no longer its own. refused: why the run must not go on, empty where it may. lock: as it is afterwards.
    write and remove: what is to be done to the file.
    """

    outcome: str
    lock: Lock | None
    refused: str = ""
    write: bool = False
    remove: bool = False


def decide(request: Request, lock: Lock | None) -> Decision:
    """The answer to a request, given the lock as it is (None: free). A stale lock is as good as a fresh one."""
    if request.state == "query":
        return Decision("held" if lock else "free", lock)
    own = lock is not None and lock.run_id == request.run_id
    if request.state == "released":
        if lock is None:
            return Decision("free", None)
        if own:
            return Decision("released", None, remove=True)
        return Decision("lost", lock, f"the lock is not this run's and was left as it is: {told(lock, request)}")
    if lock is not None and own:
        if lock.playbook != request.playbook:
            return Decision("held", lock, f"a run id belongs to one playbook: {told(lock, request)}")
        fresh = replace(_new(request), started=lock.started, step=request.step or lock.step)
        return Decision("refreshed", fresh, write=True)
    if request.state == "refreshed":
        return Decision("lost", lock, _lost(request, lock))
    if lock is None:
        return Decision("taken", _new(request), write=True)
    if lock.run_id in request.steal:
        return Decision("stolen", _new(request), write=True)
    return Decision("held", lock, _held(request, lock))


def _new(request: Request) -> Lock:
    now = stamp(request.now)
    return Lock(
        request.run_id,
        request.playbook,
        request.user,
        request.controller,
        started=now,
        refreshed=now,
        step=request.step,
        boot_id=request.boot_id,
    )


def _held(request: Request, lock: Lock) -> str:
    """The refusal, with what to do: it is read by somebody who wants to go on, and must not do so blindly."""
    mine = (lock.user, lock.controller, lock.playbook) == (request.user, request.controller, request.playbook)
    parts = [f"the lock is {told(lock, request)}"]
    if mine:
        parts.append("It is an earlier run of the same playbook by the same user.")
    if request.steal:
        parts.append(f"k3_lock_steal names {', '.join(request.steal)}, which is not the run that holds it.")
    parts.append(
        f"If that run is still at work, wait for it. If it is over, continue it with -e k3_run_id={lock.run_id}"
        + ("" if lock.playbook == request.playbook else f" (playbook {lock.playbook})")
        + f", or take the lock from it with -e k3_lock_steal={lock.run_id}"
    )
    return " ".join(parts)


def _lost(request: Request, lock: Lock | None) -> str:
    if lock is None:
        return (
            f"run {request.run_id} no longer has its lock: somebody released or removed it. This run must not go on "
            "here: it cannot know what was changed since"
        )
    return f"run {request.run_id} no longer has its lock and must not go on here: {told(lock, request)}"


def told(lock: Lock, request: Request) -> str:
    """Who holds the lock, for what, since when, how long that is, and whether there were signs of life since."""
    parts = [
        f"held by run {lock.run_id} of playbook {lock.playbook} ({lock.user} on {lock.controller})",
        f"since {lock.started} ({age(request.now - seconds_of(lock.started))})",
        f"last sign of life {lock.refreshed} ({age(request.now - seconds_of(lock.refreshed))})",
    ]
    if lock.step:
        parts.append(f"while it was at: {lock.step}")
    if lock.boot_id and request.boot_id and lock.boot_id != request.boot_id:
        parts.append("the node was restarted since")
    return ", ".join(parts) + "."


def age(seconds: float) -> str:
    """How long ago, in at most two units: 3 h 2 min ago."""
    left = int(seconds)
    if left < 0:
        return "in the future of the node's clock"
    parts: list[str] = []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    return " ".join(parts) + " ago"
