# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a lock says, and how it is written to its file and read back."""

from __future__ import annotations

import calendar
import json
import re
import time
from dataclasses import asdict, dataclass, fields
from typing import Any

SCHEMA = 1
# Only ids that this collection made: a fixed word such as "ci" would let every run pass every other one's lock.
RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
LONGEST = 200
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class LockFault(Exception):
    """The lock cannot be read or written; the text is one sentence for a person, with the cure."""


@dataclass(frozen=True)
class Lock:
    """A lock. Times are UTC by the node's clock; boot_id is that of the last sign of life, empty if unread."""

    run_id: str
    playbook: str
    user: str
    controller: str
    started: str
    refreshed: str
    step: str = ""
    boot_id: str = ""

    def shape(self) -> dict[str, Any]:
        """The lock as the module answers it."""
        return asdict(self)


def stamp(seconds: float) -> str:
    """Seconds since 1970 as the UTC time a lock holds."""
    return time.strftime(_TIME, time.gmtime(seconds))


def seconds_of(text: str) -> int:
    """Seconds since 1970 of a time a lock holds. Raises ValueError."""
    return calendar.timegm(time.strptime(text, _TIME))


def _is_time(text: str) -> bool:
    try:
        seconds_of(text)
    except (ValueError, OverflowError):
        return False
    return True


def text_fault(value: object, longest: int = LONGEST) -> str:
    """Why this cannot stand in a lock; empty where it can: what one line of a terminal shows as it is."""
    if isinstance(value, str) and len(value) <= longest and value.isprintable():
        return ""
    return f"{ascii(value)[:80]} is not allowed; allowed: at most {longest} printable characters on one line"


def dumps(lock: Lock) -> bytes:
    """The lock as the text of its file."""
    return (json.dumps({"schema": SCHEMA, **lock.shape()}, indent=1, ensure_ascii=True) + "\n").encode("ascii")


def loads(content: bytes) -> Lock:
    """The lock of a file's text. Raises ValueError that says what is wrong with it."""
    if not content.strip():
        raise ValueError("it is empty")
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ValueError("it is no whole JSON text") from None
    if not isinstance(found, dict):
        raise ValueError("it is no lock of this collection")
    if found.get("schema") != SCHEMA:
        raise ValueError(f"it has the form {ascii(found.get('schema'))[:40]}, and this collection knows {SCHEMA}")
    values = {field.name: found.get(field.name) for field in fields(Lock)}
    wrong = [name for name, value in values.items() if text_fault(value)]
    if not wrong and not RUN_ID.fullmatch(str(values["run_id"])):
        wrong = ["run_id"]
    if not wrong:
        wrong = [name for name in ("started", "refreshed") if not _is_time(str(values[name]))]
    if wrong:
        raise ValueError(f"it has no usable {wrong[0]}")
    return Lock(**{name: str(value) for name, value in values.items()})
