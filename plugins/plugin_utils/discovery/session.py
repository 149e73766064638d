# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One SSH session with one host: reach it, know it, log in, let it read the script, take what it says. All in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

try:
    import paramiko
    from paramiko.ssh_exception import IncompatiblePeer
except ImportError:
    paramiko = None  # type: ignore[assignment]  # see library.py

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact_all
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import HostError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.frames import ANSWER_LIMIT
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.identities import agent_keys
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.known_hosts import KnownHosts
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.proxy import through_command
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.script import COMMAND

ERRORS_KEPT = 256 << 10
POLL_S = 0.25


@dataclass(frozen=True)
class Limits:
    """Seconds for: the TCP connection, the server's first words and key exchange, login, one command, all of a host."""

    connect: float = 10
    banner: float = 10
    auth: float = 15
    command: int = 20
    session: float = 60


@dataclass(frozen=True)
class Address:
    """Where a host is and who comes: what the session needs to know of it.

    ``key_name``: as known_hosts spells the host, with its port.
    """

    host: str
    port: int
    user: str
    known_hosts: KnownHosts
    key_name: str
    keys: Sequence[Any] = ()
    use_agent: bool = True
    password: str | None = field(default=None, repr=False)
    proxy_command: str | None = None


@dataclass(frozen=True)
class Said:
    """What the host said. ``ended``: why it was not heard to the end, empty where it was."""

    output: bytes
    errors: bytes
    status: int | None
    ended: str = ""


def exchange(address: Address, script: bytes, limits: Limits) -> Said:
    """Have the host's /bin/sh read ``script``. HostError where that did not come about."""
    deadline = time.monotonic() + limits.session
    with _connection(address, limits) as connection:
        transport = paramiko.Transport(connection)
        transport.daemon = True
        transport.banner_timeout = limits.banner
        transport.handshake_timeout = limits.banner
        transport.auth_timeout = limits.auth
        # Some waits of the library know no limit; closing ends every one of them.
        watchdog = threading.Timer(max(0.1, deadline - time.monotonic()) + 1, transport.close)
        watchdog.daemon = True
        watchdog.start()
        try:
            _handshake(transport, address, limits)
            _log_in(transport, address, limits)
            return _converse(transport, script, limits, deadline)
        finally:
            watchdog.cancel()
            transport.close()


def _connection(address: Address, limits: Limits) -> contextlib.AbstractContextManager[Any]:
    """A socket that leads to the host. HostError where there is none."""
    return through_command(address.proxy_command) if address.proxy_command else _direct(address, limits)


@contextlib.contextmanager
def _direct(address: Address, limits: Limits) -> Iterator[Any]:
    where = f"{address.host} port {address.port}"
    try:
        connection = socket.create_connection((address.host, address.port), limits.connect)
    except TimeoutError as exc:
        raise HostError(f"unreachable: no connection to {where} within {limits.connect:g} s") from exc
    except socket.gaierror as exc:
        raise HostError(f"unreachable: the name {address.host} cannot be resolved ({exc.strerror})") from exc
    except (OSError, UnicodeError) as exc:
        raise HostError(f"unreachable: no connection to {where} ({getattr(exc, 'strerror', None) or exc})") from exc
    with contextlib.closing(connection):
        yield connection


def _handshake(transport: Any, address: Address, limits: Limits) -> None:
    """Agree upon keys, and know the host by its own."""
    _prefer(transport, address.known_hosts.key_types(address.key_name))
    try:
        transport.start_client(timeout=2 * limits.banner)
        key = transport.get_remote_server_key()
    except IncompatiblePeer as exc:
        raise HostError(f"it and paramiko have no way of encryption in common ({exc})") from exc
    except (paramiko.SSHException, OSError, EOFError) as exc:
        if "banner" in str(exc).lower() or not transport.remote_version:
            way = "its ProxyCommand runs" if address.proxy_command else f"port {address.port} is open"
            raise HostError(f"{way}, but no SSH server answered within {limits.banner:g} s ({_text(exc)})") from exc
        raise HostError(f"the SSH server broke off before login ({_text(exc)})") from exc
    address.known_hosts.check(address.key_name, key)


def _prefer(transport: Any, types: Sequence[str]) -> None:
    """Ask for a host key of a known type first: another type would look like a changed key."""
    options = transport.get_security_options()
    wanted = [
        name for known in types for name in (("rsa-sha2-512", "rsa-sha2-256") if known == "ssh-rsa" else (known,))
    ]
    offered = list(options.key_types)
    options.key_types = [name for name in wanted if name in offered] + [name for name in offered if name not in wanted]


def _log_in(transport: Any, address: Address, limits: Limits) -> None:
    """Try the keys, then the password. HostError names what was tried, never the password."""
    tried: list[str] = []
    last: Exception | None = None
    with agent_keys(address.use_agent) as from_agent:
        ways = [("key", key) for key in (*address.keys, *from_agent)]
        if address.password is not None:
            ways.append(("password", address.password))
        for kind, secret in ways:
            try:
                if kind == "key":
                    tried.append(f"{secret.get_name()} {secret.fingerprint}")
                    transport.auth_publickey(address.user, secret)
                else:
                    tried.append("the password")
                    transport.auth_password(address.user, secret)
            except (paramiko.SSHException, OSError, EOFError) as exc:
                last = exc
            if transport.is_authenticated():
                return
            if not transport.is_active() or "timeout" in str(last).lower():
                break
    if last is not None and "timeout" in str(last).lower():
        raise HostError(f"it gave no answer to the login of {address.user} within {limits.auth:g} s") from last
    if not tried:
        raise HostError(f"no key, agent or password is there to log in with as {address.user}")
    allowed = [name for name in getattr(last, "allowed_types", ()) if name]
    takes = f"; it takes {' and '.join(allowed)}" if allowed else ""
    raise HostError(f"it let {address.user} in with none of: {', '.join(tried)}{takes}") from last


def _converse(transport: Any, script: bytes, limits: Limits, deadline: float) -> Said:
    try:
        channel = transport.open_session(timeout=max(0.1, deadline - time.monotonic()))
        channel.exec_command(COMMAND)
        channel.settimeout(max(0.1, deadline - time.monotonic()))
        with contextlib.suppress(OSError):
            # A login shell that runs nothing has closed its end already; what it said tells.
            channel.sendall(script)
            channel.shutdown_write()
    except (paramiko.SSHException, OSError, EOFError) as exc:
        if time.monotonic() >= deadline:
            raise HostError(f"after login it gave no answer within the {limits.session:g} s of a session") from exc
        raise HostError(f"after login it ran no command ({_text(exc)})") from exc
    return _listen(channel, limits, deadline)


def _listen(channel: Any, limits: Limits, deadline: float) -> Said:
    """Everything up to the end of the output, the end of the time, or more than any answer has."""
    output, errors = bytearray(), bytearray()
    ended = ""
    channel.settimeout(POLL_S)
    while not ended:
        try:
            data = channel.recv(65536)
            output += data
            if not data:
                break
        except TimeoutError:
            pass
        while channel.recv_stderr_ready():
            errors += channel.recv_stderr(65536)
            del errors[ERRORS_KEPT:]
        if time.monotonic() >= deadline:
            ended = f"the session's {limits.session:g} s were over"
        elif len(output) > ANSWER_LIMIT:
            raise HostError(f"it says more than {ANSWER_LIMIT >> 20} MiB, which is no answer to the script")
    if not ended:
        channel.status_event.wait(2)
    while channel.recv_stderr_ready() and len(errors) < ERRORS_KEPT:
        errors += channel.recv_stderr(65536)
    status = channel.exit_status if channel.status_event.is_set() and channel.exit_status >= 0 else None
    return Said(bytes(output), bytes(errors), status, ended)


def _text(exc: Exception) -> str:
    return str(redact_all(" ".join(str(exc).split()), 200)) or type(exc).__name__
