# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The variables of the role nvidia_fabric, held against what is allowed, for all hosts before any is contacted."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import shown
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import role_variables
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.role_variables import not_allowed

KINDS = ("auto", "none", "hgx", "hgx_nvlink5", "tray")
OWNERS = ("host", "slurm", "dra", "none")
MEMORY_MODES = ("driver", "numa", "leave")
NODES_ALLOWED = (
    "a list of the IPv4 or IPv6 addresses of all trays of the NVLink partition, each once, quoted, in the same order "
    "on all of them"
)


def _nodes(value: Any) -> str:
    good = isinstance(value, list) and all(map(_is_address, value)) and len(set(map(_plain, value))) == len(value)
    return "" if good else NODES_ALLOWED


def _is_address(value: Any) -> bool:
    try:
        address = ipaddress.ip_address(value) if isinstance(value, str) else None
    except ValueError:
        return False
    return address is not None and not (
        address.is_loopback or address.is_multicast or address.is_unspecified or address.is_link_local
    )


def _plain(value: str) -> str:
    return str(ipaddress.ip_address(value))


def _together(values: Mapping[str, Any]) -> list[str]:
    """Faults of variables that are fine alone and not together, where they tell a tray by themselves."""
    found = []
    owner, nodes = values.get("nvidia_fabric_imex_owner", ""), values.get("nvidia_fabric_imex_nodes", [])
    kind = values.get("nvidia_fabric_kind", "auto")
    if kind == "tray" and not owner:
        found.append(owner_needed())
    if owner == "host" and not nodes and kind in ("auto", "tray"):
        found.append(nodes_needed())
    if nodes and owner != "host":
        found.append(
            f"nvidia_fabric_imex_nodes: {shown(nodes)} is not allowed with nvidia_fabric_imex_owner: {shown(owner)}; "
            "allowed: [], since only the owner host has its nodes file written from here"
        )
    return found


def owner_needed() -> str:
    """The sentence for a tray of which nobody said who starts IMEX."""
    return (
        "nvidia_fabric_imex_owner: '' is not allowed on a tray of an NVLink rack; allowed: host (this role writes the "
        "nodes file and starts IMEX), slurm or dra (that one starts it, and the host's service is kept off), none (it "
        "is left as it is)"
    )


def nodes_needed() -> str:
    """The sentence for a tray whose partition is not given."""
    return not_allowed("nvidia_fabric_imex_nodes", [], f"with nvidia_fabric_imex_owner: host {NODES_ALLOWED}")


RULES = role_variables.Rules(
    prefix="nvidia_fabric_",
    judges={
        "nvidia_fabric_kind": role_variables.one_of(*KINDS),
        "nvidia_fabric_imex_owner": role_variables.one_of(*OWNERS, ""),
        "nvidia_fabric_imex_nodes": _nodes,
        "nvidia_fabric_imex_restart": role_variables.boolean,
        "nvidia_fabric_gpu_memory_mode": role_variables.one_of(*MEMORY_MODES),
        "nvidia_fabric_idle_holders": role_variables.processes,
        "nvidia_fabric_lock_timeout": role_variables.seconds(0, 86400),
        "nvidia_fabric_timeout": role_variables.seconds(5, 86400),
    },
    together=_together,
    internal=("nvidia_fabric_summary",),
)


def faults(variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every fault of all hosts as one sentence; empty when all is fine."""
    return role_variables.faults(RULES, variables) or partitions(variables)


def partitions(variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Trays of one declared NVLink partition that are not given the same: one nodes file, and one owner of IMEX."""
    groups: dict[tuple[str, str], list[str]] = {}
    for host, values in variables.items():
        try:
            declared = str(values.get("k3_nvlink_domain", "")).lower(), str(values.get("k3_nvlink_partition", ""))
        except AnsibleError:
            # That it cannot be evaluated is told by the probe's own preflight.
            continue
        if all(declared):
            groups.setdefault(declared, []).append(host)
    found = []
    for (domain, partition), hosts in groups.items():
        for name in ("nvidia_fabric_imex_owner", "nvidia_fabric_imex_nodes"):
            given: dict[str, list[str]] = {}
            for host in hosts:
                given.setdefault(repr(variables[host].get(name)), []).append(host)
            if len(given) > 1:
                told = "; ".join(
                    f"{role_variables.named(same)}: {shown(variables[same[0]].get(name))}" for same in given.values()
                )
                found.append(
                    f"{name} differs between trays of one NVLink partition (k3_nvlink_domain {domain}, "
                    f"k3_nvlink_partition {partition}): {told}; allowed: the same on all of them"
                )
    return found
