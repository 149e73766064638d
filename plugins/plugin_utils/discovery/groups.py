# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The groups of an inventory that discovery makes, and the names of NVLink domains. Pure.

A domain's name is made of what each of its hosts is called, without the part that tells it from its neighbours, and of
the first characters of the clusterUuid: ``domain_gb_r07_7b1e4c2a`` of gb-r07-01 to gb-r07-18. Both come from one host
as well as from eighteen, so that the name stays when a host is added or does not answer.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

GPU_NODES, RDMA, DOMAINS, UNDISCOVERED = "gpu_nodes", "rdma", "nvlink_domains", "undiscovered"
DOMAIN_PREFIX, HARDWARE_PREFIX = "domain_", "hw_"
# What a site may call a domain, without the prefix.
DOMAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,79}")
UUID_SHOWN = 8
STEM_KEPT = 60


def host_groups(found: Mapping[str, Any]) -> list[str]:
    """The groups of a host that was read (topology.observed()), without its domain."""
    groups = []
    if found.get("gpu_count"):
        groups.append(GPU_NODES)
    if found.get("gpu_model"):
        groups.append(HARDWARE_PREFIX + _safe(str(found["gpu_model"])))
    if found.get("k3_rdma_hcas"):
        groups.append(RDMA)
    return groups


def domain_groups(members: Mapping[str, Iterable[str]], names: Mapping[str, str] | None = None) -> dict[str, str]:
    """The group of each domain: ``{clusterUuid: group}``, from ``{clusterUuid: its hosts}``.

    ``names``: what the site calls domains, ``{clusterUuid: name}``; such a name is used as it is.
    """
    given = {uuid.lower(): name for uuid, name in (names or {}).items()}
    found = {uuid: DOMAIN_PREFIX + given[uuid.lower()] for uuid in members if uuid.lower() in given}
    taken = set(found.values())
    made: dict[str, str] = {}
    for uuid in members:
        if uuid not in found:
            made[uuid] = _made(uuid, members[uuid], UUID_SHOWN)
    # Two that begin alike are told apart by the whole.
    counts = Counter(made.values())
    for uuid, name in made.items():
        found[uuid] = _made(uuid, members[uuid], len(uuid)) if counts[name] > 1 or name in taken else name
    return found


def _made(uuid: str, hosts: Iterable[str], shown: int) -> str:
    stems = Counter(stem for stem in map(_stem, hosts) if stem)
    # The most frequent, and of several the first by name: independent of the order of hosts.
    stem = min(stems, key=lambda name: (-stems[name], name)) + "_" if stems else ""
    return DOMAIN_PREFIX + stem[:STEM_KEPT] + _safe(uuid[:shown])


def _stem(host: str) -> str:
    """What a host shares with its neighbours: gb-r07-12.example -> gb_r07, 10.7.0.12 -> 10_7_0."""
    try:
        address = ipaddress.ip_address(host)
        separator = "." if address.version == 4 else ":"
        return _safe(address.exploded.rsplit(separator, 1)[0])
    except ValueError:
        short = host.split(".", 1)[0]
    return _safe(re.sub(r"[0-9]+[a-z]?\Z", "", short.lower()))


def _safe(text: str) -> str:
    """As a group may be called: small letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
