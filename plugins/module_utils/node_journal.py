# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One line in the node's journal, over its own socket; where there is no journal, the reason.

Source: systemd, Native Journal Protocol (https://systemd.io/JOURNAL_NATIVE_PROTOCOL/).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact

JOURNAL = "/run/systemd/journal/socket"
SYSLOG = "/dev/log"
IDENTIFIER = "gpufleet-kimi-k3"
# Far below what a datagram holds everywhere.
LONGEST = 4000
# Seconds; a journal that does not take a line must not hold up the run.
PATIENCE = 2.0
# Level "info" of facility "user", as syslog counts.
PRIORITY = 6
FACILITY = 1


def record(message: str, run_id: str, journal: str = JOURNAL, syslog: str = SYSLOG) -> tuple[str, str]:
    """Write a line, and answer where it is (journal, syslog or none) and, if nowhere, why.

    Secrets are masked; the field GPUFLEET_RUN_ID finds all lines of a run: journalctl GPUFLEET_RUN_ID=...
    """
    line = " ".join(redact(message).split())[:LONGEST]
    fields = {
        "MESSAGE": line,
        "PRIORITY": str(PRIORITY),
        "SYSLOG_FACILITY": str(FACILITY),
        "SYSLOG_IDENTIFIER": IDENTIFIER,
        "GPUFLEET_RUN_ID": run_id,
    }
    faults = []
    for place, address, content in (
        ("journal", journal, native(fields)),
        ("syslog", syslog, f"<{FACILITY * 8 + PRIORITY}>{IDENTIFIER}: {line}".encode()),
    ):
        fault = _send(address, content)
        if not fault:
            return place, ""
        faults.append(f"{address}: {fault}")
    return "none", "no line in the node's journal: " + "; ".join(faults)


def native(fields: Mapping[str, str]) -> bytes:
    """Fields in the journal's own form; each with its length, so that no value can pass for another field."""
    parts = []
    for name, value in fields.items():
        content = value.encode()
        parts.append(name.encode() + b"\n" + struct.pack("<Q", len(content)) + content + b"\n")
    return b"".join(parts)


def _send(address: str, content: bytes) -> str:
    """Why the socket did not take it; empty where it did."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
            door.settimeout(PATIENCE)
            door.sendto(content, address)
    except OSError as exc:
        return exc.strerror or str(exc)
    return ""
