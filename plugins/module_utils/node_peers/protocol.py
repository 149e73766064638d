# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a test listener and its peer say to each other: small and large messages, each proved by the listener's token.

A request: 16 random bytes, the payload's length (4 bytes, big-endian), the payload. The answer: the HMAC-SHA256 of all
of it under the token, then the payload. So another service on the port is told from ours, and packets of full size
have to pass in both directions.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import socket
import struct
import time
from typing import Callable

CHALLENGE = 16
PROOF = hashlib.sha256().digest_size
# More than any MTU in use (9000) several times over, so that full packets are on the way whatever it is.
LARGE = 65536
# In the place of a length: the listener shall end. Its proof follows.
END = 0xFFFFFFFF

OK = "ok"
HELD = "held"
FOREIGN = "foreign"
REFUSED = "refused"
DROPPED = "dropped"
NO_ROUTE = "no_route"
STALLED = "stalled"
ERROR = "error"


def proof(token: str, *parts: bytes) -> bytes:
    """What only the holder of the token can say of these bytes."""
    return hmac.new(token.encode(), b"".join(parts), hashlib.sha256).digest()


def receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Exactly ``size`` bytes; raises OSError where they do not come in time or the other side ends first."""
    data = bytearray()
    while len(data) < size:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise socket.timeout("timed out")
        connection.settimeout(remaining)
        chunk = connection.recv(min(65536, size - len(data)))
        if not chunk:
            raise ConnectionResetError(errno.ECONNRESET, "the other side closed")
        data += chunk
    return bytes(data)


def serve(connection: socket.socket, token: str, seconds: float, stop: Callable[[], None]) -> bool:
    """Answer one request; whether it was an order to end, obeyed by ``stop()``. Raises OSError as receive()."""
    deadline = time.monotonic() + seconds
    head = receive(connection, CHALLENGE + 4, deadline)
    challenge, length = head[:CHALLENGE], struct.unpack(">I", head[CHALLENGE:])[0]
    if length == END:
        if not hmac.compare_digest(receive(connection, PROOF, deadline), proof(token, b"end", challenge)):
            return False
        stop()
        connection.sendall(proof(token, b"ended", challenge))
        _await_close(connection, deadline)
        return True
    if length > LARGE:
        raise OSError(errno.EMSGSIZE, "the request is longer than any of ours")
    payload = receive(connection, length, deadline)
    connection.settimeout(max(0.1, deadline - time.monotonic()))
    connection.sendall(proof(token, challenge, payload) + payload)
    _await_close(connection, deadline)
    return False


def _await_close(connection: socket.socket, deadline: float) -> None:
    """The caller closes first, so that no part of the answer is lost by our reset."""
    with contextlib.suppress(OSError):
        receive(connection, 1, deadline)


def end(address: str, port: int, token: str, timeout: float) -> bool:
    """Order the listener to end; whether there was one to order."""
    challenge = os.urandom(CHALLENGE)
    try:
        with socket.create_connection((address, port), timeout) as connection:
            connection.sendall(challenge + struct.pack(">I", END) + proof(token, b"end", challenge))
            told = receive(connection, PROOF, time.monotonic() + timeout)
            return hmac.compare_digest(told, proof(token, b"ended", challenge))
    except OSError:
        return False


def attempt(address: str, port: int, token: str | None, timeout: float, source: str = "") -> tuple[str, str]:
    """(state, detail) of one port of a peer, within four times ``timeout`` seconds.

    ``token``: None where another service holds the port; then a connection is all that can be tried.
    """
    try:
        connection = _connect(address, port, timeout, source)
    except OSError as exc:
        return _refusal(exc, timeout)
    if token is None:
        connection.close()
        return HELD, "a connection came about; another service holds the port, so full packets were not tried"
    answer = _exchange(connection, token, b"", timeout)
    if answer is not None:
        return FOREIGN, f"something answers that is not the peer's test listener ({answer})"
    try:
        connection = _connect(address, port, timeout, source)
    except OSError as exc:
        return _refusal(exc, timeout)
    answer = _exchange(connection, token, os.urandom(LARGE), timeout)
    if answer is not None:
        return STALLED, f"small packets pass and full ones do not ({answer}): an MTU on the way is smaller"
    return OK, "small and full packets pass both ways"


def _connect(address: str, port: int, timeout: float, source: str) -> socket.socket:
    return socket.create_connection((address, port), timeout, (source, 0) if source else None)


def _exchange(connection: socket.socket, token: str, payload: bytes, timeout: float) -> str | None:
    """None where the answer is right, else what was wrong with it."""
    deadline = time.monotonic() + timeout
    challenge = os.urandom(CHALLENGE)
    with connection:
        try:
            connection.settimeout(timeout)
            connection.sendall(challenge + struct.pack(">I", len(payload)) + payload)
            answer = receive(connection, PROOF + len(payload), deadline)
        except socket.timeout:
            return f"no answer within {timeout:g} s"
        except OSError as exc:
            return str(exc.strerror or exc)
    right = hmac.compare_digest(answer[:PROOF], proof(token, challenge, payload)) and answer[PROOF:] == payload
    return None if right else "the answer is not the right one"


def _refusal(exc: OSError, timeout: float) -> tuple[str, str]:
    """What an attempt to connect that failed says of the way."""
    if isinstance(exc, socket.timeout) or exc.errno == errno.ETIMEDOUT:
        return DROPPED, f"no answer within {timeout:g} s: packets are dropped on the way or by a firewall"
    if exc.errno == errno.ECONNREFUSED:
        return REFUSED, "refused although the peer listens: a firewall rejects it, or another machine has the address"
    if exc.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM):
        return NO_ROUTE, f"{exc.strerror}: no route, or a firewall rejects it"
    return ERROR, str(exc.strerror or exc)
