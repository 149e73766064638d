# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The door to the node: commands with a time limit, files read and written whole."""

from __future__ import annotations

import contextlib
import os
import shutil

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node, Result

# Asking takes seconds; a repository that does not answer has limits of its own in apt and dnf.
QUESTION = 120.0
# Fetching lists; fetching half a gigabyte of packages.
UPDATE = 600.0
FETCH = 3600.0


class Machine:
    """One node, changed only by write() and remove() and by the commands it is told to run."""

    def __init__(self) -> None:
        self._node = Node()

    def run(self, argv: list[str], timeout: float = QUESTION, env: dict[str, str] | None = None) -> Result:
        """Run a command, in English; never raises. Its process group is killed at the limit (seconds)."""
        words = [f"{name}={value}" for name, value in (env or {}).items()]
        return self._node.execute(("env", *words, *argv) if words else tuple(argv), timeout)

    def ask(self, argv: list[str], timeout: float = QUESTION, env: dict[str, str] | None = None) -> str:
        """The output of a command that must succeed; PlanError says what it said instead."""
        result = self.run(argv, timeout, env)
        if not result.ok:
            raise PlanError(result.unknown().reason)
        return result.stdout

    def find(self, program: str) -> str | None:
        """Where a program is, None where it is not installed."""
        return self._node.find(program)

    @staticmethod
    def read(path: str) -> str | None:
        """The text of a file, None where there is none. Bytes that are no UTF-8 are kept."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as handle:
                return handle.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise PlanError(f"{path} cannot be read: {exc.strerror}") from exc

    @staticmethod
    def write(path: str, text: str, mode: int = 0o644) -> None:
        """Write a file whole or not at all, so that a killed run leaves no half of it."""
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        part = f"{path}.gpufleet-part"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.replace(part, path)
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    @staticmethod
    def remove(path: str) -> None:
        """Remove a file or a folder with what is in it, where it is there."""
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
