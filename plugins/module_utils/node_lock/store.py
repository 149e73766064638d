# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The file of the lock: created, replaced and removed as a whole, and never followed elsewhere.

It is kept on the disk and not in /run, which a restart empties: a run that restarts the node goes on afterwards, and
a run that died meanwhile has left a node that nobody should change unawares.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from typing import Callable

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.lock import Lock, LockFault, dumps, loads
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.rules import Decision

NAME = "lock.json"
# One name, since only who holds the folder writes: what a killed process left is overwritten by the next.
FRESH = ".lock.json.new"
LARGEST = 65536
# Seconds to wait for another process that is reading and writing this file, which takes milliseconds.
PATIENCE = 30.0


class LockStore:
    """The lock file in a folder that only its owner may write to. Every method raises LockFault."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.normpath(folder)
        self.path = os.path.join(self.folder, NAME)

    def read(self) -> Lock | None:
        """The lock as it is, None where it is free; changes nothing, and makes no folder."""
        with self._told():
            with self._opened() as directory:
                if directory is not None:
                    return self._lock(directory)
            parent = os.path.dirname(self.folder)
            if not os.path.isdir(parent):
                raise LockFault(f"the folder {parent} is not there, so {self.folder} cannot be made")
            return None

    def change(self, decide: Callable[[Lock | None], Decision], make: bool) -> Decision:
        """Decide upon the lock and do it, while no other process does. make: whether a missing folder is made."""
        with self._told(), self._alone(make) as directory:
            if directory is None:
                return decide(None)
            before = self._lock(directory)
            decision = decide(before)
            if decision.write and decision.lock is not None:
                self._write(directory, decision.lock, replace=before is not None)
            elif decision.remove:
                os.unlink(NAME, dir_fd=directory)
                os.fsync(directory)
            return decision

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the system as sentences."""
        try:
            yield
        except PermissionError as exc:
            raise LockFault(f"{exc.filename or self.path}: {exc.strerror}; the lock needs become: true") from exc
        except OSError as exc:
            raise LockFault(f"the lock {self.path} cannot be used: {exc.strerror}") from exc

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int | None]:
        """The folder, opened and found safe; None where it is missing."""
        try:
            directory = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        except OSError as exc:
            if exc.errno in (errno.ELOOP, errno.ENOTDIR):
                raise LockFault(
                    f"{self.folder} is a link or no folder, and is not followed; look at it and move it away"
                ) from exc
            raise
        try:
            found = os.fstat(directory)
            if found.st_uid != os.geteuid():
                raise LockFault(
                    f"the folder {self.folder} belongs to user {found.st_uid} and not to {os.geteuid()}, who runs this"
                )
            if found.st_mode & 0o022:
                mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
                raise LockFault(
                    f"others may write to the folder {self.folder} ({mode}), so nothing in it can be trusted; "
                    f"look at what is there, then chmod 0700 {self.folder}"
                )
            yield directory
        finally:
            os.close(directory)

    @contextlib.contextmanager
    def _alone(self, make: bool) -> Iterator[int | None]:
        """The folder, while no other process has it; the kernel frees it when this one dies. None: it is missing."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if make:
                self._make()
            with self._opened() as directory:
                if directory is None:
                    if make:
                        continue
                    yield None
                    return
                self._wait(directory, deadline)
                # Between opening and waiting somebody may have put another folder in its place.
                if _same(directory, self.folder):
                    yield directory
                    return

    def _make(self) -> None:
        try:
            os.mkdir(self.folder, 0o700)
        except FileExistsError:
            return
        except FileNotFoundError:
            raise LockFault(
                f"the folder {os.path.dirname(self.folder)} is not there, so {self.folder} cannot be made"
            ) from None
        parent = os.open(os.path.dirname(self.folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)

    def _wait(self, directory: int, deadline: float) -> None:
        while not _got(directory):
            if time.monotonic() > deadline:
                raise LockFault(
                    f"another process has been at work in {self.folder} for {PATIENCE:.0f} s; "
                    f"see who with: fuser -v {self.folder}"
                )
            time.sleep(0.02)

    def _lock(self, directory: int) -> Lock | None:
        """The lock in the file; LockFault for everything that is not a file of ours. It is never deleted here."""
        cure = f"; it was left as it is: look at it, make sure that no run is at work here, then rm {self.path}"
        try:
            # O_NONBLOCK: a pipe of that name must not hang the node's module.
            file = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        except FileNotFoundError:
            return None
        except OSError as exc:
            if exc.errno in (errno.ELOOP, errno.ENXIO):
                raise LockFault(f"the lock {self.path} is a link or no file, and is not followed{cure}") from exc
            raise
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise LockFault(f"the lock {self.path} is no file{cure}")
            if found.st_uid != os.geteuid():
                raise LockFault(f"the lock {self.path} belongs to user {found.st_uid}, not to {os.geteuid()}{cure}")
            if found.st_mode & 0o022:
                mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
                raise LockFault(f"others may write to the lock {self.path} ({mode}), so it cannot be trusted{cure}")
            if found.st_size > LARGEST:
                raise LockFault(f"the lock {self.path} cannot be read: it has {found.st_size} bytes{cure}")
            content = b""
            while len(content) <= LARGEST and (part := os.read(file, LARGEST)):
                content += part
        finally:
            os.close(file)
        try:
            return loads(content)
        except ValueError as exc:
            raise LockFault(f"the lock {self.path} cannot be read: {exc}{cure}") from exc

    def _write(self, directory: int, lock: Lock, replace: bool) -> None:
        """Put the lock in place as a whole, and onto the disk: a node that loses power must still have it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(FRESH, dir_fd=directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(FRESH, flags, 0o600, dir_fd=directory)
        try:
            with open(file, "wb") as stream:
                os.fchmod(file, 0o600)
                stream.write(dumps(lock))
                stream.flush()
                os.fsync(file)
            if replace:
                os.replace(FRESH, NAME, src_dir_fd=directory, dst_dir_fd=directory)
            else:
                # Unlike a rename this never takes the place of a file that came from elsewhere.
                os.link(FRESH, NAME, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(FRESH, dir_fd=directory)
        os.fsync(directory)


def _got(directory: int) -> bool:
    """Whether this process has the folder for itself now."""
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same(directory: int, path: str) -> bool:
    """Whether the opened folder is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(directory), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
