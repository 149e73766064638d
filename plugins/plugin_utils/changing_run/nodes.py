# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the nodes answered about their locks, judged for all of them at once. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit.entry import Deed
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.changing_run.preflight import named

# Outcomes of node_lock by which a run has the lock.
HAVING = ("taken", "refreshed", "stolen")
Results = Mapping[str, Mapping[str, Any] | None]


@dataclass
class Gate:
    """faults: a sentence for each reason why the run must not go on. missing: hosts that did not answer at all.
    give_back: hosts whose lock this run took just now, and must not keep. deeds: for the record."""

    faults: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    give_back: list[str] = field(default_factory=list)
    deeds: list[Deed] = field(default_factory=list)


@dataclass
class Ending:
    """Hosts by what became of their lock; kept and lost with the reason. deeds: for the record."""

    released: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    deeds: list[Deed] = field(default_factory=list)


def gate(results: Results, check: bool, at_work: Mapping[str, int] | None = None) -> Gate:
    """Whether the run may go on, by what node_lock answered to state=taken.

    results: by host, None where it did not answer. at_work: runs at work on this control node, with their process;
    theirs is a lock that nobody takes over.
    """
    judged = Gate()
    texts: dict[str, list[str]] = {}
    for host, result in results.items():
        if result is None or not _answered(result):
            judged.missing.append(host)
            judged.deeds.append(Deed("take the lock", "unreachable", host, check=check))
            continue
        fault, previous = _fault(result, at_work or {}), result.get("previous")
        had = fault or result.get("outcome") not in HAVING
        if fault:
            texts.setdefault(fault, []).append(host)
        elif result["outcome"] in ("taken", "stolen"):
            judged.give_back.append(host)
        told = {"taken": "take the lock", "refreshed": "keep the lock", "stolen": "take the lock over"}
        judged.deeds.append(
            Deed(
                told.get(str(result.get("outcome")), "take the lock"),
                "refused" if had else "ok",
                host,
                before=previous,
                after=fault if had else result.get("lock"),
                check=check,
            )
        )
    judged.faults = [f"{named(hosts)}: {fault}" for fault, hosts in texts.items()]
    if not judged.faults:
        judged.give_back = []
    return judged


def ending(foreseen: Results, locks: Results, releases: Results, in_play: list[str], run_id: str) -> Ending:
    """What became of the locks of a run; not for a dry run, which takes none.

    foreseen, locks and releases: what node_lock answered to the question, to taken and to released, by host.
    in_play: hosts that are still part of the play; one that has not come to its release is not judged yet.
    """
    ended = Ending()
    for host, lock in locks.items():
        release = releases.get(host)
        if lock is None or not _has(lock, run_id):
            # Asked for its lock, and gone before it could answer. Who refused has nothing of this run.
            if not _answered(lock) and _has(foreseen.get(host), run_id) and host not in in_play:
                ended.kept[host] = "it stopped answering while its lock was being taken, and may have it or not"
                ended.deeds.append(Deed("release the lock", "unreachable", host, after=ended.kept[host]))
            continue
        if release is None or release.get("skipped") or release.get("run_id", run_id) != run_id:
            if host in in_play:
                continue
            ended.kept[host] = "it failed or stopped answering before the end"
        elif release.get("unreachable"):
            ended.kept[host] = "it did not answer"
        elif release.get("outcome") == "lost":
            ended.lost[host] = str(release.get("refused"))
        elif release.get("failed"):
            ended.kept[host] = str(release.get("msg") or "the release failed")
        else:
            ended.released.append(host)
        result, after = _released(host, ended, release)
        ended.deeds.append(Deed("release the lock", result, host, before=lock.get("lock"), after=after))
    return ended


def not_told(ended: Ending, earlier: Iterable[Any], run_id: str) -> list[Deed]:
    """The deeds that no earlier ending of this run has recorded: with serial there is one a batch.

    earlier: what those endings answered, by the hosts that have it registered.
    """
    told: set[str] = set()
    for whole in earlier:
        if isinstance(whole, Mapping) and whole.get("run_id") == run_id:
            told.update(whole["released"], whole["kept"], whole["lost"])
    return [deed for deed in ended.deeds if deed.node not in told]


def summary(ended: Ending, run_id: str) -> list[str]:
    """The ending as lines for a terminal."""
    lines = [f"run {run_id}: lock released on {len(ended.released)} {'node' if len(ended.released) == 1 else 'nodes'}"]
    lines += [f"  {host}: still locked by this run: {reason}" for host, reason in ended.kept.items()]
    lines += [f"  {host}: {reason}" for host, reason in ended.lost.items()]
    if ended.kept:
        lines.append(
            f"  When they answer again: continue with -e k3_run_id={run_id}, or let another run take their lock with "
            f"-e k3_lock_steal={run_id}"
        )
    return lines


def _has(result: Mapping[str, Any] | None, run_id: str) -> bool:
    """Whether a host answered that this run has its lock, or would get it."""
    if result is None or not _answered(result):
        return False
    return result.get("outcome") in HAVING and result.get("run_id") == run_id


def _answered(result: Mapping[str, Any] | None) -> bool:
    return result is not None and not result.get("unreachable") and not result.get("skipped")


def _fault(result: Mapping[str, Any], at_work: Mapping[str, int]) -> str:
    if result.get("refused"):
        return str(result["refused"])
    if result.get("failed") or result.get("outcome") not in HAVING:
        return f"its lock cannot be read: {result.get('msg') or 'the answer is none of node_lock'}"
    previous = result.get("previous") or {}
    run_id = str(previous.get("run_id"))
    if result["outcome"] == "stolen" and run_id in at_work:
        return f"run {run_id}, which holds the lock, is at work here as process {at_work[run_id]}; end it first"
    return ""


def _released(host: str, ended: Ending, release: Mapping[str, Any] | None) -> tuple[str, Any]:
    """Result and after of the record's line."""
    if host in ended.released:
        return "ok", None
    if host in ended.lost:
        return "refused", ended.lost[host]
    return "unreachable" if release is None or release.get("unreachable") else "failed", ended.kept[host]
