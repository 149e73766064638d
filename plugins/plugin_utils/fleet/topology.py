# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Declared against observed topology, across nodes: what no node can tell of itself (NVLink domain and partition)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import FAIL, UNKNOWN, WARN, Evidence
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import (
    Answer,
    Scope,
    Spec,
    named,
    nodes,
    not_applicable,
    not_known,
    passed,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import (
    UUID,
    Member,
    Sightings,
    Survey,
    Unread,
)

Names = Mapping[str, Sightings]


@dataclass
class Faults:
    """What is wrong with the declarations of a domain: sentences, the nodes they blame, and what those observe."""

    sentences: list[str] = field(default_factory=list)
    by_host: dict[str, Member] = field(default_factory=dict)

    @property
    def blamed(self) -> list[Member]:
        """Each node once."""
        return list(self.by_host.values())

    def add(self, sentence: str, members: Sequence[Member]) -> None:
        """One fault."""
        self.sentences.append(sentence)
        self.by_host.update({member.host: member for member in members})


@dataclass(frozen=True)
class Axis:
    """What is compared: the variable that declares it, what nodes observe, and how both are read of a node."""

    variable: str
    label: str
    declared: Callable[[Member], str | None]
    observed: Callable[[Member], str | Unread | None]


DOMAIN_AXIS = Axis(
    "k3_nvlink_domain", "clusterUuid", lambda member: member.declared_domain, lambda member: member.observed_domain
)
PARTITION_AXIS = Axis(
    "k3_nvlink_partition",
    "cliqueId",
    lambda member: member.declared_partition,
    lambda member: member.observed_partition,
)


def domain(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer an NVLink domain."""
    return [_answer(spec, scope, members, DOMAIN_AXIS, survey.uuids_of) for scope, members in survey.domains]


def partition(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer an NVLink domain: partitions have numbers within it."""
    answers = []
    for scope, members in survey.domains:
        seen_with: dict[str, Sightings] = {}
        for member in members:
            seen = member.observed_partition
            if member.declared_partition is not None and isinstance(seen, str):
                seen_with.setdefault(member.declared_partition, Sightings()).add(seen)
        answers.append(_answer(spec, scope, members, PARTITION_AXIS, seen_with))
    return answers


def _answer(spec: Spec, scope: Scope, members: list[Member], axis: Axis, seen_with: Names) -> Answer:
    """Holds the declarations of one domain's nodes against each other and against what the nodes observe."""
    declaring = [member for member in members if axis.declared(member) is not None]
    observed = _observed(members, axis)
    if not declaring:
        return not_applicable(spec, scope, members, f"no node of {scope.words} declares {axis.variable}")
    faults = Faults()
    _one_name_each(faults, members, axis)
    _one_observation_each(faults, declaring, axis, seen_with)
    absent = [member for member in declaring if axis.observed(member) is None]
    if absent:
        faults.add(f"{axis.variable} is declared by {_hosts(absent)}, whose GPUs belong to no NVLink domain", absent)
    unread = [(member, seen.why) for member in members if isinstance(seen := axis.observed(member), Unread)]
    silent_ones = not_known(unread)
    if faults.sentences:
        reason = f"{_told_together(faults.sentences)}. {silent_ones}".strip()
        evidence = [Evidence(f"{member.host}: nvidia-smi -q -x", _told(member, axis)) for member in faults.blamed]
        return Answer(spec, scope, members, FAIL, reason, faults.blamed, observed, evidence)
    if unread:
        reason = f"Whether declared and observed {axis.label} agree in {scope.words} is not known. {silent_ones}."
        blamed = [member for member, _why in unread]
        evidence = [Evidence(f"{member.host}: nvidia-smi -q -x", why) for member, why in unread]
        return Answer(spec, scope, members, UNKNOWN, reason, blamed, observed, evidence)
    silent = [member for member in members if axis.declared(member) is None]
    if silent:
        reason = (
            f"{axis.variable} is declared by {len(declaring)} of {nodes(len(members))} of {scope.words}, and missing "
            f"for {_hosts(silent)}."
        )
        return Answer(spec, scope, members, WARN, reason, silent, observed)
    reason = (
        f"All {nodes(len(members))} of {scope.words} observe the {axis.label} that their {axis.variable} stands for."
    )
    if len(members) == 1:
        reason = f"{members[0].host} observes the {axis.label} that its {axis.variable} stands for."
    return passed(spec, scope, members, reason, observed)


def _one_name_each(faults: Faults, members: list[Member], axis: Axis) -> None:
    """What is observed as one must not be declared under two names. What is another observation is no name of it."""
    by_seen: dict[str, dict[str, list[Member]]] = {}
    for member in members:
        seen, name = axis.observed(member), axis.declared(member)
        if isinstance(seen, str) and name is not None and not (_is_observation(name, axis) and name != seen):
            by_seen.setdefault(seen, {}).setdefault(name, []).append(member)
    for seen, names in by_seen.items():
        if len(names) > 1:
            blamed = _minority(names)
            told = "; ".join(f"{name} by {_hosts(holders)}" for name, holders in names.items())
            faults.add(f"{axis.label} {seen} is declared under {len(names)} names: {told}", blamed)


def _one_observation_each(faults: Faults, declaring: list[Member], axis: Axis, seen_with: Names) -> None:
    """What is declared as one must not be observed as two; a name that is an observation itself means that one."""
    wrong: dict[tuple[str, str], list[Member]] = {}
    for member in declaring:
        seen, name = axis.observed(member), axis.declared(member)
        if not isinstance(seen, str) or name is None:
            continue
        if _is_observation(name, axis):
            differs = name != seen
        else:
            known = seen_with[name]
            differs = len(known.counts) > 1 and 2 * known.counts[seen] <= known.total
        if differs:
            wrong.setdefault((name, seen), []).append(member)
    for (name, seen), blamed in wrong.items():
        elsewhere = next((other for other in seen_with[name].counts if other != seen), None)
        others = f", while others of that name observe {elsewhere}" if elsewhere is not None else ""
        who = _hosts(blamed)
        faults.add(f"{axis.variable} {name} is declared by {who}, which observe {axis.label} {seen}{others}", blamed)


def _is_observation(name: str, axis: Axis) -> bool:
    return UUID.fullmatch(name) is not None if axis is DOMAIN_AXIS else name.isascii() and name.isdigit()


def _minority(names: dict[str, list[Member]]) -> list[Member]:
    """Who differs from the name that more than half declare; everybody where none has that."""
    total = sum(len(holders) for holders in names.values())
    return [member for holders in names.values() if 2 * len(holders) <= total for member in holders]


def _observed(members: list[Member], axis: Axis) -> dict[str, dict[str, int]]:
    """``{"declared": {name: nodes}, "observed": {value: nodes}}``."""
    declared = Counter(axis.declared(member) or "nothing" for member in members)
    seen = Counter(_seen(axis.observed(member)) for member in members)
    return {"declared": dict(declared.most_common(8)), "observed": dict(seen.most_common(8))}


def _seen(value: str | Unread | None) -> str:
    if isinstance(value, Unread):
        return "not known"
    return "none" if value is None else value


def _told(member: Member, axis: Axis) -> str:
    return f"declared {axis.declared(member)}, observed {_seen(axis.observed(member))}"


def _hosts(members: Sequence[Member]) -> str:
    return named((member.host for member in members), 4)


def _told_together(sentences: Sequence[str]) -> str:
    """The first three faults as one text."""
    return "; ".join(sentences[:3]) + (f"; and {len(sentences) - 3} more faults" if len(sentences) > 3 else "")
