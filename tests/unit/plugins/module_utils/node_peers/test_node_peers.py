# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""With real sockets and processes, on addresses of the loopback that nobody else uses."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers import listener, ports, protocol, steps

ADDRESS = "127.6.6.6"
SHORT = 0.5


def free_port():
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]


def bindable(port):
    with socket.socket() as service:
        try:
            service.bind((ADDRESS, port))
        except OSError:
            return False
        return True


@pytest.fixture
def listening():
    """listening(ports): the answer of the listen step; ended afterwards."""
    started = []

    def listen(wanted, seconds=20):
        told = steps.listen(ADDRESS, wanted, seconds)
        started.append(told)
        return told

    yield listen
    for told in started:
        steps.end(told, SHORT)


def tried(told, timeout=SHORT):
    peer = {"name": "b", **told}
    return {edge["port"]: edge["state"] for edge in steps.attempts([peer], timeout, "")}


def test_small_and_full_packets_pass(listening):
    port = free_port()
    told = listening([port])
    assert told["ports"] == {str(port): {"state": "listening", "holder": "", "purpose": ""}}
    assert tried(told) == {port: "ok"}
    assert steps.end(told, SHORT) is True


def test_a_service_that_is_only_starting_keeps_its_port(listening):
    with socket.socket() as service:
        service.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        service.bind((ADDRESS, 0))
        port = service.getsockname()[1]
        told = listening([port, free_port()])
        service.listen()
        assert told["ports"][str(port)]["state"] == "error"
        assert "nobody listens on it" in told["ports"][str(port)]["holder"]


def test_after_its_end_nobody_listens_and_the_port_is_free_at_once(listening):
    port = free_port()
    told = listening([port])
    assert tried(told) == {port: "ok"}
    assert steps.end(told, SHORT)
    deadline = time.monotonic() + 10
    # No TIME_WAIT of a minute: it is free as soon as the process has ended.
    while not bindable(port):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert tried(told) == {port: "refused"}
    assert steps.end(told, SHORT) is False


def test_the_listener_ends_by_itself(listening):
    port = free_port()
    told = listening([port], seconds=1)
    deadline = time.monotonic() + 10
    while tried(told) == {port: "ok"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert tried(told) == {port: "refused"}


def test_a_port_that_a_service_holds_stays_its_own(listening):
    with socket.create_server((ADDRESS, 0)) as service:
        port = service.getsockname()[1]
        told = listening([port, other := free_port()])
        assert told["ports"][str(port)]["state"] == "held"
        assert tried(told) == {port: "held", other: "ok"}


def test_who_holds_a_port_is_named(listening):
    code = (
        "import socket, sys\n"
        f"server = socket.create_server(('{ADDRESS}', 0))\n"
        "print(server.getsockname()[1], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as service:
        port = int(service.stdout.readline())
        assert "python" in ports.holder(port)
        service.stdin.close()


def test_another_token_is_another_listener(listening):
    port = free_port()
    told = listening([port])
    assert tried({**told, "token": "0" * 32}) == {port: "foreign"}
    # And nobody without it ends the listener.
    protocol.end(ADDRESS, port, "0" * 32, SHORT)
    assert tried(told) == {port: "ok"}


@pytest.mark.parametrize("sent", [b"", b"\0" * 20, b"GET / HTTP/1.1\r\n\r\n", b"x" * 16 + struct.pack(">I", 1 << 31)])
def test_strangers_do_not_disturb_it(listening, sent):
    port = free_port()
    told = listening([port])
    with socket.create_connection((ADDRESS, port), SHORT) as stranger:
        stranger.sendall(sent)
        assert tried(told) == {port: "ok"}


def test_many_silent_strangers_do_not_hold_it_up(listening):
    port = free_port()
    told = listening([port])
    strangers = [socket.create_connection((ADDRESS, port), 5) for _number in range(100)]
    assert tried(told) == {port: "ok"}
    for stranger in strangers:
        stranger.close()


def test_a_peer_that_takes_small_packets_only_is_stalled():
    """A double of a way that loses full packets: it answers the small request and nothing of the large one."""
    token = "t"
    with socket.create_server((ADDRESS, 0)) as server:

        def answer():
            for _number in range(2):
                connection, _peer = server.accept()
                head = protocol.receive(connection, 20, time.monotonic() + 5)
                if struct.unpack(">I", head[16:])[0] == 0:
                    connection.sendall(protocol.proof(token, head[:16], b""))
                    connection.close()
                else:
                    time.sleep(2 * SHORT)
                    connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        state, detail = protocol.attempt(ADDRESS, server.getsockname()[1], token, SHORT)
        thread.join()
    assert state == "stalled"
    assert "MTU" in detail


def test_a_full_queue_looks_like_dropped_packets():
    with socket.create_server((ADDRESS, 0), backlog=0) as server:
        waiting = []
        for _number in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(server.getsockname())
            waiting.append(client)
        assert protocol.attempt(*server.getsockname(), "t", SHORT)[0] == "dropped"
        for client in waiting:
            client.close()


def test_an_address_that_is_not_this_nodes_is_refused():
    with pytest.raises(steps.PeerError, match="nothing can listen on"):
        steps.listen("192.0.2.1", [29501], 5)


def test_the_ports_of_a_deployment(monkeypatch, tmp_path):
    assert ports.of_node([5, 5, 3]) == [3, 5]
    monkeypatch.setattr(ports, "IMEX_FOLDERS", (str(tmp_path / "none"),))
    assert ports.of_node([]) == [5600, 29500, 29501, 29550]
    monkeypatch.setattr(ports, "IMEX_FOLDERS", (str(tmp_path),))
    assert ports.of_node([]) == [5600, 29500, 29501, 29550, 50000]


def test_a_killed_parent_leaves_no_listener_behind():
    port = free_port()
    sockets, closed = listener.open_ports(ADDRESS, [port])
    assert not closed
    listener.detach(sockets, "t", 1)
    assert protocol.attempt(ADDRESS, port, "t", SHORT)[0] == "ok"
    time.sleep(1.5)
    assert protocol.attempt(ADDRESS, port, "t", SHORT)[0] == "refused"
