# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Listens on ports nobody holds, in a process of its own that ends by itself."""

from __future__ import annotations

import collections
import contextlib
import errno
import os
import signal
import socket
import struct
import threading
import time
from typing import Callable

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers.ports import listened_on
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_peers.protocol import serve

LISTENING = "listening"
CONNECTIONS = 64
SECONDS_PER_CONNECTION = 10.0


def open_ports(address: str, ports: list[int]) -> tuple[dict[int, socket.socket], dict[int, str]]:
    """(sockets that listen by port; what kept us from others by port, "" for one that somebody listens on).

    Without SO_REUSEADDR: with it, a service that has bound its port and not begun to listen would lose it to us.
    """
    sockets: dict[int, socket.socket] = {}
    closed: dict[int, str] = {}
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in ports:
        server = socket.socket(family, socket.SOCK_STREAM)
        try:
            server.bind((address, port))
            server.listen(CONNECTIONS)
        except OSError as exc:
            server.close()
            if exc.errno != errno.EADDRINUSE:
                closed[port] = str(exc.strerror or exc)
            else:
                closed[port] = "" if listened_on(port) else "the port is in use, and nobody listens on it"
        else:
            sockets[port] = server
    return sockets, closed


def detach(sockets: dict[int, socket.socket], token: str, seconds: int) -> None:
    """Serve the sockets in a process that nothing waits for, for ``seconds`` at most, and close them in this one."""
    child = os.fork()
    if child == 0:
        # Whatever happens in here, this process never goes back into Ansible's module.
        try:
            os.setsid()
            if os.fork() == 0:
                _stay(sockets, token, seconds)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    for server in sockets.values():
        server.close()


def _stay(sockets: dict[int, socket.socket], token: str, seconds: int) -> None:
    # The kernel ends us, whatever this process is doing then.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    kept = {server.fileno() for server in sockets.values()}
    for number in range(3):
        os.dup2(null, number)
    # An inherited pipe would keep Ansible waiting for its end.
    for number in range(3, 1024):
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)

    def stop() -> None:
        for server in sockets.values():
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    threads = [threading.Thread(target=_accept, args=(server, token, stop)) for server in sockets.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _accept(server: socket.socket, token: str, stop: Callable[[], None]) -> None:
    server.settimeout(None)
    opened: collections.deque[socket.socket] = collections.deque()
    while True:
        try:
            connection, _peer = server.accept()
        except OSError:
            # Told to stop; who told it is being answered, and ends the process.
            time.sleep(SECONDS_PER_CONNECTION)
            return
        # Reset as it closes: a connection that waits to be forgotten would keep a service from its port for a minute.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        opened.append(connection)
        if len(opened) > CONNECTIONS:
            # Idle strangers must not shut a peer out: who came first has had its time.
            with contextlib.suppress(OSError):
                opened.popleft().shutdown(socket.SHUT_RDWR)
        threading.Thread(target=_answer, args=(connection, token, stop), daemon=True).start()


def _answer(connection: socket.socket, token: str, stop: Callable[[], None]) -> None:
    # A stranger's connection is none of our business.
    with contextlib.suppress(OSError), connection:
        if serve(connection, token, SECONDS_PER_CONNECTION, stop):
            os._exit(0)
