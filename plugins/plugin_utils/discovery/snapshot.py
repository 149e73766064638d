# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node as one session read it, with the door that collectors know: the same code reads it as reads a live node."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import READ_LIMIT, Node, Result
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.pci import DEVICES
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.frames import Record

NOT_ASKED = "not asked by discovery"
# The folder of an RDMA device leads to that of its PCI function.
_DEVICE = re.compile(r"(/sys/class/infiniband/[^/]+/device)/(.+)")
# With which timeout(1) ends: GNU's own status, a killed command, and BusyBox's terminated one.
_TIMED_OUT = ("124", "137", "143")


class NotAskedResult(Result):
    """In place of the result of a command that was not run: neither missing nor failed."""

    def unknown(self) -> Unknown:
        """It was not asked, for this reason."""
        return Unknown(self.detail, self.source)


class SnapshotNode(Node):
    """Serves what was read, and Unknown for everything else: never None, which would mean that it is not there."""

    def __init__(self, records: Sequence[Record], complaints: Sequence[str], limit: float, ended: str = "") -> None:
        """``limit``: seconds that each command had; ``ended``: why the session ended before its end."""
        super().__init__(timeout=limit)
        self.missing_part = Unknown(f"not read: {ended}" if ended else NOT_ASKED)
        self._limited = any(record.kind == "hello" and record.state == "limited" for record in records)
        self._read = {(record.kind, record.key): record for record in records}
        self._links = _links(records)
        runs = [record for record in records if record.kind == "run"]
        self._complaints = {record.key: text for record, text in zip(runs, complaints, strict=False)}

    # ---- files -------------------------------------------------------------------------------------------------

    def read(self, path: str, limit: int = READ_LIMIT) -> str | Unknown | None:
        """The first line of a file, where discovery asked for it."""
        record = self._read.get(("file", self._resolved(path)))
        if record is None:
            return self._not_read(path)
        if record.state == "read":
            return record.text + "\n" if record.data else ""
        return None if record.state == "absent" else self._denied(path)

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes | Unknown | None:
        """The bytes of a file, where discovery asked for them."""
        record = self._read.get(("bytes", self._resolved(path)))
        if record is None:
            return self._not_read(path)
        if record.state == "read":
            try:
                return bytes.fromhex(record.text)
            except ValueError:
                return Unknown(f"{path} was not told in hexadecimal", path)
        if record.state == "failed":
            return Unknown(f"{path} cannot be read", path)
        return None if record.state == "absent" else self._denied(path)

    def listdir(self, path: str) -> list[str] | Unknown | None:
        """The sorted names in a folder, where discovery asked for it."""
        record = self._read.get(("folder", self._resolved(path)))
        if record is None:
            return self._not_read(path)
        if record.state == "read":
            return sorted(name for name in record.text.split("\n") if name)
        return None if record.state == "absent" else self._denied(path)

    def readlink(self, path: str) -> str | Unknown | None:
        """The target of a link, where discovery asked for it."""
        if path in self._links:
            return self._links[path]
        return None if ("link", path) in self._read else self._not_read(path)

    def exists(self, path: str) -> bool | Unknown:
        """Whether something stands at a path that discovery asked for in any way."""
        path = self._resolved(path)
        for kind in ("exists", "file", "folder", "bytes"):
            record = self._read.get((kind, path))
            if record is not None:
                return record.state not in ("absent", "no")
        return self._not_read(path)

    def _resolved(self, path: str) -> str:
        match = _DEVICE.fullmatch(path)
        target = self._links.get(match.group(1)) if match else None
        return f"{DEVICES}/{target.rsplit('/', 1)[-1]}/{match.group(2)}" if match and isinstance(target, str) else path

    def _not_read(self, path: str) -> Unknown:
        return Unknown(self.missing_part.reason, path)

    def _denied(self, path: str) -> Unknown:
        return Unknown(f"{path} cannot be read" if self.is_root() else f"{path} needs root", path)

    # ---- the machine -------------------------------------------------------------------------------------------

    def architecture(self) -> str | Unknown:
        """As the kernel names it."""
        told = self.value("/proc/sys/kernel/arch")
        if isinstance(told, str):
            return told
        result = self.run(["uname", "-m"])
        return result.stdout.strip() if result.ok else result.unknown()

    def machine(self) -> str:
        """The architecture. Raises LookupError where it was not told: this door has no form for that."""
        return self._certain(self.architecture())

    def kernel(self) -> str:
        """Not asked: LookupError."""
        return self._certain(self.value("/proc/sys/kernel/osrelease"))

    def page_size(self) -> int:
        """Not asked: LookupError."""
        raise LookupError(NOT_ASKED)

    @staticmethod
    def _certain(told: str | Unknown | None) -> str:
        if isinstance(told, str):
            return told
        raise LookupError(told.reason if told is not None else NOT_ASKED)

    def is_root(self) -> bool:
        """Whether discovery came in as root; not where that was not told."""
        record = self._read.get(("run", "id -u"))
        return record is not None and record.text.strip() == "0"

    # ---- commands ----------------------------------------------------------------------------------------------

    def find(self, program: str) -> str | None:
        """None only for a program that discovery looked for and did not find; any other may be there."""
        states = [
            record.state for (kind, key), record in self._read.items() if kind == "run" and key.split()[0] == program
        ]
        return None if states and all(state == "missing" for state in states) else program

    def execute(self, argv: tuple[str, ...], timeout: float) -> Result:
        """What the command answered when it was asked. It is not run now."""
        key = " ".join(argv)
        record = self._read.get(("run", key))
        if record is None:
            return NotAskedResult(argv, 126, error="not asked", detail=self.missing_part.reason)
        if record.state == "missing":
            return Result(argv, 127, error="missing")
        if self._limited and record.state in _TIMED_OUT:
            return Result(argv, 124, error="timeout", detail=f"{self.timeout:g} s")
        return Result(argv, int(record.state), record.text, self._complaints.get(key, ""))


def _links(records: Sequence[Record]) -> dict[str, str | Unknown]:
    """The links by path, from what `ls -ld` printed of all of them."""
    found: dict[str, str | Unknown] = {}
    for record in records:
        if record.kind == "links":
            found = {path: Unknown("ls told no target of this link", path) for path in record.key.split()}
            for line in record.text.splitlines():
                head, arrow, target = line.partition(" -> ")
                path = head[head.find(" /") + 1 :]
                if arrow and path in found:
                    found[path] = target
    return found
