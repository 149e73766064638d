# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The three steps of the peer test on a node: listen, try the peers, end."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers import listener, ports, protocol
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns.network import (
    default_interface,
    interfaces,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# Attempts at a time: a deployment has two peers a node and a handful of ports.
ATTEMPTS = 16


class PeerError(ValueError):
    """The test cannot be made on this node; the message says why."""


def own_address(node: Node, interface: str) -> tuple[str, str]:
    """(address, interface): the first address of the declared interface, else of the default route's.

    IPv4 before IPv6. Raises PeerError.
    """
    name = interface or default_interface(node)
    found = interfaces(node)
    for unread in (name, found):
        if isinstance(unread, Unknown):
            raise PeerError(f"the data interface is not known: {unread.reason}")
    if not name or not isinstance(found, dict):
        raise PeerError("no interface is declared (k3_data_interface), and this node has no default route")
    if name not in found:
        has = ", ".join(sorted(found))
        raise PeerError(f"k3_data_interface: {name} is not an interface of this node; it has {has}")
    addresses = sorted(found[str(name)]["addresses"], key=lambda address: ":" in address)
    if not addresses:
        raise PeerError(f"interface {name} has no address")
    return addresses[0], str(name)


def listen(address: str, wanted: list[int], seconds: int) -> dict[str, Any]:
    """``{"address", "token", "ports": {port: {"state", "holder", "purpose"}}}``; listens in a process of its own.

    ``state``: listening, held (by another service) or error. Raises PeerError where the address is not this node's.
    """
    token = secrets.token_hex(16)
    sockets, closed = listener.open_ports(address, ports.of_node(wanted))
    told: dict[str, dict[str, str]] = {}
    for port in sockets:
        told[str(port)] = {"state": listener.LISTENING, "holder": "", "purpose": ports.purpose(port)}
    for port, why in closed.items():
        state = protocol.ERROR if why else protocol.HELD
        told[str(port)] = {"state": state, "holder": why or ports.holder(port), "purpose": ports.purpose(port)}
    if not sockets and all(closed.values()):
        raise PeerError(f"nothing can listen on {address}: {next(iter(closed.values()), 'no port is given')}")
    if sockets:
        listener.detach(sockets, token, seconds)
    return {"address": address, "token": token, "ports": told}


def attempts(peers: list[dict[str, Any]], timeout: float, source: str) -> list[dict[str, Any]]:
    """One entry for each port of each peer: ``{"peer", "address", "port", "purpose", "state", "detail"}``.

    A peer that could not listen is told by the controller, and not tried.
    """

    def one(peer: dict[str, Any], port: str, offered: dict[str, Any]) -> dict[str, Any]:
        entry = {"peer": peer["name"], "address": peer["address"], "port": int(port), "purpose": offered["purpose"]}
        if offered["state"] == protocol.ERROR:
            return {**entry, "state": protocol.ERROR, "detail": f"the peer could not listen: {offered['holder']}"}
        token = peer["token"] if offered["state"] == listener.LISTENING else None
        state, detail = protocol.attempt(peer["address"], int(port), token, timeout, source)
        if state == protocol.HELD and offered["holder"]:
            detail = f"a connection to {offered['holder']} came about, which holds the port"
        return {**entry, "state": state, "detail": detail}

    with ThreadPoolExecutor(ATTEMPTS) as pool:
        running = [
            pool.submit(one, peer, port, offered) for peer in peers for port, offered in sorted(peer["ports"].items())
        ]
        return [task.result() for task in running]


def end(listening: dict[str, Any], timeout: float) -> bool | None:
    """End the listener of this node; whether it was still there, None where it never was."""
    for port, told in sorted(listening.get("ports", {}).items()):
        if told["state"] == listener.LISTENING:
            return protocol.end(listening["address"], int(port), listening["token"], timeout)
    return None
