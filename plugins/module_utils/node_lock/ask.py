# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One request to a node's lock, from the arguments to the answer of the module."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils import node_journal
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.lock import RUN_ID, Lock, LockFault, text_fault
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.rules import Decision, Request, decide, told
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.store import LockStore

# What counts as a change, and is told in the journal; a sign of life is neither.
TURNS = ("taken", "stolen", "released")
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def input_faults(request: Request, folder: str) -> list[str]:
    """Faults of the arguments, each with name, value and what is allowed."""
    found = []
    if not folder.startswith("/") or text_fault(folder, 1000) or folder.strip("/") == "":
        found.append(f"folder: {ascii(folder)[:80]} is not allowed; allowed: the absolute path of a folder")
    if request.state == "query":
        return found
    for name, value in (("run_id", request.run_id), *(("steal", value) for value in request.steal)):
        if not RUN_ID.fullmatch(value):
            found.append(
                f"{name}: {ascii(value)[:80]} is not allowed; allowed: the id of a run, such as "
                "20261130T210000Z-1a2b3c4d"
            )
    for name in ("playbook", "user", "controller", "step"):
        value = getattr(request, name)
        fault = text_fault(value)
        if not fault and not value and name != "step" and request.state != "released":
            fault = "it is empty; allowed: a text"
        if fault:
            found.append(f"{name}: {fault}")
    return found


def boot_id(path: str = BOOT_ID) -> str:
    """The id of the node's boot; empty where it cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def ask(request: Request, folder: str, check: bool) -> dict[str, Any]:
    """The module's answer: outcome, refused, lock, previous, changed, journal and journal_fault.

    check: nothing is changed, and the answer is what would come of it.
    """
    seen: list[Lock | None] = [None]

    def deciding(lock: Lock | None) -> Decision:
        seen.append(lock)
        return decide(request, lock)

    store = LockStore(folder)
    try:
        if check or request.state == "query":
            decision = deciding(store.read())
        else:
            decision = store.change(deciding, make=request.state == "taken")
    except LockFault as exc:
        decision = Decision("faulty", None, str(exc))
    previous = seen[-1]
    now = previous if check else decision.lock
    place, fault = "none", ""
    continued = request.state == "taken" and decision.outcome == "refreshed"
    if (decision.outcome in TURNS or continued) and not check:
        place, fault = node_journal.record(_line(request, decision, previous), request.run_id)
    return {
        "outcome": decision.outcome,
        "refused": decision.refused,
        "lock": now.shape() if now else None,
        "previous": previous.shape() if previous else None,
        "changed": decision.outcome in TURNS,
        "journal": place,
        "journal_fault": fault,
    }


def _line(request: Request, decision: Decision, previous: Lock | None) -> str:
    """What the journal says of it."""
    who = f"run {request.run_id} of playbook {request.playbook} ({request.user} on {request.controller})"
    before = f"; before: {told(previous, request)}" if previous and decision.outcome == "stolen" else ""
    what = "kept" if decision.outcome == "refreshed" else decision.outcome
    return f"lock {what} by {who}{before}"
