# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import peers

LISTENING = {"listening": {"address": "10.0.0.1", "token": "t", "ports": {"5600": {}}, "more": 1}}
EDGE = {"peer": "b", "address": "10.0.0.2", "port": 5600, "purpose": "NIXL", "state": "ok", "detail": "fine"}


def node(deployment="d", **other):
    return {"deployment": deployment, "result": LISTENING, **other}


def names(found):
    return {host: [peer["name"] for peer in them] for host, them in found["peers"].items()}


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ("a", {"a": []}),
        ("ab", {"a": ["b"], "b": ["a"]}),
        ("cab", {"a": ["b", "c"], "b": ["c", "a"], "c": ["a", "b"]}),
        ("dcba", {"a": ["b", "d"], "b": ["c", "a"], "c": ["d", "b"], "d": ["a", "c"]}),
    ],
)
def test_the_nodes_of_a_deployment_form_a_ring(hosts, expected):
    found = peers.plan({host: node() for host in hosts})
    assert names(found) == expected
    assert not any(found["untried"].values())


def test_a_ring_does_not_leave_its_deployment():
    found = peers.plan({"a": node("x"), "b": node("y"), "c": node("x"), "d": node(None)})
    assert names(found) == {"a": ["c"], "b": [], "c": ["a"], "d": []}


def test_only_what_the_test_needs_is_handed_on():
    assert peers.plan({"a": node(), "b": node()})["peers"]["a"] == [
        {"name": "b", "address": "10.0.0.1", "token": "t", "ports": {"5600": {}}}
    ]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "it did not listen in this step (another batch, or node_readiness_peer_test is off there)"),
        ({"unreachable": True, "msg": "gone"}, "it is unreachable"),
        ({"failed": True, "msg": "Task failed: no route\nmore"}, "it could not listen: no route"),
        ({"listening": "here"}, "it could not listen: no reason was given"),
        ({"listening": {"address": 1}}, "its answer has not the form of a listener's"),
    ],
)
def test_who_does_not_listen_is_not_tried_and_named(result, reason):
    found = peers.plan({"a": node(), "b": node(result=result)})
    assert names(found) == {"a": [], "b": ["a"]}
    assert found["untried"] == {"a": [{"peer": "b", "reason": reason}], "b": []}


def test_what_a_node_saw_stands_in_its_row():
    assert peers.facts({"edges": [EDGE]}, [{"name": "b"}], []) == {"edges": [EDGE], "untried": []}


def test_a_listener_that_had_ended_proves_nothing_and_neither_does_a_port_nobody_could_open():
    edges = [
        {**EDGE, "state": "refused"},
        {**EDGE, "port": 1, "state": "error", "detail": "in use"},
        {**EDGE, "port": 2},
    ]
    assert peers.facts({"edges": edges}, [{"name": "b"}], [], {"b"}) == {
        "edges": [edges[2]],
        "untried": [
            {"peer": "b", "reason": "port 5600: its listener had ended by then"},
            {"peer": "b", "reason": "port 1: in use"},
        ],
    }


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, "no reason was given"),
        ({"unreachable": True}, "it is unreachable"),
        ({"failed": True, "msg": "timed out", "edges": [EDGE]}, "timed out"),
        ({"edges": [{**EDGE, "port": True}]}, "no reason was given"),
        ({"edges": "ok"}, "no reason was given"),
    ],
)
def test_a_node_that_did_not_answer_tried_nobody(result, why):
    earlier = {"peer": "c", "reason": "it is unreachable"}
    assert peers.facts(result, [{"name": "b"}], [earlier]) == {
        "edges": [],
        "untried": [earlier, {"peer": "b", "reason": f"the attempt from here failed: {why}"}],
    }
