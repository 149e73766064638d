# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a user wrote for the probe, held against what is allowed, for all nodes before any of them is contacted."""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import nearest, shown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.probe import check_ids

# Names end in commands to copy, file names and reports: nothing a shell, a template or a terminal would act upon.
HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:-]{0,251}[A-Za-z0-9_])?")
NAME_FAULT = (
    "the name is not allowed; allowed: at most 253 of A-Z, a-z, 0-9 and . _ : -, beginning and ending with a letter, "
    "digit or _; an address such as ::1 goes into ansible_host"
)
PREFIX = "node_readiness_"
# How like a declared variable another has to be to count as a misspelling of it; roles have k3_ names of their own.
MISSPELT = 0.9
# Declared topology (inventory variables) and the key of `require` each stands for.
DECLARED = {
    "k3_nvlink_domain": "nvlink_domain",
    "k3_nvlink_partition": "nvlink_partition",
    "k3_rdma_hcas": "rdma_hcas",
    "k3_rail_isolated": "rail_isolated",
    "k3_data_interface": "data_interface",
    "k3_gpudirect_path": "gpudirect_path",
}
# Further declared names that are no key of `require`: the node never needs them, the fleet checks group by them.
NAMES = ("k3_deployment",)
NAME_ALLOWED = "a name of at most 64 letters, digits and . _ : @ -, quoted where it is a number, or empty"


def _boolean(value: Any) -> str:
    words = ("true", "false", "yes", "no", "on", "off", "1", "0")
    return "" if isinstance(value, bool) or str(value).lower() in words else "true or false"


def _seconds(value: Any) -> str:
    try:
        number = float(value) if not isinstance(value, bool) else 0.0
    except (TypeError, ValueError):
        number = 0.0
    return "" if 1 <= number <= 600 else "seconds from 1 to 600"


def _is_port(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 65535


def _ports(value: Any) -> str:
    right = isinstance(value, list) and all(_is_port(port) for port in value)
    return "" if right else "a list of ports, whole numbers from 1 to 65535"


def _address(value: Any) -> str:
    try:
        address = None if value == "" else ipaddress.ip_address(value)
        # Through these a node would reach itself, or nobody.
        right = address is None or not (address.is_unspecified or address.is_multicast)
    except ValueError:
        right = False
    return "" if right else "an IPv4 or IPv6 address of the node, or empty for that of its data interface"


def _attempt(value: Any) -> str:
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 60
    return "" if right else "seconds, a number above 0 and at most 60"


def _folder(value: Any) -> str:
    """Told before the nodes are asked: a fleet's answers must not be lost for want of a place."""
    allowed = "the path of a folder on the control node that is there or can be made"
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        return allowed
    try:
        path = Path(value).expanduser().absolute()
        nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    except (OSError, RuntimeError) as exc:
        return f"{allowed} ({exc})"
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return f"{allowed} ({nearest} is no folder one may write to)"
    return ""


# Variables with a form of their own; `require` and `skip` are checked by the contract.
FOLDER = "node_readiness_report_dir"
VARIABLES: dict[str, Callable[[Any], str]] = {
    "node_readiness_timeout": _seconds,
    "node_readiness_gate": _boolean,
    "node_readiness_peer_test": _boolean,
    "node_readiness_peer_ports": _ports,
    "node_readiness_peer_address": _address,
    "node_readiness_peer_timeout": _attempt,
    FOLDER: _folder,
}
# Set by the role and its playbooks, not by a user.
INTERNAL = (
    "node_readiness_preflight",
    "node_readiness_result",
    "node_readiness_report",
    "node_readiness_peer_listener",
    "node_readiness_peer_plan",
    "node_readiness_peers",
    "node_readiness_peer_end",
    "node_readiness_playbook_name",
)
DICTIONARIES = ("node_readiness_require", "node_readiness_require_host", "node_readiness_skip")


def faults(variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every fault as one sentence, with hosts, variable, value and what is allowed; empty when all is fine.

    ``variables`` holds each host's inventory and extra variables. A fault that many hosts share comes once.
    """
    found: dict[str, list[str]] = {}
    for host, values in variables.items():
        if not HOST_NAME.fullmatch(host):
            found.setdefault(NAME_FAULT, []).append(shown(host))
            continue
        for fault in _host_faults(values):
            found.setdefault(fault, []).append(host)
    folders = {str(values[FOLDER]) for values in variables.values() if FOLDER in values}
    if not found and len(folders) > 1:
        found[f"{FOLDER}: {shown(sorted(folders))} is not allowed; allowed: one folder for all hosts"] = list(variables)
    return [f"{_named(names)}: {fault}" for fault, names in found.items()]


def internal_faults(extra: Mapping[str, Any]) -> list[str]:
    """Faults of variables given with -e that are the role's own; they would take the place of what nodes answer."""
    fault = "it is not allowed with -e; allowed: nothing, the role sets it"
    return [f"{name}: {fault}" for name in INTERNAL if name in extra]


def gated(variables: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether any node asks for the gate; where none does, its task need not be run for each of them."""
    return any(boolean(values.get("node_readiness_gate", False), strict=False) for values in variables.values())


def peers(variables: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the nodes shall try each other's ports: for all of them as soon as one asks, for it takes both ends."""
    return any(boolean(values.get("node_readiness_peer_test", False), strict=False) for values in variables.values())


def _named(hosts: list[str]) -> str:
    if len(hosts) == 1:
        return f"host {hosts[0]}"
    return "hosts " + ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


def _host_faults(variables: Mapping[str, Any]) -> list[str]:
    known = (*VARIABLES, *DICTIONARIES)
    found = [
        f"there is no variable {shown(name)}; {nearest(name, known)}"
        for name in variables
        if name.startswith(PREFIX) and name not in (*known, *INTERNAL)
    ]
    found += [
        f"there is no variable {shown(name)}; {nearest(name, (*DECLARED, *NAMES))}"
        for name in variables
        if name.startswith("k3_") and name not in (*DECLARED, *NAMES) and _misspelt(name)
    ]
    for name in (*known, *DECLARED, *NAMES):
        if name in variables:
            found += _value_faults(name, variables)
    return found


def _misspelt(name: str) -> bool:
    return bool(difflib.get_close_matches(name, (*DECLARED, *NAMES), 1, MISSPELT))


def _value_faults(name: str, variables: Mapping[str, Any]) -> list[str]:
    """The faults of one variable that is defined."""
    try:
        value = variables[name]
    except AnsibleError as exc:
        return [f"{name} cannot be evaluated: {str(exc).splitlines()[0]}"]
    if name in NAMES:
        allowed = "" if isinstance(value, str) and (value == "" or contract.NAME.fullmatch(value)) else NAME_ALLOWED
        return [f"{name}: {shown(value)} is not allowed; allowed: {allowed}"] if allowed else []
    if name in VARIABLES:
        allowed = VARIABLES[name](value)
        return [f"{name}: {shown(value)} is not allowed; allowed: {allowed}"] if allowed else []
    try:
        if name in DECLARED:
            contract.resolve({DECLARED[name]: value})
        elif name == "node_readiness_skip":
            contract.resolve_skip(value, check_ids())
        else:
            contract.resolve(value)
    except contract.ContractError as exc:
        return [f"{name}: {exc}"]
    return []
