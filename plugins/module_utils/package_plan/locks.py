# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who is using the package manager at this moment, and waiting for it; no lock is ever broken (C09)."""

from __future__ import annotations

import fcntl
import os
import struct
import time

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError

_LOCKED = {
    "apt": ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"),
    "dnf": ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock"),
}
_NUMBERED = {"apt": (), "dnf": ("/var/lib/dnf/rpmdb_lock.pid",)}
# struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = "hhqqi4x"


def holder(family: str) -> str | None:
    """``unattended-upgr (process 5043)``, None where nobody uses it."""
    for path in _LOCKED[family]:
        number = _locked_by(path)
        if number is not None:
            return _described(number)
    for path in _NUMBERED[family]:
        try:
            with open(path, encoding="utf-8") as handle:
                number = int(handle.read().strip() or 0)
        except (OSError, ValueError):
            continue
        if number and _lives(number):
            return _described(number)
    return None


def wait(family: str, seconds: int) -> None:
    """Return as soon as nobody uses the package manager; PlanError names who did until the end of ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        who = holder(family)
        if who is None:
            return
        if time.monotonic() >= deadline:
            raise PlanError(
                f"the package manager is in use by {who}, waited {seconds} s; nothing was changed. Let it finish and "
                "run this again, or raise lock_timeout"
            )
        time.sleep(min(1.0, max(0.05, deadline - time.monotonic())))


def _locked_by(path: str) -> int | None:
    """The process that holds a lock on a file, 0 for one of another namespace, None where nobody does."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _whence, _start, _length, number = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, asked))
    except OSError:
        return None
    finally:
        os.close(handle)
    return None if kind == fcntl.F_UNLCK else number


def _lives(number: int) -> bool:
    """Whether a process is there and not merely waiting to be taken off the list."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as handle:
            return handle.read().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def _described(number: int) -> str:
    try:
        with open(f"/proc/{number}/comm", encoding="utf-8", errors="replace") as handle:
            return f"{handle.read().strip()} (process {number})"
    except OSError:
        return f"process {number}" if number else "a process that cannot be seen from here"
