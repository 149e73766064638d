# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The words of a fleet check: its specification, the nodes it speaks of, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    NOT_APPLICABLE,
    PASS,
    UNKNOWN,
    WARN,
    Evidence,
    Remedy,
    to_json,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import plain, redact_all

if TYPE_CHECKING:
    from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Member, Survey

CONCERN = "fleet"
DOMAIN = "domain"
DEPLOYMENT = "deployment"
RUN = "run"

TEXT_LIMIT = 600
EVIDENCE_PER_CHECK = 8
# Where nothing is known to be wrong, the nodes that could not be asked come first.
ASK_AGAIN = Remedy("Cure the named nodes first, as their own rows say; then probe again.")


@dataclass(frozen=True)
class Spec:
    """The contract of one fleet check; the table of them is what docs/checks.md lists.

    ``scope``: which nodes have to agree, in words. ``blocking``: an ``unknown`` answer keeps the fleet from being
    ready (else it only degrades it). ``judge`` is a pure function of the survey: one answer for each of its scopes,
    none where there is nothing to compare, and ``without`` then says why.
    """

    name: str
    decides: str
    scope: str
    required: str
    source: str
    remedy: Remedy
    without: str
    judge: Callable[[Spec, Survey], list[Answer]]
    blocking: bool = True
    concern: str = CONCERN

    @property
    def id(self) -> str:
        """As it stands in reports: ``fleet.driver``, ``network.peer_tcp``."""
        return f"{self.concern}.{self.name}"


@dataclass(frozen=True)
class Scope:
    """The nodes that have to agree: an NVLink domain, a deployment, or all of the run."""

    kind: str
    name: str

    @property
    def words(self) -> str:
        """For a sentence: ``deployment k3-a``; ``this run``."""
        return (
            "this run" if self.kind == RUN else f"{'NVLink domain' if self.kind == DOMAIN else self.kind} {self.name}"
        )


WHOLE_RUN = Scope(RUN, "all")


@dataclass
class Answer:
    """What one fleet check says of one scope. ``outliers``: the nodes it blames, or whose answer is missing."""

    spec: Spec
    scope: Scope
    members: Sequence[Member]
    status: str
    reason: str
    outliers: Iterable[Member] = ()
    observed: Any = None
    evidence: Sequence[Evidence] = ()
    remedy: Remedy | None = None
    blocking: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form. Names that the site gave stand as they are, but in sentences, which are redacted and cut."""
        remedy = self.remedy
        if remedy is None and self.status in (FAIL, WARN):
            remedy = self.spec.remedy
        if remedy is None and self.status == UNKNOWN:
            remedy = ASK_AGAIN
        told = {
            "observed": to_json(self.observed),
            "required": None if self.status == NOT_APPLICABLE else self.spec.required,
            "reason": self.reason,
            "evidence": [asdict(item) for item in self.evidence[:EVIDENCE_PER_CHECK]],
            "remedy": asdict(remedy) if remedy else None,
        }
        return {
            "id": self.spec.id,
            "status": self.status,
            "scope": {"kind": self.scope.kind, "name": plain(self.scope.name)[:TEXT_LIMIT]},
            "hosts": [member.host for member in self.members],
            "outliers": [member.host for member in self.outliers],
            **redact_all(told, TEXT_LIMIT),
            "blocking": self.spec.blocking if self.blocking is None else self.blocking,
        }


def passed(
    spec: Spec,
    scope: Scope,
    members: Sequence[Member],
    reason: str,
    observed: Any = None,
    blocking: bool | None = None,
) -> Answer:
    """The required thing holds."""
    return Answer(spec, scope, members, PASS, reason, observed=observed, blocking=blocking)


def not_applicable(spec: Spec, scope: Scope, members: Sequence[Member], reason: str) -> Answer:
    """The question does not arise here."""
    return Answer(spec, scope, members, NOT_APPLICABLE, reason)


def named(names: Iterable[str], shown: int = 8) -> str:
    """``a, b, c and 14 more``."""
    names = list(names)
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def nodes(count: int) -> str:
    """``1 node``, ``17 nodes``."""
    return "1 node" if count == 1 else f"{count} nodes"


def not_known(unread: Iterable[tuple[Member, str]]) -> str:
    """Which nodes are not known and why, for a sentence; empty where every node is."""
    told = named((f"{member.host} ({why.rstrip('.')[:120]})" for member, why in unread), 4)
    return f"Not known: {told}" if told else ""
