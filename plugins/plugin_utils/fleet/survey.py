# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who is in which NVLink domain and which deployment, as observed first and as declared where nothing was observed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import STATUSES
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import DEPLOYMENT, DOMAIN, Scope
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.peers import CONCERN

PROBED = "probed"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CLIQUE = re.compile(r"[0-9]{1,10}")
TEXT_KEPT = 80


class FleetInputError(ValueError):
    """Rows or declarations that are none; the message says which, and what is allowed."""


@dataclass(frozen=True)
class Unread:
    """A value of a node that is not known, and why. Never equal to a value, and never left out of a comparison."""

    why: str


Reading = str | Unread


@dataclass
class Member:
    """One node: its row of the report, what its inventory declares, and where it belongs.

    ``declared_domain`` and ``declared_partition``: None where nothing is declared ("0" is a declaration).
    ``domain``: the name of its NVLink domain, None where it has none or that is not known.
    """

    host: str
    row: Mapping[str, Any]
    deployment: str | None = None
    declared_domain: str | None = None
    declared_partition: str | None = None
    domain: str | None = None

    def fact(self, *path: str) -> Any:
        """A fact by its path, Unread where the node was not probed, could not tell it, or told another form."""
        if self.row["state"] != PROBED:
            return Unread(str(self.row.get("reason") or self.row["state"]))
        value: Any = self.row["facts"]
        for place, key in enumerate((*path, None)):
            if isinstance(value, Mapping) and len(value) == 1 and "unknown" in value:
                return Unread(str(value["unknown"]))
            if key is None:
                break
            if not isinstance(value, Mapping) or key not in value:
                return Unread(f"its answer has no {'.'.join(path[: place + 1])}")
            value = value[key]
        return value

    def text(self, *path: str) -> str | Unread | None:
        """A fact that is a text or null."""
        value = self.fact(*path)
        if value is None or isinstance(value, Unread):
            return value
        return value[:TEXT_KEPT] if isinstance(value, str) else Unread(f"its answer has no text as {'.'.join(path)}")

    def _of_form(self, form: re.Pattern[str], *path: str) -> str | Unread | None:
        value = self.text(*path)
        if isinstance(value, str) and not form.fullmatch(value):
            return Unread(f"it tells {value!r} as {'.'.join(path)}, which is not a known form")
        return value

    @cached_property
    def checks(self) -> dict[str, Mapping[str, Any]]:
        """Its own checks by id; empty where it was not probed."""
        return {check["id"]: check for check in self.row["checks"]}

    @cached_property
    def observed_domain(self) -> str | Unread | None:
        """The clusterUuid; None where its GPUs belong to no domain."""
        return self._of_form(UUID, "fabric", "domain")

    @cached_property
    def observed_partition(self) -> str | Unread | None:
        """The cliqueId, a text: "0" is one like any other (facts, corrections (NVLink domain))."""
        return self._of_form(CLIQUE, "fabric", "partition")

    def place(self) -> dict[str, str | None]:
        """``{"deployment", "domain", "partition"}`` for the node's row."""
        seen = self.observed_partition
        return {
            "deployment": self.deployment,
            "domain": self.domain,
            "partition": seen if isinstance(seen, str) else self.declared_partition,
        }


@dataclass
class Sightings:
    """With which observations a declared name was seen, how often each and in all."""

    counts: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def add(self, seen: str) -> None:
        """One node declares the name and observes ``seen``."""
        self.counts[seen] += 1
        self.total += 1


@dataclass
class Survey:
    """All nodes of a run, by where they belong. ``uuids_of``: the clusterUuids seen with a declared domain name."""

    members: list[Member]
    uuids_of: dict[str, Sightings] = field(default_factory=dict)

    @cached_property
    def domains(self) -> list[tuple[Scope, list[Member]]]:
        """The NVLink domains with their nodes, in the order of the inventory."""
        return _grouped(DOMAIN, ((member.domain, member) for member in self.members))

    @cached_property
    def deployments(self) -> list[tuple[Scope, list[Member]]]:
        """The deployments that were declared; a node without one is its own and has nobody to agree with."""
        return _grouped(DEPLOYMENT, ((member.deployment, member) for member in self.members))


def survey(rows: Sequence[Mapping[str, Any]], declared: Mapping[str, Mapping[str, Any]]) -> Survey:
    """The survey of the ``nodes`` of a report.

    ``declared``: ``{host: {"deployment", "nvlink_domain", "nvlink_partition"}}``, each may be absent, null or empty.
    Raises FleetInputError. Linear in the nodes. Source: facts, corrections (NVLink domain).
    """
    _refuse_wrong(rows, declared)
    members = [_member(row, declared.get(row["host"]) or {}) for row in rows]
    uuids_of: dict[str, Sightings] = {}
    names_of: dict[str, Counter[str]] = {}
    for member in members:
        uuid, name = member.observed_domain, member.declared_domain
        if isinstance(uuid, str):
            names_of.setdefault(uuid, Counter())
            if name is not None:
                uuids_of.setdefault(name, Sightings()).add(uuid)
                names_of[uuid][name] += 1
    # What a declared name means: itself where it is a clusterUuid, else the one most often seen with it.
    meaning = {name: _most(seen.counts) for name, seen in uuids_of.items() if not UUID.fullmatch(name)}
    labels = {uuid: _label(uuid, names, meaning) for uuid, names in names_of.items()}
    for member in members:
        seen, name = member.observed_domain, member.declared_domain
        uuid = seen if isinstance(seen, str) else meaning.get(name or "", name)
        member.domain = labels.get(uuid, name) if uuid is not None else None
    return Survey(members, uuids_of)


def _label(uuid: str, names: Counter[str], meaning: Mapping[str, str]) -> str:
    """The name of a domain: what most of its nodes declare, as long as it is not another domain's name."""
    for name, _count in names.most_common():
        if meaning.get(name) == uuid:
            return name
    return uuid


def _most(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0]


def _member(row: Mapping[str, Any], declared: Mapping[str, Any]) -> Member:
    deployment, domain, partition = (
        None if value is None or str(value) == "" else str(value)
        for value in (declared.get(key) for key in ("deployment", "nvlink_domain", "nvlink_partition"))
    )
    if domain is not None and UUID.fullmatch(domain.lower()):
        # The probe takes both spellings for the same.
        domain = domain.lower()
    return Member(row["host"], row, deployment, domain, partition)


def _grouped(kind: str, pairs: Any) -> list[tuple[Scope, list[Member]]]:
    groups: dict[str, list[Member]] = {}
    for name, member in pairs:
        if name is not None:
            groups.setdefault(name, []).append(member)
    return [(Scope(kind, name), members) for name, members in groups.items()]


def _refuse_wrong(rows: Any, declared: Any) -> None:
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Sequence):
        raise FleetInputError("the rows are no list; allowed: the `nodes` of a readiness report")
    if not isinstance(declared, Mapping) or not all(
        isinstance(value, (Mapping, type(None))) for value in declared.values()
    ):
        raise FleetInputError(
            "what is declared is no dictionary of dictionaries; allowed: "
            "{host: {deployment: …, nvlink_domain: …, nvlink_partition: …}}"
        )
    hosts = set()
    for number, row in enumerate(rows):
        if not _is_row(row):
            raise FleetInputError(f"row {number} is none; allowed: the `nodes` of a readiness report")
        if row["host"] in hosts:
            raise FleetInputError(f"host {ascii(row['host'])[:80]} has two rows; allowed: one a host")
        hosts.add(row["host"])


def _is_row(row: Any) -> bool:
    if not isinstance(row, Mapping):
        return False
    checks, facts = row.get("checks"), row.get("facts")
    return (
        all(isinstance(row.get(key), str) for key in ("host", "state", "verdict"))
        and isinstance(row.get("root_cause"), (str, type(None)))
        and isinstance(facts, Mapping)
        and _is_tried(facts.get(CONCERN))
        and isinstance(checks, Sequence)
        and all(
            isinstance(check, Mapping)
            and isinstance(check.get("id"), str)
            and check.get("status") in STATUSES
            and isinstance(check.get("reason"), str)
            for check in checks
        )
    )


def _is_tried(found: Any) -> bool:
    """Whether this is what plugin_utils.peers.facts() leaves in a row, or nothing."""
    if found is None:
        return True
    parts = ("edges", ("peer", "state", "purpose", "detail")), ("untried", ("peer", "reason"))
    return isinstance(found, Mapping) and all(
        isinstance(found.get(part), Sequence)
        and all(
            isinstance(item, Mapping) and all(isinstance(item.get(key), str) for key in keys) for item in found[part]
        )
        for part, keys in parts
    )
