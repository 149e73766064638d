# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the nodes of a deployment reach each other on its ports, as the peer test saw it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers.protocol import HELD, OK
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import FAIL, UNKNOWN, Evidence
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import Answer, Scope, Spec, named, passed
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Member, Survey
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.peers import CONCERN

EDGES_SHOWN = 3
GOOD = (OK, HELD)


def peer_tcp(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer for each deployment of two nodes or more in which the test was made."""
    found = []
    for scope, members in survey.deployments:
        told = {member.host: _told(member) for member in members}
        if len(members) > 1 and any(told.values()):
            found.append(_judge(spec, scope, members, told))
    return found


def _told(member: Member) -> Mapping[str, Any] | None:
    """What the test left in the node's row, whether it was probed or not."""
    return member.row["facts"].get(CONCERN)


def _judge(spec: Spec, scope: Scope, members: list[Member], told: Mapping[str, Any]) -> Answer:
    by_name = {member.host: member for member in members}
    bad: list[tuple[str, Mapping[str, Any]]] = []
    untried: list[tuple[str, str, str]] = []
    held: list[str] = []
    tries = 0
    for host, answer in told.items():
        for edge in _edges(answer):
            tries += 1
            if edge["state"] == HELD:
                held.append(f"{edge['peer']} port {edge['port']}")
            elif edge["state"] not in GOOD:
                bad.append((host, edge))
        untried += [(host, gap["peer"], gap["reason"]) for gap in (answer or {}).get("untried", ())]
        if not answer:
            untried.append((host, "its peers", "it took no part in the test"))
    observed = {"connections": tries, "failed": len(bad), "not_tried": len(untried), "held_by_services": len(held)}
    if bad:
        worst = named([_edge(host, edge) for host, edge in bad], EDGES_SHOWN)
        reached = {
            (edge["peer"], edge["port"]) for answer in told.values() for edge in _edges(answer) if edge["state"] in GOOD
        }
        alone = {host for host, answer in told.items() if not any(edge["state"] in GOOD for edge in _edges(answer))}
        blamed = {_culprit(host, edge, alone, reached) for host, edge in bad}
        return Answer(
            spec,
            scope,
            members,
            FAIL,
            f"{len(bad)} of {tries} connections between the nodes of {scope.words} failed: {worst}.",
            [member for member in members if member.host in blamed],
            observed,
            [Evidence(f"{host} -> {edge['peer']}:{edge['port']}", edge["detail"]) for host, edge in bad],
        )
    if untried or not tries:
        why = named([f"{host} -> {peer} ({reason})" for host, peer, reason in untried], EDGES_SHOWN)
        missing = {peer for _host, peer, _reason in untried} | {host for host, _peer, _reason in untried}
        return Answer(
            spec,
            scope,
            members,
            UNKNOWN,
            f"Not all nodes of {scope.words} were tried: {why or 'no port was'}.",
            [by_name[name] for name in sorted(missing & set(by_name))],
            observed,
        )
    note = f"; not with full packets, for services hold them: {named(held, EDGES_SHOWN)}" if held else ""
    return passed(
        spec, scope, members, f"All {tries} connections around the ring of {scope.words} came about{note}.", observed
    )


def _edges(answer: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    return list((answer or {}).get("edges", ()))


def _culprit(host: str, edge: Mapping[str, Any], alone: set[str], reached: set[tuple[str, int]]) -> str:
    """Whom an edge that failed speaks against: its target, unless others reach that and this node reaches nobody."""
    return host if host in alone and (edge["peer"], edge["port"]) in reached else str(edge["peer"])


def _edge(host: str, edge: Mapping[str, Any]) -> str:
    purpose = f" ({edge['purpose']})" if edge["purpose"] else ""
    return f"{host} to {edge['peer']} port {edge['port']}{purpose}: {edge['detail']}"
