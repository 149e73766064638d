# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who tries whom in the peer test, and what a node's answer means for its row. Pure.

The nodes of a deployment, sorted by name, form a ring; each tries its two neighbours, so that every node is both tried
and trying, and the cost grows with the nodes and not with their pairs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers.listener import LISTENING
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers.protocol import (
    DROPPED,
    ERROR,
    FOREIGN,
    HELD,
    NO_ROUTE,
    OK,
    REFUSED,
    STALLED,
)

# Where a row's facts keep what the test saw.
CONCERN = "peer_tcp"
PORTS_MAX = 64
PORT = re.compile("[1-9][0-9]{0,4}")
# What becomes of a port of a listener, and of an attempt.
OFFERED = (LISTENING, HELD, ERROR)
TRIED = (OK, HELD, FOREIGN, REFUSED, DROPPED, NO_ROUTE, STALLED, ERROR)


def plan(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """``{"peers": {host: [peer]}, "untried": {host: [{"peer", "reason"}]}}`` of the nodes of a play.

    ``nodes``: ``{host: {"deployment": name or None, "result": registered result of its listen step or None}}``. A peer
    is ``{"name", "address", "token", "ports"}``. A node without a deployment, or alone in one, has no peers; one
    without a result did not listen in this step.
    """
    rings: dict[str, list[str]] = {}
    for host, node in nodes.items():
        if node["deployment"] is not None:
            rings.setdefault(str(node["deployment"]), []).append(host)
    peers: dict[str, list[dict[str, Any]]] = {host: [] for host in nodes}
    untried: dict[str, list[dict[str, Any]]] = {host: [] for host in nodes}
    for members in rings.values():
        members.sort()
        at = _addresses(nodes, members)
        for place, host in enumerate(members):
            for neighbour in _neighbours(members, place):
                result = nodes[neighbour]["result"]
                why = _deaf(result) or _shared(at, neighbour)
                if why:
                    untried[host].append({"peer": neighbour, "reason": why})
                else:
                    listening = result["listening"]
                    kept = {key: listening[key] for key in ("address", "token", "ports")}
                    peers[host].append({"name": neighbour, **kept})
    return {"peers": peers, "untried": untried}


def _addresses(nodes: Mapping[str, Mapping[str, Any]], members: list[str]) -> dict[str, str]:
    """The address of each member that listens."""
    return {host: nodes[host]["result"]["listening"]["address"] for host in members if not _deaf(nodes[host]["result"])}


def _shared(at: Mapping[str, str], host: str) -> str:
    """Why a try would not tell of this very node: another has its address, as one machine under two names has."""
    twins = [other for other, address in at.items() if address == at[host] and other != host]
    return f"it has the address {at[host]}, as {twins[0]} has" if twins else ""


def _neighbours(members: list[str], place: int) -> list[str]:
    """The next and the one before, once each; none of a ring of one."""
    around = [members[(place + 1) % len(members)], members[place - 1]]
    return [name for name in dict.fromkeys(around) if name != members[place]]


def _deaf(result: Mapping[str, Any] | None) -> str:
    """Why nobody can try this node; empty where it listens."""
    if not isinstance(result, Mapping):
        return "it did not listen in this step (another batch, or node_readiness_peer_test is off there)"
    if result.get("unreachable"):
        return "it is unreachable"
    listening = result.get("listening")
    if result.get("failed") or not isinstance(listening, Mapping):
        return "it could not listen: " + _said(result)
    if not _is_listening(listening):
        return "its answer has not the form of a listener's"
    return "" if listening["ports"] else "it listens on no port"


def _is_listening(listening: Mapping[str, Any]) -> bool:
    """Whether others may be sent there: what a node answers is the node's, and may be anything."""
    ports = listening.get("ports")
    return (
        _is_address(listening.get("address"))
        and isinstance(listening.get("token"), str)
        and isinstance(ports, Mapping)
        and len(ports) <= PORTS_MAX
        and all(
            isinstance(port, str)
            and PORT.fullmatch(port) is not None
            and int(port) <= 65535
            and isinstance(offered, Mapping)
            and offered.get("state") in OFFERED
            and isinstance(offered.get("holder"), str)
            and isinstance(offered.get("purpose"), str)
            for port, offered in ports.items()
        )
    )


def _is_address(text: Any) -> bool:
    try:
        address = ipaddress.ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return False
    return address is not None and not (address.is_unspecified or address.is_multicast)


def facts(
    result: Mapping[str, Any] | None,
    tried: list[dict[str, Any]],
    untried: list[dict[str, Any]],
    expired: Collection[str] = (),
) -> Any:
    """For a row: ``{"edges": [...], "untried": [{"peer", "reason"}]}``; ``tried`` are its peers of the plan.

    A node that did not answer has tried nobody. A failure to reach a node of ``expired``, whose listener no longer was
    there to be ended, says nothing; neither does a port that the peer could not open.
    """
    edges = result.get("edges") if isinstance(result, Mapping) and not result.get("failed") else None
    wanted = {(peer["name"], int(port)): peer["address"] for peer in tried for port in peer["ports"]}
    if isinstance(edges, list) and len(edges) <= len(wanted) and all(_is_edge(edge, wanted) for edge in edges):
        kept, missed = [], []
        for name, port in wanted.keys() - {(edge["peer"], edge["port"]) for edge in edges}:
            missed.append({"peer": name, "reason": f"port {port}: the answer from here does not tell of it"})
        for edge in edges:
            if edge["state"] == ERROR:
                missed.append({"peer": edge["peer"], "reason": f"port {edge['port']}: {edge['detail']}"})
            elif edge["state"] not in (OK, HELD) and edge["peer"] in expired:
                missed.append({"peer": edge["peer"], "reason": f"port {edge['port']}: its listener had ended by then"})
            else:
                kept.append(edge)
        return {"edges": kept, "untried": [*untried, *missed]}
    why = "it is unreachable" if isinstance(result, Mapping) and result.get("unreachable") else _said(result or {})
    missed = [{"peer": peer["name"], "reason": f"the attempt from here failed: {why}"} for peer in tried]
    return {"edges": [], "untried": [*untried, *missed]}


def _is_edge(edge: Any, wanted: Mapping[tuple[str, int], str]) -> bool:
    """Whether it tells of a connection that was to be tried."""
    if not isinstance(edge, Mapping) or isinstance(edge.get("port"), bool) or not isinstance(edge.get("port"), int):
        return False
    if not all(isinstance(edge.get(key), str) for key in ("peer", "address", "purpose", "state", "detail")):
        return False
    return edge["state"] in TRIED and wanted.get((edge["peer"], edge["port"])) == edge["address"]


def _said(result: Mapping[str, Any]) -> str:
    lines = str(result.get("msg") or "").strip().splitlines()
    return lines[0].removeprefix("Task failed: ")[:200] if lines else "no reason was given"
