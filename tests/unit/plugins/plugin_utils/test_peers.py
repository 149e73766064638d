# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import peers

PORT = {"state": "listening", "holder": "", "purpose": "NIXL"}


def listening(address="10.0.0.1", ports=("5600",)):
    return {"listening": {"address": address, "token": "t", "ports": dict.fromkeys(ports, PORT), "more": 1}}


EDGE = {"peer": "b", "address": "10.0.0.2", "port": 5600, "purpose": "NIXL", "state": "ok", "detail": "fine"}


def node(deployment="d", **other):
    return {"deployment": deployment, "result": listening(), **other}


def each_somewhere(hosts):
    """Nodes of one deployment, each at an address of its own."""
    return {host: node(result=listening(f"10.0.0.{number}")) for number, host in enumerate(sorted(hosts), 1)}


def peer(*ports):
    return {"name": "b", "address": "10.0.0.2", "token": "t", "ports": dict.fromkeys(ports or ("5600",), PORT)}


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
    found = peers.plan(each_somewhere(hosts))
    assert names(found) == expected
    assert not any(found["untried"].values())


def test_a_ring_does_not_leave_its_deployment():
    found = peers.plan(
        {
            "a": node("x"),
            "b": node("y"),
            "c": node("x", result=listening("10.0.0.3")),
            "d": node(None),
        }
    )
    assert names(found) == {"a": ["c"], "b": [], "c": ["a"], "d": []}


def test_only_what_the_test_needs_is_handed_on():
    assert peers.plan(each_somewhere("ab"))["peers"]["a"] == [peer()]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "it did not listen in this step (another batch, or node_readiness_peer_test is off there)"),
        ({"unreachable": True, "msg": "gone"}, "it is unreachable"),
        ({"failed": True, "msg": "Task failed: no route\nmore"}, "it could not listen: no route"),
        ({"listening": "here"}, "it could not listen: no reason was given"),
        (listening(ports=()), "it listens on no port"),
        *[
            ({"listening": {**listening()["listening"], **wrong}}, "its answer has not the form of a listener's")
            for wrong in (
                {"address": 1},
                {"address": "0.0.0.0"},
                {"address": "224.0.0.1"},
                {"address": "gpu-02"},
                {"token": None},
                {"ports": ["5600"]},
                {"ports": {"abc": PORT}},
                {"ports": {"65536": PORT}},
                {"ports": {"5600": {}}},
                {"ports": {"5600": {**PORT, "state": "open"}}},
                {"ports": {str(port): PORT for port in range(1, 70)}},
            )
        ],
    ],
)
def test_who_does_not_listen_is_not_tried_and_named(result, reason):
    found = peers.plan({"a": node(), "b": node(result=result)})
    assert names(found) == {"a": [], "b": ["a"]}
    assert found["untried"] == {"a": [{"peer": "b", "reason": reason}], "b": []}


def test_two_names_of_one_machine_prove_nothing():
    found = peers.plan({"a": node(), "b": node(), "c": node(result=listening("10.0.0.3"))})
    assert names(found) == {"a": ["c"], "b": ["c"], "c": []}
    assert found["untried"]["c"] == [
        {"peer": "a", "reason": "it has the address 10.0.0.1, as b has"},
        {"peer": "b", "reason": "it has the address 10.0.0.1, as a has"},
    ]


def test_what_a_node_saw_stands_in_its_row():
    assert peers.facts({"edges": [EDGE]}, [peer()], []) == {"edges": [EDGE], "untried": []}


def test_what_a_node_does_not_tell_of_was_not_tried():
    assert peers.facts({"edges": []}, [peer()], []) == {
        "edges": [],
        "untried": [{"peer": "b", "reason": "port 5600: the answer from here does not tell of it"}],
    }


def test_a_listener_that_had_ended_proves_nothing_and_neither_does_a_port_nobody_could_open():
    edges = [
        {**EDGE, "state": "refused"},
        {**EDGE, "port": 1, "state": "error", "detail": "in use"},
        {**EDGE, "port": 2},
    ]
    assert peers.facts({"edges": edges}, [peer("5600", "1", "2")], [], {"b"}) == {
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
        ({"edges": [{**EDGE, "peer": "z"}]}, "no reason was given"),
        ({"edges": [{**EDGE, "address": "10.0.0.9"}]}, "no reason was given"),
        ({"edges": [{**EDGE, "state": "banana"}]}, "no reason was given"),
        ({"edges": [EDGE] * 2}, "no reason was given"),
    ],
)
def test_a_node_that_did_not_answer_tried_nobody(result, why):
    earlier = {"peer": "c", "reason": "it is unreachable"}
    assert peers.facts(result, [peer()], [earlier]) == {
        "edges": [],
        "untried": [earlier, {"peer": "b", "reason": f"the attempt from here failed: {why}"}],
    }
