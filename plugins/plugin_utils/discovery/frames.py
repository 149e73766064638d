# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The answer of the script, taken apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# A whole answer is some hundred kilobytes; more comes from something that is not our script.
ANSWER_LIMIT = 16 << 20
_HEAD = re.compile(rb"([a-z]{1,10}) ([a-z0-9]{0,10}) ([0-9]{1,9}) ([^\n]{0,65536})\n")


class AnswerError(ValueError):
    """Something else than the script's answer came; the message says what."""


@dataclass(frozen=True)
class Record:
    """One thing that the script read: kind (file, folder, run …), state (read, absent, denied, an exit status …)."""

    kind: str
    state: str
    key: str
    data: bytes

    @property
    def text(self) -> str:
        """The data as text; what is not UTF-8 shows as a replacement character."""
        return self.data.decode("utf-8", "replace")


def records(answer: bytes, nonce: str) -> list[Record]:
    """The whole records in order; what came before the first (a banner) is passed over, an unfinished last one dropped.

    AnswerError where the script never began, or where something else stands between two records.
    """
    mark = nonce.encode() + b" "
    start = answer.find(b"\n" + mark + b"hello ")
    if start < 0:
        raise AnswerError("the script did not start")
    place = start + 1
    found: list[Record] = []
    while place < len(answer):
        if not answer.startswith(mark, place):
            if mark.startswith(answer[place:]):
                break
            raise AnswerError(f"something else stands in the middle of the answer, after {last(found)}")
        head = _HEAD.match(answer, place + len(mark))
        if head is None:
            if b"\n" in answer[place:]:
                raise AnswerError(f"a line of the answer is damaged, after {last(found)}")
            break
        end = head.end() + int(head.group(3))
        if end >= len(answer):
            break
        if answer[end : end + 1] != b"\n":
            raise AnswerError(f"a part of the answer does not have the length that was told, after {last(found)}")
        kind, state, key = (head.group(number).decode("utf-8", "replace") for number in (1, 2, 4))
        found.append(Record(kind, state, key, answer[head.end() : end]))
        place = end + 1
        if kind == "end":
            # What a login shell prints on its way out is none of ours.
            break
    return found


def last(found: Sequence[Record]) -> str:
    """How far an answer came, in words."""
    return f"{found[-1].kind} {ascii(found[-1].key)[1:-1][:100]}".strip() if found else "its beginning"


def complaints(errors: bytes, nonce: str) -> list[str]:
    """What each command wrote to the error output, in the order of the commands."""
    parts = errors.split(b"\n" + nonce.encode() + b"\n")
    return [part.decode("utf-8", "replace").strip() for part in parts[1:]]
