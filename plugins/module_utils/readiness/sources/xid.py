# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Xid and SXid events of the kernel log, and what each asks for.

Source: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), "immediate action", of
Xids of A100 and newer; Xid 48 after NVIDIA Health Validation (drain, reset, then service; peers section 5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.kernel_log import KernelLog

# What an event asks for, mildest first.
INFORMATION = "information"  # says nothing about health by itself
APPLICATION = "application"  # the program was at fault or was ended; restart it
WATCH = "watch"  # recovered by itself; worth a look when it comes back
UNLISTED = "unlisted"  # a code the table does not have
RESET = "reset"  # the GPU has to be reset
REBOOT = "reboot"  # the node has to be rebooted
SERVICE = "service"  # a person has to look at the hardware
CLASSES = (INFORMATION, APPLICATION, WATCH, UNLISTED, RESET, REBOOT, SERVICE)
# Classes that leave the GPU unusable until somebody acts.
BROKEN = (RESET, REBOOT, SERVICE)

# First and last code of each range.
_RANGES: dict[str, tuple[tuple[int, int], ...]] = {
    # 154 tells that the recovery action changed: the action itself is read from nvidia-smi. 106, 107: test messages.
    INFORMATION: ((14, 14), (106, 107), (154, 154), (162, 162)),
    # 43 and 45 follow from the fault or the end of a program; 94 is contained to the program it hit.
    APPLICATION: (
        *((8, 8), (11, 11), (13, 13), (25, 25), (31, 32), (39, 41), (43, 45), (60, 60), (68, 73), (75, 77), (80, 80)),
        *((82, 86), (88, 89), (94, 94), (96, 105), (126, 135), (139, 139), (141, 141)),
    ),
    # 63 a row was remapped (gpu.row_remap tells whether a reset is due); 92 many correctable errors; 121 C2C error.
    WATCH: (
        *((37, 38), (63, 63), (66, 67), (78, 78), (92, 93), (108, 108), (121, 121), (137, 137), (142, 142)),
        *((152, 153), (157, 157), (159, 161), (163, 166), (170, 170)),
    ),
    # 74 and 144 to 150 are NVLink errors whose details decide between ignoring and resetting: reset is the safe one.
    RESET: (
        *((46, 46), (48, 48), (62, 62), (64, 64), (74, 74), (95, 95), (109, 110), (119, 120), (136, 136), (140, 140)),
        *((143, 150), (155, 156), (158, 158), (167, 167), (169, 169), (171, 172)),
    ),
    REBOOT: ((79, 79), (151, 151)),
    SERVICE: ((54, 54), (168, 168)),
}
CLASS_OF: dict[int, str] = {
    code: name for name, ranges in _RANGES.items() for first, last in ranges for code in range(first, last + 1)
}

_DEVICE = r"(?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-7])?"
_XID = re.compile(r"NVRM: Xid \(" + _DEVICE + r"\): ([0-9]{1,4})\b")
_SXID = re.compile(r"\bSXid \(" + _DEVICE + r"\): ([0-9]{1,6})\b(.{0,80})", re.I)


@dataclass(frozen=True)
class Event:
    """One line of the log. ``device`` is ``0000:1b:00`` (no function); ``kind`` is Xid (GPU) or SXid (NVSwitch)."""

    kind: str
    device: str
    code: int
    action: str
    line: str


def events(log: KernelLog) -> list[Event]:
    """Every Xid and SXid of this boot, oldest first."""
    found = []
    for line in log.lines:
        match = _XID.search(line)
        if match:
            code = int(match.group(2))
            found.append(Event("Xid", match.group(1).lower(), code, CLASS_OF.get(code, UNLISTED), line[:300]))
            continue
        match = _SXID.search(line)
        if match:
            # The driver says itself which are fatal ("Fatal, Link 33 …", "Non-fatal, …").
            fatal = re.search(r"(?<!non-)(?<!non )\bfatal\b", match.group(3).lower()) is not None
            action = RESET if fatal else WATCH
            found.append(Event("SXid", match.group(1).lower(), int(match.group(2)), action, line[:300]))
    return found
