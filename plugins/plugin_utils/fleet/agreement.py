# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether nodes agree: the majority, who differs from it, and who could not be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import FAIL, UNKNOWN, Evidence
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import (
    Answer,
    Scope,
    Spec,
    named,
    nodes,
    not_known,
    passed,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Member, Reading, Unread

VALUES_SHOWN = 8


@dataclass
class Comparison:
    """What was read of every node: nodes by value, the most frequent first, and those of which nothing is known."""

    members: Sequence[Member]
    by_value: dict[str, list[Member]] = field(default_factory=dict)
    unread: list[tuple[Member, str]] = field(default_factory=list)

    @property
    def majority(self) -> str | None:
        """The value of more than half of all nodes, those that are not known among them; None where none has that.

        So no answer of a node that is not known could overturn it.
        """
        for value, holders in self.by_value.items():
            if 2 * len(holders) > len(self.members):
                return value
        return None

    @property
    def differs(self) -> bool:
        """Whether two nodes told different values."""
        return len(self.by_value) > 1

    def outliers(self) -> list[Member]:
        """Who differs from the majority; everybody who told a value where there is none."""
        most = self.majority
        return [member for value, holders in self.by_value.items() if value != most for member in holders]

    def observed(self) -> dict[str, Any]:
        """``{"values": {value: nodes}, "not_known": nodes}``, the most frequent values only."""
        most = list(self.by_value.items())[:VALUES_SHOWN]
        return {"values": {value: len(holders) for value, holders in most}, "not_known": len(self.unread)}

    def words(self) -> str:
        """Who differs, as a sentence."""
        most = self.majority
        parts = [
            f"{value} on {named((member.host for member in holders), 4)}"
            for value, holders in self.by_value.items()
            if value != most
        ]
        told = "; ".join(parts[:VALUES_SHOWN]) + (
            f"; and {len(parts) - VALUES_SHOWN} more values" if len(parts) > VALUES_SHOWN else ""
        )
        if most is None:
            return f"no value has the majority of {nodes(len(self.members))}, so all are named: {told}"
        return f"{told}, while {len(self.by_value[most])} of {nodes(len(self.members))} have {most}"

    def evidence(self, source: str) -> list[Evidence]:
        """What each outlier told."""
        most = self.majority
        return [
            Evidence(f"{member.host}: {source}", value)
            for value, holders in self.by_value.items()
            if value != most
            for member in holders
        ]


def compare(members: Sequence[Member], read: Callable[[Member], Reading]) -> Comparison:
    """Reads every node once."""
    return compared([(member, read(member)) for member in members])


def compared(readings: Sequence[tuple[Member, Reading]]) -> Comparison:
    """The comparison of what was read, a node at most once."""
    found = Comparison([member for member, _value in readings])
    by_value: dict[str, list[Member]] = {}
    for member, value in readings:
        if isinstance(value, Unread):
            found.unread.append((member, value.why))
        else:
            by_value.setdefault(value, []).append(member)
    # sorted() is stable: of equally frequent values the first in the inventory comes first.
    found.by_value = dict(sorted(by_value.items(), key=lambda item: -len(item[1])))
    return found


def judge(
    spec: Spec,
    scope: Scope,
    found: Comparison,
    what: str,
    source: str,
    differing: str = FAIL,
    blocking: bool | None = None,
) -> Answer:
    """The answer of a check that asks for one value; ``what`` names it, ``source`` is where each node reads it."""
    observed = found.observed()
    if found.differs:
        reason = f"{what} differs in {scope.words}: {found.words()}."
        unread = not_known(found.unread)
        return Answer(
            spec,
            scope,
            found.members,
            differing,
            f"{reason} {unread}." if unread else reason,
            found.outliers(),
            observed,
            found.evidence(source),
            blocking=blocking,
        )
    agreed = next(iter(found.by_value), None)
    if found.unread:
        known = f"; {nodes(len(found.by_value[agreed]))} told {agreed}" if agreed is not None else ""
        return Answer(
            spec,
            scope,
            found.members,
            UNKNOWN,
            f"Whether {what[:1].lower()}{what[1:]} is the same in all of {scope.words} is not known{known}. "
            f"{not_known(found.unread)}.",
            [member for member, _why in found.unread],
            observed,
            [Evidence(f"{member.host}: {source}", why) for member, why in found.unread],
            blocking=blocking,
        )
    count = len(found.members)
    reason = f"{what} is {agreed} on all {nodes(count)} of {scope.words}."
    if count == 1:
        reason = f"{what} is {agreed}; {found.members[0].host} is the only node of {scope.words} in this run."
    return passed(spec, scope, found.members, reason, observed, blocking)
