# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The kernel's log of this boot: dmesg, else the journal."""

from __future__ import annotations

from dataclasses import dataclass
from re import Pattern

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node


@dataclass(frozen=True)
class KernelLog:
    """The lines, oldest first, and the command that gave them."""

    source: str
    lines: list[str]

    def matching(self, pattern: Pattern[str]) -> list[str]:
        """The lines in which ``pattern`` is found."""
        return [line for line in self.lines if pattern.search(line)]


def read(node: Node) -> KernelLog | Unknown:
    """This boot's kernel messages.

    dmesg answers from a ring that loses the oldest lines and may be closed to users; the journal is then asked. An
    empty answer of both is Unknown: silence of the log must not pass for health.
    """

    def load() -> KernelLog | Unknown:
        dmesg = node.run(["dmesg"])
        if dmesg.ok and dmesg.stdout.strip():
            return KernelLog("dmesg", dmesg.stdout.splitlines())
        journal = node.run(["journalctl", "-k", "-b", "0", "-o", "short-monotonic", "--no-pager", "-q"])
        lines = [line for line in journal.stdout.splitlines() if not line.startswith("-- ")]
        if journal.ok and lines:
            return KernelLog("journalctl -k -b 0", lines)
        if not node.is_root():
            return Unknown("needs root", "dmesg")
        why = dmesg.unknown() if not dmesg.ok else journal.unknown() if not journal.ok else None
        return Unknown(
            "the kernel log cannot be read: %s" % (why.reason if why else "dmesg and the journal are empty"), "dmesg"
        )

    return node.once("kernel log", load)
