# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports of made-up fleets of any size: what the probe says of made-up nodes, multiplied, with each node's own lines."""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Check
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.verdict import root_cause, verdict
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import node_row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import MadeNode
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.variants import VARIANTS

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)
UNREACHABLE = "unreachable"
TRAYS = 18
# The clusterUuid of the made-up GB200 tray (tests/fixtures/nodes/parts/gpu.py).
CLUSTER = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"
# What is wrong where, by the number of a node; all others are healthy.
SOME_WRONG = {
    3: "driver-575",
    4: "driver-575",
    20: UNREACHABLE,
    21: "userland-newer",
    40: "nvidia-smi-hang",
    41: "driver-575",
    60: "peermem-other-ib-core",
}


@functools.cache
def answer(variant: str) -> dict[str, Any]:
    """What the probe says of a made-up node of that name (tests/fixtures/nodes/variants.py)."""
    made = VARIANTS[variant]
    with tempfile.TemporaryDirectory() as folder:
        return probe.probe(MadeNode(made.profile(), Path(folder) / "node"), contract.resolve(made.contract), {})


@functools.cache
def tray_with(variant: str) -> str:
    """A GB200 tray, as JSON, with what is wrong with a made-up node: its answers that do not pass, and an old driver."""
    tray, other = copy.deepcopy(answer("gb200-healthy")), answer(variant)
    wrong = {check["id"]: check for check in other["checks"] if check["status"] not in ("pass", "not_applicable")}
    tray["checks"] = [wrong.get(check["id"], check) for check in tray["checks"]]
    if "driver.branch" in wrong:
        tray["facts"]["driver"]["loaded"] = other["facts"]["driver"]["loaded"]
    judged = [
        Check(check["id"], check["status"], None, None, "", blocking=check["blocking"]) for check in tray["checks"]
    ]
    tray.update(verdict=verdict(judged), root_cause=root_cause(judged))
    return json.dumps(tray)


def result(host: str, variant: str, rack: int = 1) -> dict[str, Any]:
    """The registered result of a node's probe task, whose evidence no other node has: no page gets smaller by luck."""
    if variant == UNREACHABLE:
        return {"unreachable": True, "msg": f"ssh: connect to host {host} port 22: No route to host"}
    readiness = json.loads(tray_with(variant).replace(CLUSTER, f"{rack:08x}{CLUSTER[8:]}"))
    for check in readiness["checks"]:
        check["evidence"].append({"source": f"/run/serial of {host}", "line": f"{check['id']} as seen on {host}"})
    return {"readiness": readiness}


def racks(nodes: int, wrong: Mapping[int, str]) -> dict[str, dict[str, Any]]:
    """``{host: registered result}`` of racks of eighteen trays; ``wrong``: the variant of a node by its number."""
    found = {}
    for number in range(nodes):
        rack, tray = number // TRAYS + 1, number % TRAYS + 1
        host = f"gpu-r{rack:02}-n{tray:02}"
        found[host] = result(host, wrong.get(number, "gb200-healthy"), rack)
    return found


def declared(hosts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Where the nodes of racks() belong: a domain a rack, and four racks a deployment."""
    return {
        host: {"deployment": f"k3-{(int(host[5:7]) - 1) // 4 + 1}", "nvlink_domain": f"rack-{host[5:7]}"}
        for host in hosts
        if host.startswith("gpu-r")
    }


def report(results: Mapping[str, Mapping[str, Any]], hours: int = 0, playbook: str = "probe") -> dict[str, Any]:
    """The report of these results, made so many hours after WHEN."""
    rows = [node_row(host, found) for host, found in results.items()]
    return document(rows, playbook, WHEN + timedelta(hours=hours), "0.1.0", declared(results))
