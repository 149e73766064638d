# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""network.peer_tcp: what the peer test means for a deployment."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import fleet_readiness
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import answers, dead, row


def edge(peer, state="ok", port=29501):
    said = f"it is {state}"
    return {"peer": peer, "address": "10.0.0.9", "port": port, "purpose": "rendezvous", "state": state, "detail": said}


def ring_row(host, *edges, untried=()):
    made = dead(host) if host == "dead" else row(host)
    made["facts"] = {**made["facts"], "peer_tcp": {"edges": list(edges), "untried": list(untried)}}
    return made


def answer(rows, deployment="k3"):
    fleet = fleet_readiness(rows, {item["host"]: {"deployment": deployment} for item in rows})
    return answers(fleet, "network.peer_tcp")["deployment", "k3"]


def test_every_connection_came_about():
    found = answer([ring_row("a", edge("b")), ring_row("b", edge("a"))])
    assert (found["status"], found["outliers"]) == ("pass", [])
    assert found["observed"] == {"connections": 2, "failed": 0, "not_tried": 0, "held_by_services": 0}


def test_a_port_that_a_service_holds_passes_and_is_told():
    found = answer([ring_row("a", edge("b", "held")), ring_row("b", edge("a"))])
    assert found["status"] == "pass"
    assert "b port 29501" in found["reason"]


def test_who_reaches_nobody_while_others_do_is_blamed_itself():
    rows = [ring_row("a", edge("b"), edge("c")), ring_row("b", edge("a"), edge("c"))]
    rows += [ring_row("c", edge("a", "dropped"), edge("b", "dropped"))]
    assert answer(rows)["outliers"] == ["c"]


@pytest.mark.parametrize("state", ["refused", "dropped", "no_route", "stalled", "foreign", "what a new state says"])
def test_whom_nobody_reaches_is_blamed_and_the_edge_is_named(state):
    found = answer([ring_row("a", edge("b", state)), ring_row("b", edge("a"))])
    assert (found["status"], found["outliers"], found["blocking"]) == ("fail", ["b"], True)
    assert f"a to b port 29501 (rendezvous): it is {state}" in found["reason"]
    assert found["evidence"] == [{"source": "a -> b:29501", "line": f"it is {state}"}]
    assert found["remedy"]["action"]


def test_a_failure_counts_more_than_what_was_not_tried():
    gone = {"peer": "dead", "reason": "it is unreachable"}
    found = answer([ring_row("a", edge("b", "dropped"), untried=[gone]), ring_row("b", edge("a")), ring_row("dead")])
    assert (found["status"], found["outliers"]) == ("fail", ["b"])


def test_a_node_that_could_not_be_tried_is_unknown_and_named():
    gone = {"peer": "dead", "reason": "it is unreachable"}
    found = answer([ring_row("a", untried=[gone]), ring_row("dead")])
    assert found["status"] == "unknown"
    assert "dead" in found["outliers"]
    assert "a -> dead (it is unreachable)" in found["reason"]


def test_a_node_that_took_no_part_is_unknown():
    found = answer([ring_row("a", edge("b")), ring_row("b", edge("a")), row("c")])
    assert (found["status"], found["outliers"]) == ("unknown", ["c"])


@pytest.mark.parametrize("rows", [[row("a"), row("b")], [ring_row("a")]])
def test_without_the_test_or_without_peers_it_does_not_apply(rows):
    fleet = fleet_readiness(rows, {item["host"]: {"deployment": "k3"} for item in rows})
    found = answers(fleet, "network.peer_tcp")["run", "all"]
    assert found["status"] == "not_applicable"
    assert "node_readiness_peer_test" in found["reason"]
