# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The words of a readiness report: what was not readable, a remedy, a check and its specification."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Union

SCHEMA_VERSION = "1.1"

PASS = "pass"
WARN = "warn"
FAIL = "fail"
UNKNOWN = "unknown"
NOT_APPLICABLE = "not_applicable"
SKIPPED = "skipped"
STATUSES = (PASS, WARN, FAIL, UNKNOWN, NOT_APPLICABLE, SKIPPED)

READY = "ready"
DEGRADED = "degraded"
NOT_READY = "not_ready"
VERDICTS = (READY, DEGRADED, NOT_READY)

DISRUPTIONS = ("none", "restart", "drain", "reboot")

# What kind of machine a check speaks about.
ANY = "any"
GPU = "gpu"
NVIDIA = "nvidia"


class Unknown:
    """A value that could not be read, with the reason. False in a boolean context, equal to no value.

    A collector stores it in place of the value; an assessment turns it into the status ``unknown``.
    """

    def __init__(self, reason: str, source: str = "") -> None:
        self.reason = reason
        self.source = source

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"Unknown({self.reason!r})"


@dataclass(frozen=True)
class Evidence:
    """Where an answer was read: a file or a command, and the line that decided."""

    source: str
    line: str = ""


@dataclass(frozen=True)
class Remedy:
    """What cures a failing check.

    ``role``, ``entry_point``, ``playbook`` and ``tag`` name something this collection has, or are None where a
    person has to act; ``action`` is the sentence for that person and ``command`` a line to copy where one does it.
    """

    action: str
    disruptive: str = "none"
    command: str | None = None
    role: str | None = None
    entry_point: str | None = None
    playbook: str | None = None
    tag: str | None = None


@dataclass(frozen=True)
class Spec:
    """The contract of one check; the tables of them are the source of docs/checks.md.

    ``blocking``: an ``unknown`` answer keeps the node from being ready (else it only degrades it).
    ``machines``: the kind of machine it applies to (ANY, GPU, NVIDIA); elsewhere it is ``not_applicable``.
    ``owner``: the part of the node (driver, fabric, rdma, container) whose owner has to cure it; where that owner is
    not this collection, no cure is offered.
    ``required``: what must hold, in words, naming the keys of ``require`` that decide.
    """

    name: str
    decides: str
    required: str
    source: str
    remedy: Remedy
    blocking: bool = True
    machines: str = NVIDIA
    owner: str | None = None


@dataclass
class Check:
    """One answer. ``observed`` and ``required`` are JSON values; ``reason`` is one sentence for a person on call."""

    id: str
    status: str
    observed: Any
    required: Any
    reason: str
    evidence: list[Evidence] = field(default_factory=list)
    remedy: Remedy | None = None
    blocking: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, with every Unknown inside written as ``{"unknown": reason}``."""
        return to_json(asdict(self))


EvidenceLike = Union[Evidence, Sequence[Evidence], None]


class Findings:
    """Collects the answers of one concern, in the order of its table of specifications.

    An answer for a name the table does not have is a programming error (KeyError). A name that got no answer becomes
    ``unknown``, so that a forgotten branch can never look like success.
    """

    def __init__(self, concern: str, specs: Iterable[Spec]) -> None:
        self.concern = concern
        self.specs = {spec.name: spec for spec in specs}
        self.answers: dict[str, Check] = {}

    def passed(
        self, name: str, reason: str, observed: Any = None, required: Any = None, evidence: EvidenceLike = None
    ) -> None:
        """The required thing holds."""
        self._answer(name, PASS, reason, observed, required, evidence, None)

    def warned(
        self,
        name: str,
        reason: str,
        observed: Any = None,
        required: Any = None,
        evidence: EvidenceLike = None,
        remedy: Remedy | None = None,
    ) -> None:
        """It serves, but worse than it could, or a threshold without a source was crossed (the reason says so)."""
        self._answer(name, WARN, reason, observed, required, evidence, remedy or self.specs[name].remedy)

    def failed(
        self,
        name: str,
        reason: str,
        observed: Any = None,
        required: Any = None,
        evidence: EvidenceLike = None,
        remedy: Remedy | None = None,
    ) -> None:
        """The required thing does not hold."""
        self._answer(name, FAIL, reason, observed, required, evidence, remedy or self.specs[name].remedy)

    def unknown(
        self,
        name: str,
        why: Unknown | str,
        observed: Any = None,
        required: Any = None,
        evidence: EvidenceLike = None,
        remedy: Remedy | None = None,
    ) -> None:
        """It could not be read; ``why`` says what stood in the way."""
        if isinstance(why, Unknown):
            if why.source and evidence is None:
                evidence = Evidence(why.source)
            why = why.reason
        self._answer(name, UNKNOWN, why, observed, required, evidence, remedy)

    def not_applicable(self, name: str, reason: str, observed: Any = None) -> None:
        """The question does not arise on this machine."""
        self._answer(name, NOT_APPLICABLE, reason, observed, None, None, None)

    def checks(self) -> list[Check]:
        """Every check of the concern, in table order."""
        for name in self.specs:
            if name not in self.answers:
                self.unknown(name, "the probe gave no answer to this check")
        return [self.answers[name] for name in self.specs]

    def _answer(
        self,
        name: str,
        status: str,
        reason: str,
        observed: Any,
        required: Any,
        evidence: EvidenceLike,
        remedy: Remedy | None,
    ) -> None:
        spec = self.specs[name]
        if evidence is None:
            evidence = []
        elif isinstance(evidence, Evidence):
            evidence = [evidence]
        self.answers[name] = Check(
            f"{self.concern}.{name}", status, observed, required, reason, list(evidence), remedy, spec.blocking
        )


def to_json(value: Any) -> Any:
    """``value`` as plain JSON types: Unknown becomes ``{"unknown": reason}``, tuples and sets become lists."""
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(to_json(item) for item in value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def version_tuple(text: Any) -> tuple[int, ...] | None:
    """``580.126.20`` -> ``(580, 126, 20)``; None for anything that is not dotted integers.

    Versions are compared as integers: as text 580.9.1 would sort above 580.126.20, and 580.65.06 has a leading zero.
    """
    if not isinstance(text, str):
        return None
    parts = text.strip().split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        return None
    return tuple(int(part) for part in parts)
