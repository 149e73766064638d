# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What changed between two reports: of each node, and of the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    DEGRADED,
    FAIL,
    NOT_APPLICABLE,
    NOT_READY,
    PASS,
    READY,
    SKIPPED,
    STATUSES,
    UNKNOWN,
    VERDICTS,
    WARN,
)

WORSE = "worse"
BETTER = "better"
NEUTRAL = "neutral"
# From nothing to do to most to do; the order in which a change of status is a change for the worse.
GRAVITY = (NOT_APPLICABLE, PASS, SKIPPED, WARN, UNKNOWN, FAIL)
VERDICT_WORDS = {
    (READY, NOT_READY): "stopped being ready",
    (DEGRADED, NOT_READY): "became not ready, was degraded",
    (READY, DEGRADED): "became degraded, was ready",
    (NOT_READY, DEGRADED): "became degraded, was not ready",
    (DEGRADED, READY): "became ready",
    (NOT_READY, READY): "became ready",
}
# How a node came to be as it is now, by its state.
STATE_WORDS = {"probed": "answers again", "unreachable": "stopped answering", "broken": "its probe broke"}


def difference(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What is otherwise in ``now`` than in ``earlier``; both are reports of any 1.x schema.

    Keys: earlier (generated and playbook of it), nodes and fleet: lists of changes, each with host (of fleet: none),
    kind (worse, better, neutral), what (verdict, state, driver, root_cause, presence, check) and text, a sentence
    without its subject, the same for all that changed alike. A node that only one of the reports has is a change of
    presence: a limit may have left it out. Checks only one of the reports has are no change. An earlier report may
    be anybody's: what has not the form of a report is passed over.
    """
    before, after = _by_host(earlier), _by_host(now)
    nodes = []
    for host, node in after.items():
        old = before.get(host)
        changes = _node_changes(old, node) if old is not None else [_change("presence", NEUTRAL, "new")]
        nodes += [{"host": host, **change} for change in changes]
    for host in before.keys() - after.keys():
        nodes.append({"host": host, **_change("presence", NEUTRAL, "gone: not part of this run")})
    return {
        "earlier": {name: str(earlier.get(name) or "unknown") for name in ("generated", "playbook")},
        "nodes": nodes,
        "fleet": list(_fleet_changes(earlier.get("fleet"), now.get("fleet"))),
    }


def groups(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The changes of nodes by what they say: kind, what, text and hosts; the worse first, verdicts before checks."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for change in changes:
        found.setdefault((change["what"], change["kind"], change["text"]), []).append(change["host"])
    whats = ("verdict", "state", "driver", "root_cause", "presence", "check")
    kinds = (WORSE, BETTER, NEUTRAL)
    ordered = sorted(found, key=lambda key: (whats.index(key[0]), kinds.index(key[1]), -len(found[key]), key[2]))
    return [
        {"what": what, "kind": kind, "text": text, "hosts": sorted(found[what, kind, text])}
        for what, kind, text in ordered
    ]


def driver_version(node: Mapping[str, Any]) -> str | None:
    """The version of the loaded driver; None where none is loaded or it could not be read."""
    value: Any = node.get("facts")
    for name in ("driver", "loaded", "version"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None


def _change(what: str, kind: str, text: str) -> dict[str, Any]:
    return {"what": what, "kind": kind, "text": text}


def _by_host(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    nodes = report.get("nodes")
    rows = nodes if isinstance(nodes, list) else []
    return {row["host"]: row for row in rows if isinstance(row, Mapping) and isinstance(row.get("host"), str)}


def _node_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[dict[str, Any]]:
    changes = [*_verdict_change(old, new)]
    if old.get("state") in tuple(STATE_WORDS) and old["state"] != new["state"]:
        changes.append(_change("state", BETTER if new["state"] == "probed" else WORSE, STATE_WORDS[new["state"]]))
    drivers = driver_version(old), driver_version(new)
    if all(drivers) and drivers[0] != drivers[1]:
        changes.append(_change("driver", NEUTRAL, f"driver moved from {drivers[0]} to {drivers[1]}"))
    causes = old.get("root_cause"), new["root_cause"]
    # Of a node that became ready, or stopped answering, the words above say it all.
    if all(isinstance(cause, str) for cause in causes) and causes[0] != causes[1] and old.get("state") == new["state"]:
        changes.append(_change("root_cause", NEUTRAL, f"root cause moved from {causes[0]} to {causes[1]}"))
    before, after = _statuses(old), _statuses(new)
    changes += [
        _status_change(check_id, before[check_id], status)
        for check_id, status in after.items()
        if before.get(check_id, status) != status
    ]
    return changes


def _verdict_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    verdicts = old.get("verdict"), new["verdict"]
    if isinstance(verdicts[0], str) and verdicts in VERDICT_WORDS:
        kind = BETTER if VERDICTS.index(verdicts[1]) < VERDICTS.index(verdicts[0]) else WORSE
        yield _change("verdict", kind, VERDICT_WORDS[verdicts])


def _statuses(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: check["status"] for name, check in _checks(row).items()}


def _checks(holder: Any) -> dict[str, Mapping[str, Any]]:
    """The checks of a node or of the fleet by name; those of the fleet with what they speak of."""
    checks = holder.get("checks") if isinstance(holder, Mapping) else None
    found = {}
    for check in checks if isinstance(checks, list) else []:
        if isinstance(check, Mapping) and isinstance(check.get("id"), str) and check.get("status") in STATUSES:
            found[check["id"] + _scope(check)] = check
    return found


def _scope(check: Mapping[str, Any]) -> str:
    scope = check.get("scope")
    if not isinstance(scope, Mapping) or scope.get("kind") == "run":
        return ""
    return f" of {scope.get('kind')} {scope.get('name')}"


def _status_change(name: str, before: str, after: str) -> dict[str, Any]:
    kind = BETTER if GRAVITY.index(after) < GRAVITY.index(before) else WORSE
    if {before, after} == {PASS, NOT_APPLICABLE}:
        kind = NEUTRAL
    return _change("check", kind, f"{name} went from {before} to {after}")


def _fleet_changes(old: Any, new: Any) -> Iterator[dict[str, Any]]:
    # A report of schema 1.0 has no fleet: nothing to compare with.
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return
    yield from _verdict_change(old, new)
    before, after = _checks(old), _checks(new)
    for name, check in after.items():
        if name in before and before[name]["status"] != check["status"]:
            yield _status_change(name, before[name]["status"], check["status"])
