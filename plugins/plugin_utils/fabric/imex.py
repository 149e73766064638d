# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""IMEX of a tray: one owner (C34), one nodes file for the partition, and nothing restarted under running work."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.fabric_node.state import UNITS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _fabric_imex
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import foreseen, versions
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError, is_unknown, why
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.plan import File, Plan, Service, not_started

UNIT = UNITS["imex"]
NODES_FILE = _fabric_imex.IMEX_NODES
CONFIG_FILE = _fabric_imex.IMEX_CONFIG
UP = ("active", "activating", "reloading")
_NODES_LINE = re.compile(r"(?m)^\s*IMEX_NODE_CONFIG_FILE\s*=\s*(\S+)\s*$")
ASK = "drain those trays and run over all of them, or ask for it with nvidia_fabric_imex_restart: true"


def view(variables: Mapping[str, Any], read: str) -> dict[str, Any] | None:
    """What the run knows of a host: ``{"holders", "addresses", "domain", "partition", "nodes", "owner"}``.

    None where this run has not read it. ``read``: the variable that holds the answer of fabric_state.
    """
    answer = variables.get(read)
    now = answer.get("now") if isinstance(answer, Mapping) else None
    if not isinstance(now, Mapping) or "addresses" not in now:
        return None
    result = variables.get("node_readiness_result")
    facts = result.get("readiness", {}).get("facts", {}) if isinstance(result, Mapping) else {}
    told = facts.get("fabric")
    fabric: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    return {
        "holders": now["holders"],
        "addresses": now["addresses"],
        "domain": fabric.get("domain"),
        "partition": fabric.get("partition"),
        "nodes": variables.get("nvidia_fabric_imex_nodes") or [],
        "owner": variables.get("nvidia_fabric_imex_owner") or "",
    }


def faults(
    now: Mapping[str, Any], wish: Mapping[str, Any], host: str, views: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Why the nodes file cannot be written here."""
    found = []
    addresses, config = now["addresses"], now["config"]
    if is_unknown(addresses):
        found.append(f"which addresses this node has is not known: {why(addresses)}")
    elif not _same(addresses, wish["nodes"]):
        given = ", ".join(wish["nodes"][:4]) + (" …" if len(wish["nodes"]) > 4 else "")
        found.append(
            f"nvidia_fabric_imex_nodes: none of {given} is an address of this node, which has "
            f"{', '.join(addresses) or 'none'}; allowed: the trays of its partition, itself among them"
        )
    if is_unknown(config):
        found.append(f"what {CONFIG_FILE} holds is not known: {why(config)}")
    elif isinstance(config, str):
        told = _NODES_LINE.findall(config)
        if told and told[-1] != NODES_FILE:
            found.append(f"{CONFIG_FILE} names {told[-1]} as its nodes file, and this role writes {NODES_FILE} only")
    if now["imex"]["dra"] is True:
        found.append(
            "nvidia_fabric_imex_owner: 'host' is not allowed on this node, where Kubernetes' DRA driver starts IMEX "
            "itself (C34); allowed: dra"
        )
    return found + _partition_faults(host, wish, views)


def _partition_faults(host: str, wish: Mapping[str, Any], views: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What GPUs tell of their partition decides where they tell it: one list for it, and none of another (C34)."""
    found = []
    own = views.get(host, {})
    mine = (own.get("domain"), own.get("partition"))
    if not all(isinstance(item, str) for item in mine):
        return []
    for other, seen in sorted(views.items()):
        theirs = (seen["domain"], seen["partition"])
        if other == host or not all(isinstance(item, str) for item in theirs):
            continue
        if theirs == mine and seen["owner"] == "host" and seen["nodes"] != wish["nodes"]:
            found.append(f"{other} is of the same NVLink partition and is given other nvidia_fabric_imex_nodes")
        if theirs != mine and not is_unknown(seen["addresses"]) and _same(seen["addresses"], wish["nodes"]):
            found.append(
                f"nvidia_fabric_imex_nodes names {other}, which is of another NVLink partition: domain {theirs[0]}, "
                f"partition {theirs[1]} there, {mine[0]}, {mine[1]} here"
            )
    return found


def _same(addresses: Iterable[str], nodes: Iterable[str]) -> set[str]:
    return {_plain(item) for item in addresses} & {_plain(item) for item in nodes}


def _plain(address: str) -> str:
    return str(ipaddress.ip_address(address))


def plan(
    made: Plan,
    facts: Mapping[str, Any],
    now: Mapping[str, Any],
    wish: Mapping[str, Any],
    table: Mapping[str, Any],
    host: str,
    views: Mapping[str, Mapping[str, Any]],
) -> None:
    """Adds to the plan what becomes of IMEX for its owner."""
    unit = now["units"]["imex"]
    if is_unknown(unit):
        raise FabricError(f"the state of {UNIT} is not known: {why(unit)}")
    if wish["owner"] == "host":
        _host(made, facts, now, wish, table, host, views)
    elif wish["owner"] == "slurm":
        _slurm(made, unit)
    elif wish["owner"] == "dra":
        _dra(made, unit, bool(wish["restart"]))
    else:
        made.said.append(f"{UNIT}: left as it is (nvidia_fabric_imex_owner: none)")


def _slurm(made: Plan, unit: Mapping[str, str]) -> None:
    """Slurm starts and stops the unit with its jobs: it is kept from starting by itself, and never stopped."""
    if unit["LoadState"] == "masked":
        made.said.append(f"{UNIT} is masked, so Slurm cannot start it either: `systemctl unmask {UNIT}`")
    elif unit["UnitFileState"] == "enabled":
        made.services.append(Service(UNIT, enabled=False))
    if unit["ActiveState"] in UP:
        made.said.append(f"{UNIT} runs and is not stopped: it may serve a job of Slurm")


def _dra(made: Plan, unit: Mapping[str, str], asked: bool) -> None:
    """Kubernetes' DRA driver runs IMEX of its own, which the host's excludes (facts 7.4)."""
    service = Service(UNIT, masked=None if unit["LoadState"] == "masked" else True)
    if unit["ActiveState"] in UP and asked:
        service.state, service.disturbs = "stopped", True
    elif unit["ActiveState"] in UP:
        made.said.append(
            f"stop due: {UNIT} runs beside the DRA driver's (C34), and is not stopped, since whose work it serves is "
            f"not known; drain the trays of its partition, and ask for it with nvidia_fabric_imex_restart: true"
        )
    made.services.append(service)


def _host(
    made: Plan,
    facts: Mapping[str, Any],
    now: Mapping[str, Any],
    wish: Mapping[str, Any],
    table: Mapping[str, Any],
    host: str,
    views: Mapping[str, Mapping[str, Any]],
) -> None:
    unit, newer = now["units"]["imex"], now["nodes_newer"]
    verdict, reason = versions.judge(
        "nvidia-imex", now["imex"]["packages"], None, now["driver"], versions.on_disk(facts), host
    )
    if is_unknown(newer):
        raise FabricError(f"whether {UNIT} knows its nodes is not known: {why(newer)}")
    up = unit["ActiveState"] in UP
    file = File(NODES_FILE, _content(now["files"][NODES_FILE], wish["nodes"]), now["files"][NODES_FILE], "imex")
    service = Service(UNIT)
    if verdict != versions.NO and unit["LoadState"] == "not-found":
        verdict, reason = versions.NO, "no such unit is there"
    if verdict != versions.NO and unit["LoadState"] == "masked":
        # The site says that it is the host's, and no driver of Kubernetes is seen here.
        service.masked = False
    if verdict != versions.NO and unit["UnitFileState"] in ("disabled", "masked"):
        service.enabled = True
    elif verdict != versions.NO and unit["UnitFileState"] == foreseen.UNTOLD:
        made.said.append(foreseen.line(UNIT))
    if verdict == versions.START and not up:
        service.state = "started"
    elif verdict == versions.START and (file.changes or newer is True):
        service.state = "restarted"
    # Written where nothing reads it yet, the file disturbs nobody.
    file.disturbs = file.changes and (up or service.state is not None)
    busy = quiet(wish["nodes"], wish, table, views) if file.disturbs or service.state else ""
    if busy:
        what = [f"{NODES_FILE} is to be {'made' if file.there is None else 'changed'}"] if file.changes else []
        what += [f"{UNIT} is to be {service.state}"] if service.state else []
        due = "restart due" if up else "start due"
        made.said.append(
            f"{due}: {' and '.join(what)}, which disturbs every tray of the NVLink partition, and is not done, since "
            f"{busy}; {ASK}"
        )
        service.state = None
    else:
        service.disturbs = service.state is not None
        made.files.append(file)
        if verdict == versions.START:
            made.awaits = "imex"
    made.services.append(service)
    if verdict == versions.REBOOT:
        made.reboot.append(reason)
    if verdict != versions.START:
        made.said.append(not_started(UNIT, up, verdict == versions.REBOOT, reason))


def _content(there: Any, nodes: list[str]) -> str:
    """The whole file. One that names the same nodes is right as it is: nobody is disturbed for a comment."""
    lines = [line.strip() for line in there.splitlines()] if isinstance(there, str) else []
    if [line for line in lines if line and not line.startswith("#")] == nodes:
        return str(there)
    return "".join(f"{node}\n" for node in nodes)


def quiet(
    nodes: Iterable[str], wish: Mapping[str, Any], table: Mapping[str, Any], views: Mapping[str, Mapping[str, Any]]
) -> str:
    """Why the trays with these addresses must not be disturbed; empty where all are idle, or it is asked for."""
    if wish["restart"]:
        return ""
    # The kernel keeps 15 characters of a name.
    idle = {name[:15] for name in [*table["idle_holders"], *wish["idle_holders"]]}
    left = {_plain(node): node for node in nodes}
    found = []
    for host, seen in sorted(views.items()):
        addresses = [] if is_unknown(seen["addresses"]) else seen["addresses"]
        mine = _same(addresses, left)
        if not mine:
            continue
        for address in mine:
            del left[address]
        if is_unknown(seen["holders"]):
            found.append(f"who uses the GPUs of {host} is not known ({why(seen['holders'])})")
            continue
        working = [holder for holder in seen["holders"] if holder["name"] not in idle]
        if working:
            first = working[0]
            of_unit = f" of {first['unit']}" if first["unit"] else ""
            more = f" and {len(working) - 1} more" if len(working) > 1 else ""
            found.append(f"the GPUs of {host} are in use by {first['name']} ({first['pid']}{of_unit}){more}")
    if left:
        named = ", ".join(list(left.values())[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        found.append(
            f"{named} {'is' if len(left) == 1 else 'are'} not in this run, so who uses the GPUs there is not known"
        )
    return "; ".join(found[:6])
