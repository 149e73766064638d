# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The test of a deployment's ports between nodes that are this machine under several addresses."""

from __future__ import annotations

import socket

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import DEAD, LOCAL

ASKED = {"node_readiness_peer_test": True, "node_readiness_peer_timeout": 1, "k3_deployment": "k3-a"}
TRY = "Try the neighbours in the ring of the deployment"


def ring(*names, port):
    """Hosts on 127.5.5.1, 127.5.5.2, …"""
    return {
        name: {
            **LOCAL,
            **ASKED,
            "node_readiness_peer_address": f"127.5.5.{number}",
            "node_readiness_peer_ports": [port],
        }
        for number, name in enumerate(names, start=1)
    }


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def answer(run, deployment="k3-a"):
    return next(
        check
        for check in run.report()["fleet"]["checks"]
        if check["id"] == "network.peer_tcp" and check["scope"]["name"] == deployment
    )


def nobody_listens(port, *numbers):
    for number in numbers:
        with socket.socket() as client:
            assert client.connect_ex((f"127.5.5.{number}", port)) != 0


@pytest.mark.parametrize("check", [False, True])
def test_the_nodes_of_a_deployment_reach_each_other(play, port, check):
    run = play("probe", ring("a", "b", "c", port=port), check=check)
    found = answer(run)
    assert (found["status"], found["observed"]["connections"]) == ("pass", 6)
    nobody_listens(port, 1, 2, 3)


def test_a_dead_peer_is_unknown_and_a_service_keeps_its_port(play, port):
    with socket.create_server(("127.5.5.1", port)) as service:
        run = play("probe", {**ring("a", "b", port=port), "dead": {**DEAD, **ASKED}})
        # Nobody but the test has called, and the service still listens.
        service.settimeout(5)
        service.accept()[0].close()
    found = answer(run)
    assert (found["status"], "dead" in found["outliers"]) == ("unknown", True)
    assert found["observed"]["held_by_services"] == 1
    nobody_listens(port, 1, 2)


def test_an_address_that_is_another_machines_is_named(play, port):
    hosts = ring("a", "b", port=port)
    hosts["b"]["node_readiness_peer_address"] = "192.0.2.7"
    found = answer(play("probe", hosts))
    assert (found["status"], "b" in found["outliers"]) == ("unknown", True)
    assert "nothing can listen on 192.0.2.7" in found["reason"]
    nobody_listens(port, 1)


def test_without_being_asked_for_nothing_listens(play, port):
    hosts = ring("a", "b", port=port)
    run = play("probe", hosts, {"node_readiness_peer_test": False})
    assert not run.started(TRY)
    assert answer(run, "all")["status"] == "not_applicable"


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("node_readiness_peer_ports", [0], "a list of ports"),
        ("node_readiness_peer_ports", "29500", "a list of ports"),
        ("node_readiness_peer_timeout", 0, "above 0 and at most 60"),
        ("node_readiness_peer_address", "gpu-01", "an IPv4 or IPv6 address"),
        ("node_readiness_peer_test", "perhaps", "true or false"),
    ],
)
def test_wrong_input_is_refused_before_any_node_is_asked(play, port, variable, value, allowed):
    hosts = ring("a", "b", port=port)
    hosts["b"][variable] = value
    run = play("probe", hosts)
    assert run.rc == 2
    assert not run.started("Probe the node")
    (told,) = run.results("Refuse wrong input before any node is contacted").values()
    assert f"host b: {variable}: " in told["msg"]
    assert allowed in told["msg"]
