# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The steps of the action fabric_decision: each takes its arguments and the task's variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import (
    foreseen,
    hgx,
    imex,
    kind,
    plan,
    tray,
    variables,
    waiting,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError

Answer = dict[str, Any]


def _refuse(reasons: list[str]) -> None:
    if reasons:
        raise FabricError("\n".join(reasons))


def preflight(arguments: Answer, task_vars: Mapping[str, Any]) -> Answer:
    """Refuses wrong variables of any host of the play."""
    hosts = task_vars["ansible_play_hosts_all"]
    _refuse(variables.faults({host: task_vars["hostvars"][host] for host in hosts}))
    return {"nodes": len(hosts)}


def decide_kind(arguments: Answer, task_vars: Mapping[str, Any]) -> Answer:
    """What the node is."""
    return {"node": kind.of(arguments["facts"], arguments["wish"]["kind"])}


def decide_plan(arguments: Answer, task_vars: Mapping[str, Any]) -> Answer:
    """What is done to the node."""
    node, table, told = (arguments[name] for name in ("node", "table", "foreseen"))
    facts = foreseen.facts(arguments["facts"], told)
    now = foreseen.now(arguments["now"], told) if arguments["now"] else arguments["now"]
    host = task_vars["inventory_hostname"]
    if node["kind"] == kind.NONE:
        made = plan.Plan(kind.NONE, node["evidence"])
    elif node["kind"] == kind.TRAY:
        made = tray.plan(node, facts, now, arguments["wish"], table, host, _views(task_vars, "__nvidia_fabric_now"))
    else:
        made = hgx.plan(node, facts, now, table, host)
    return {"plan": made.as_dict()}


def _views(task_vars: Mapping[str, Any], read: str) -> dict[str, Answer]:
    """What this run knows of its hosts."""
    known = {host: imex.view(task_vars["hostvars"][host], read) for host in task_vars["ansible_play_hosts_all"]}
    return {host: seen for host, seen in known.items() if seen is not None}


def idle(arguments: Answer, task_vars: Mapping[str, Any]) -> Answer:
    """Whether nobody works on the GPUs of the partition, read again right before it is disturbed."""
    wish = arguments["wish"]
    busy = imex.quiet(wish["nodes"], wish, arguments["table"], _views(task_vars, "__nvidia_fabric_again"))
    _refuse([f"the NVLink partition is not disturbed, since {busy}; {imex.ASK}"] if busy else [])
    return {}


def awaited(arguments: Answer, task_vars: Mapping[str, Any]) -> Answer:
    """Fails the node whose fabric did not come up."""
    fault = waiting.fault(
        arguments["now"], arguments["plan"]["awaits"], arguments["seconds"], arguments["wish"]["nodes"]
    )
    _refuse([fault] if fault else [])
    return {}


def tell(arguments: Answer, task_vars: Mapping[str, Any]) -> Answer:
    """What the run does to the node, line by line; as ``msg`` it is printed."""
    first, *rest = arguments["plan"]["lines"]
    found = [first]
    for packages in arguments["predicted"]:
        for item in packages["packages"]:
            if item["action"] != "keep":
                origin = f" (from {item['origin']})" if item["origin"] else ""
                found.append(f"package {item['name']} {item['from'] or 'absent'} -> {item['to'] or 'removed'}{origin}")
        found += [f"not certain: {text}" for text in packages["unknown"]]
    found = list(dict.fromkeys([*found, *rest]))
    return {"summary": found, "msg": found}


STEPS: dict[str, Callable[[Answer, Mapping[str, Any]], Answer]] = {
    "preflight": preflight,
    "kind": decide_kind,
    "plan": decide_plan,
    "idle": idle,
    "awaited": awaited,
    "tell": tell,
}
