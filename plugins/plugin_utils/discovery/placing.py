# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From answers to inventory: variables and groups of each host, and what is worth a warning. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.groups import (
    DOMAINS,
    GPU_NODES,
    UNDISCOVERED,
    domain_groups,
    host_groups,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.snapshot import NOT_ASKED

# The whole answer of a host, in the form of topology.observed(), and why there is none.
DISCOVERED, ERROR = "gpu_fabric", "gpu_fabric_error"
WARNINGS_SHOWN = 20


@dataclass
class Entry:
    """One host: its variables, and the groups it is in."""

    variables: dict[str, Any] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)


@dataclass
class Placed:
    """``entries`` by host; ``parents``: the parent group by group; ``groups``: those that are there even when empty."""

    entries: dict[str, Entry]
    parents: dict[str, str]
    groups: Sequence[str] = (GPU_NODES,)


def place(answers: Mapping[str, Mapping[str, Any]], domain_names: Mapping[str, str]) -> Placed:
    """Place every host, those that did not answer included. ``answers``: see fleet.discover()."""
    entries = {host: _entry(answer) for host, answer in answers.items()}
    members: dict[str, list[str]] = {}
    for host, entry in entries.items():
        domain = entry.variables.get("k3_nvlink_domain")
        if domain:
            members.setdefault(domain, []).append(host)
    names = domain_groups(members, domain_names)
    for domain, hosts in members.items():
        for host in hosts:
            entries[host].groups.append(names[domain])
    return Placed(entries, dict.fromkeys(names.values(), DOMAINS))


def _entry(answer: Mapping[str, Any]) -> Entry:
    found = answer.get("observed")
    if not isinstance(found, Mapping):
        return Entry({ERROR: str(answer.get("error") or "it was not read")}, [UNDISCOVERED])
    variables = {name: value for name, value in found.items() if name != "unknown"}
    variables[DISCOVERED] = dict(found)
    groups = host_groups(found)
    if "gpu_count" not in found:
        # Neither a GPU node nor none: it must not drop out of the fleet unseen.
        why = found.get("unknown", {}).get("gpu_count", "it did not tell")
        variables[ERROR] = f"whether it has GPUs is not known: {why}"
        groups.append(UNDISCOVERED)
    return Entry(variables, groups)


def warnings(placed: Placed, when: str) -> list[str]:
    """A sentence for each host that was not wholly read, up to WARNINGS_SHOWN, and one for the rest.

    ``when``: the time of answers that come from the cache, else empty.
    """
    told = f" (asked at {when}, from the cache)" if when else ""
    whys = {host: why for host, entry in placed.entries.items() if (why := _fault(entry.variables))}
    # Those that were not read at all first.
    order = sorted(whys, key=lambda host: ERROR not in placed.entries[host].variables)
    found = [f"gpu_fabric: {host}: {whys[host]}{told}" for host in order[:WARNINGS_SHOWN]]
    if len(order) > WARNINGS_SHOWN:
        found.append(
            f"gpu_fabric: {len(order) - WARNINGS_SHOWN} more hosts were not read, or not wholly; their variables "
            f"{ERROR} and {DISCOVERED}.unknown say why"
        )
    return found


def _fault(variables: Mapping[str, Any]) -> str:
    """What of a host is not known although it was asked for, and why; empty where nothing is."""
    if ERROR in variables:
        return str(variables[ERROR])
    by_reason: dict[str, list[str]] = {}
    for name, why in variables[DISCOVERED].get("unknown", {}).items():
        if why != NOT_ASKED:
            by_reason.setdefault(str(why), []).append(name)
    return "; ".join(f"not known: {', '.join(names)} ({why})" for why, names in by_reason.items())
