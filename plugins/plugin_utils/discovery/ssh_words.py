# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The arguments of a line of ssh_config(5), and the file names among them, read as OpenSSH reads them."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping

BLANKS, QUOTES = " \t", "\"'"
_VARIABLE = re.compile(r"%(.?)|\$\{([^}]*)(\}?)", re.DOTALL)


def words(text: str) -> list[str]:
    """The arguments: parted by blanks, with quotes and backslashes taken out, up to a comment.

    ValueError where a quote is not closed.
    """
    found: list[str] = []
    place = 0
    while True:
        while place < len(text) and text[place] in BLANKS:
            place += 1
        if place == len(text) or text[place] == "#":
            return found
        word, place = _word(text, place)
        found.append(word)


def _word(text: str, place: int) -> tuple[str, int]:
    """The word that begins at ``place``, and where it ends."""
    word, quote = "", ""
    while place < len(text):
        letter, after = text[place], text[place + 1 : place + 2]
        # Any other backslash is a letter like others.
        if letter == "\\" and after and (after in "\\\"'" or (after == " " and not quote)):
            word += after
            place += 1
        elif not quote and letter in BLANKS:
            break
        elif letter == quote:
            quote = ""
        elif not quote and letter in QUOTES:
            quote = letter
        else:
            word += letter
        place += 1
    if quote:
        raise ValueError("a quote is not closed")
    return word, place


def home_expanded(name: str) -> str:
    """A file name with ``~`` and ``~user`` carried out. ValueError where there is no such user."""
    whole = os.path.expanduser(name)
    if whole.startswith("~"):
        raise ValueError(f"there is no user {name[1:].partition('/')[0]}")
    return whole


def tokens(host: str, hostname: str, port: int, user: str | None, alias: str | None) -> dict[str, str]:
    """What ``%`` tokens stand for, by their letter. %C and %j, of which releases have ideas of their own, are none."""
    mine, here = getpass.getuser(), socket.gethostname()
    return {
        "%": "%",
        "d": os.path.expanduser("~"),
        "h": hostname.lower(),
        "i": str(os.getuid()),
        "k": alias or host,
        "L": here.partition(".")[0],
        "l": here,
        "n": host,
        "p": str(port),
        "r": user or mine,
        "u": mine,
    }


def expanded(name: str, known: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """A file name with ``~``, ``%`` tokens and ``${NAME}`` carried out; what they stand for is taken as it is.

    ``known``: see tokens(). ValueError for what stands for nothing.
    """

    def value(match: re.Match[str]) -> str:
        letter, variable, closed = match.groups()
        if letter is not None:
            if letter not in known:
                raise ValueError(f"{match.group()} is none of {', '.join('%' + each for each in known)}")
            return known[letter]
        if not closed:
            raise ValueError("${ is not closed")
        if variable not in environ:
            raise ValueError(f"the environment has no {variable}")
        return environ[variable]

    return _VARIABLE.sub(value, home_expanded(name))
