# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The names of NVLink domains in the topology file: the ones they have, else those that discovery makes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.groups import (
    DOMAIN_NAME,
    DOMAIN_PREFIX,
    domain_groups,
)


def named(groups: Mapping[str, Iterable[str]], domain_of: Mapping[str, Any]) -> dict[str, str]:
    """``{clusterUuid: group}``: the domains that groups already stand for, because all hosts in them are of one.

    ``groups``: hosts by group, of which those that begin with ``domain_`` count; ``domain_of``: the clusterUuid by
    host, where it is known. Of several groups of one domain the first by name counts.
    """
    found: dict[str, str] = {}
    for group in sorted(groups):
        domains = {str(domain_of[host]).lower() for host in groups[group] if domain_of.get(host)}
        if len(domains) == 1 and _is_domain_group(group):
            found.setdefault(domains.pop(), group)
    return found


def group_names(members: Mapping[str, Iterable[str]], known: Mapping[str, str]) -> dict[str, str]:
    """The group of each domain of ``members`` (``{clusterUuid: its hosts}``). ``known``: see named()."""
    return domain_groups(members, {domain: group.removeprefix(DOMAIN_PREFIX) for domain, group in known.items()})


def _is_domain_group(group: str) -> bool:
    return group.startswith(DOMAIN_PREFIX) and DOMAIN_NAME.fullmatch(group.removeprefix(DOMAIN_PREFIX)) is not None
