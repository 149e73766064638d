# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Processes as /proc shows them: who descends from whom, and what they cost."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on (the name before it may hold spaces); empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(ancestor: int) -> list[int]:
    """Every living process below ``ancestor``, without itself."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        fields = _stat(pid)
        if fields:
            children.setdefault(int(fields[1]), []).append(pid)
    found: list[int] = []
    queue = [ancestor]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def named(start: str) -> list[int]:
    """Every process whose command line begins with ``start``."""
    found = []
    for pid in _pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if line.startswith(start.encode()):
            found.append(pid)
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time of these processes and of those children of theirs that have ended."""
    return sum(sum(map(int, fields[11:15])) for pid in pids if (fields := _stat(pid))) / TICK


def machine_busy_seconds() -> float:
    """CPU time the whole machine has spent on anything."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]
    # user nice system idle iowait irq softirq; what follows is stolen or counted before.
    return sum(int(fields[index]) for index in (0, 1, 2, 5, 6)) / TICK


def proportional_memory(pids: Iterable[int]) -> int:
    """Bytes: the sum of PSS, which counts a page that n processes share as 1/n in each."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total
