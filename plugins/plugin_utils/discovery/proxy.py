# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A command that stands for a connection (ProxyCommand), as a socket.

paramiko's own keeps a processor busy, and does not notice, when the command has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import HostError, last_words

WAIT_S = 2
# More than a pipe holds.
STDERR_READ = 1 << 20


@contextlib.contextmanager
def through_command(command: str) -> Iterator[socket.socket]:
    """The near end of a socket whose far end is input and output of ``command``, which ends with the context.

    HostError where it cannot be started; one from within is told together with what the command complained of.
    """
    near, far = socket.socketpair()
    with near:
        try:
            with far:
                process = subprocess.Popen(
                    # By a shell, as ssh does.
                    ["/bin/sh", "-c", f"exec {command}"],
                    stdin=far.fileno(),
                    stdout=far.fileno(),
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
        except (OSError, ValueError) as exc:
            raise HostError(f"its ProxyCommand cannot be started: {exc}") from exc
        try:
            yield near
        except HostError as exc:
            raise HostError(f"{exc}{_complaint(process)}") from exc
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stderr is not None:
                process.stderr.close()


def _complaint(process: subprocess.Popen[bytes]) -> str:
    """What the command has written to its error output so far."""
    text = ""
    if process.stderr is not None:
        os.set_blocking(process.stderr.fileno(), False)
        text = last_words(process.stderr.read(STDERR_READ) or b"", 200)
    return f"; its ProxyCommand said: {text}" if text else ""
