# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The kernel's log of this boot: dmesg where it still has the beginning, else the journal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from re import Pattern

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node, Result

JOURNAL = ["journalctl", "-k", "-b", "0", "-o", "short-monotonic", "--no-pager", "-q"]
# printk ends a record at about a thousand characters; a longer line is none of its, and dear to search through.
LINE_LIMIT = 1024
LINES_KEPT = 100000
# How a boot begins; a log without time stamps is told by the words.
_BEGINNING = re.compile(r"^(<[0-9]+>)?\[ *0\.[0-9]+\]|Linux version")


@dataclass(frozen=True)
class KernelLog:
    """The lines, oldest first, the command that gave them, and whether they go back to the beginning of this boot."""

    source: str
    lines: list[str]
    complete: bool

    def matching(self, pattern: Pattern[str]) -> list[str]:
        """The lines in which ``pattern`` is found."""
        return [line for line in self.lines if pattern.search(line)]


def read(node: Node) -> KernelLog | Unknown:
    """This boot's kernel messages.

    dmesg answers from a ring that loses the oldest lines and may be closed to users; the journal is then asked. An
    empty answer of both is Unknown, and an answer without its beginning says so: silence of the log must not pass for
    health.
    """

    def load() -> KernelLog | Unknown:
        dmesg = node.run(["dmesg"])
        ring = _log("dmesg", dmesg)
        if ring is not None and ring.complete:
            return ring
        journal = node.run(JOURNAL)
        kept = _log("journalctl -k -b 0", journal)
        if kept is not None and (kept.complete or ring is None):
            return kept
        if ring is not None:
            return ring
        if not node.is_root():
            return Unknown("needs root", "dmesg")
        why = dmesg.unknown() if not dmesg.ok else journal.unknown() if not journal.ok else None
        return Unknown(
            f"the kernel log cannot be read: {why.reason if why else 'dmesg and the journal are empty'}", "dmesg"
        )

    return node.once("kernel log", load)


def _log(source: str, result: Result) -> KernelLog | None:
    """What the command told, None where it told nothing."""
    if not result.ok:
        return None
    lines = [line[:LINE_LIMIT] for line in result.stdout.splitlines() if line.strip() and not line.startswith("-- ")]
    return KernelLog(source, lines[-LINES_KEPT:], _has_beginning(lines[:5])) if lines else None


def _has_beginning(first: Sequence[str]) -> bool:
    return any(_BEGINNING.search(line) for line in first)
