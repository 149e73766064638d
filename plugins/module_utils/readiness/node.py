# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The only door to the machine: reads files below a root and runs commands with a time limit. Changes nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact_all

T = TypeVar("T")

READ_LIMIT = 1 << 20
OUTPUT_LIMIT = 8 << 20
# Administration tools stand outside the PATH of an unprivileged login.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Result:
    """What a command did. ``error`` is None when it ran to its end, else ``missing``, ``timeout``, ``not started``."""

    argv: tuple[str, ...]
    rc: int = 0
    stdout: str = ""
    stderr: str = ""
    error: str | None = None
    detail: str = ""

    @property
    def source(self) -> str:
        """The command line as evidence."""
        return " ".join(self.argv)

    @property
    def ok(self) -> bool:
        """It ran to its end and said 0."""
        return self.error is None and self.rc == 0

    def unknown(self) -> Unknown:
        """Why this command gave no answer."""
        if self.error == "missing":
            return Unknown(f"{self.argv[0]} is not installed", self.source)
        if self.error == "timeout":
            return Unknown(f"`{self.source}` gave no answer within {self.detail}", self.source)
        if self.error:
            return Unknown(f"`{self.source}` could not be started: {self.detail}", self.source)
        text = (self.stderr.strip() or self.stdout.strip()).splitlines()
        # Redacted before it is cut: half a secret has no sign of being one.
        said = redact_all(text[-1], 200) if text else "nothing"
        return Unknown(f"`{self.source}` ended with {self.rc} and said: {said}", self.source)


class Node:
    """One OS image. What a file holds and a command says is asked once and remembered, whichever concern asks first."""

    def __init__(self, root: str = "/", timeout: float = 20.0) -> None:
        self.root = root.rstrip("/")
        self.timeout = timeout
        # The contract this node is asked about: it names paths only a collector can measure. Empty outside a probe.
        self.require: dict[str, Any] = {}
        self._memory: dict[Any, Any] = {}
        self._locks: dict[Any, threading.Lock] = {}
        self._guard = threading.Lock()

    # ---- files -------------------------------------------------------------------------------------------------

    def path(self, path: str) -> str:
        """The absolute ``path`` of the node as a path of this process."""
        return self.root + path

    def read(self, path: str, limit: int = READ_LIMIT) -> str | Unknown | None:
        """The text of a file (at most ``limit`` bytes), None where there is none, Unknown where it cannot be read."""

        def load() -> str | Unknown | None:
            try:
                data = self._bytes(path, limit)
            except (OSError, ValueError) as exc:
                return self._no_file(path, exc)
            return data.decode("utf-8", "replace")

        return self.once(("read", path, limit), load)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes | Unknown | None:
        """As read(), undecoded: PCI configuration space, VPD, EFI variables."""

        def load() -> bytes | Unknown | None:
            try:
                return self._bytes(path, limit)
            except (OSError, ValueError) as exc:
                return self._no_file(path, exc)

        return self.once(("bytes", path, limit), load)

    def _bytes(self, path: str, limit: int) -> bytes:
        # Non-blocking: a FIFO in the place of a file must not hang the probe.
        handle = os.open(self.path(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = b""
            while len(data) < limit:
                chunk = os.read(handle, limit - len(data))
                if not chunk:
                    break
                data += chunk
        finally:
            os.close(handle)
        return data

    def value(self, path: str) -> str | Unknown | None:
        """The first line of a file, stripped: what one-value files of /sys and /proc hold. Empty becomes Unknown."""
        text = self.read(path, 4096)
        if not isinstance(text, str):
            return text
        line = text.strip("\0 \t\r\n").splitlines()[:1]
        return line[0].strip() if line and line[0].strip() else Unknown(f"{path} is empty", path)

    def listdir(self, path: str) -> list[str] | Unknown | None:
        """The sorted names in a folder, None where there is no such folder."""

        def load() -> list[str] | Unknown | None:
            try:
                return sorted(os.listdir(self.path(path)))
            except (OSError, ValueError) as exc:
                return self._no_file(path, exc)

        return self.once(("list", path), load)

    def readlink(self, path: str) -> str | Unknown | None:
        """The target text of a symbolic link, None where there is none."""
        try:
            return os.readlink(self.path(path))
        except OSError as exc:
            if exc.errno == errno.EINVAL:
                return None
            return self._no_file(path, exc)

    def exists(self, path: str) -> bool | Unknown:
        """Whether something stands at ``path``; Unknown where the folder may not be searched."""
        try:
            os.stat(self.path(path))
        except (OSError, ValueError) as exc:
            missing = self._no_file(path, exc)
            return False if missing is None else missing
        return True

    @staticmethod
    def _no_file(path: str, exc: Exception) -> Unknown | None:
        number = getattr(exc, "errno", None)
        if number in (errno.ENOENT, errno.ENOTDIR):
            return None
        if number in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
            return Unknown("needs root", path)
        return Unknown("{} cannot be read: {}".format(path, getattr(exc, "strerror", None) or exc), path)

    # ---- the machine -------------------------------------------------------------------------------------------

    def machine(self) -> str:
        """The architecture as the kernel names it: x86_64, aarch64. Kernels before 6.1 tell it by uname only."""
        told = self.value("/proc/sys/kernel/arch")
        return told if isinstance(told, str) else os.uname().machine

    def kernel(self) -> str:
        """The release of the running kernel."""
        told = self.value("/proc/sys/kernel/osrelease")
        return told if isinstance(told, str) else os.uname().release

    def page_size(self) -> int:
        """Bytes; 65536 on a 64k Grace kernel."""
        return os.sysconf("SC_PAGE_SIZE")

    def is_root(self) -> bool:
        """Whether this process may read what only root may."""
        return os.geteuid() == 0

    # ---- commands ----------------------------------------------------------------------------------------------

    def find(self, program: str) -> str | None:
        """Where a program is, None where it is not installed; looking first spares a fork for each that is not."""
        if "/" in program:
            return program if os.path.exists(program) else None
        for folder in SEARCH_PATH.split(":"):
            path = f"{folder}/{program}"
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
        return None

    def run(self, argv: list[str], timeout: float | None = None) -> Result:
        """Run ``argv`` (no shell) at most ``timeout`` seconds (default: the node's); never raises."""
        key = ("run", tuple(argv))
        return self.once(key, lambda: self.execute(tuple(argv), timeout or self.timeout))

    def execute(self, argv: tuple[str, ...], timeout: float) -> Result:
        """Run a command now. Its process group is killed at the limit; one that cannot be killed is left behind."""
        program = self.find(argv[0])
        if program is None:
            return Result(argv, 127, error="missing")
        env = {"PATH": SEARCH_PATH, "LC_ALL": "C", "LANG": "C", "HOME": os.environ.get("HOME", "/")}
        try:
            # AnsibleModule.run_command() has no time limit that a hung command keeps.
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                (program, *argv[1:]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd="/",
                start_new_session=True,
            )
        except FileNotFoundError:
            return Result(argv, 127, error="missing")
        except (OSError, ValueError) as exc:
            return Result(argv, 126, error="not started", detail=getattr(exc, "strerror", None) or str(exc))
        deadline = time.monotonic() + timeout
        output = _drain(process, deadline)
        finished = output is not None and _reap(process, deadline)
        if not finished:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            # A process in uninterruptible sleep does not die; waiting for it would hang the probe as well.
            _reap(process, time.monotonic() + 1.0)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        if not finished or output is None:
            return Result(argv, 124, error="timeout", detail=f"{timeout:g} s")
        return Result(argv, process.returncode, output[0], output[1])

    # ---- memory ------------------------------------------------------------------------------------------------

    def once(self, key: Any, load: Callable[[], T]) -> T:
        """The value of ``load()``, computed once per ``key`` however many threads ask."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._memory:
                self._memory[key] = load()
            return self._memory[key]


def _drain(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, str] | None:
    """Both outputs up to the limit each, or None when the deadline came first. Output past the limit is discarded."""
    buffers: dict[int, list[bytes]] = {1: [], 2: []}
    sizes = {1: 0, 2: 0}
    with selectors.DefaultSelector() as selector:
        for number, pipe in ((1, process.stdout), (2, process.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, number)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            for ready, _mask in selector.select(remaining):
                chunk = os.read(ready.fd, 65536)
                if not chunk:
                    selector.unregister(ready.fileobj)
                elif sizes[ready.data] < OUTPUT_LIMIT:
                    buffers[ready.data].append(chunk)
                    sizes[ready.data] += len(chunk)
    return tuple(b"".join(buffers[number]).decode("utf-8", "replace") for number in (1, 2))  # type: ignore[return-value]


def _reap(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait for the end of the process until the deadline; whether it ended."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True
