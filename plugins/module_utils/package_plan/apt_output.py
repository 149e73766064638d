# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What apt's commands print, read: no command is run here."""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass

_INST = re.compile(r"^Inst (\S+)(?: \[([^\]]*)\])? \((\S+) .*?\[([a-z0-9-]+)\]\)")
_REMV = re.compile(r"^(?:Remv|Purg) (\S+)(?: \[([^\]]*)\])?")
_URI = re.compile(r"^'([^']+)' (\S+) ([0-9]+) ?(\S*)")
_SIGNATURE = re.compile(
    r"NO_PUBKEY|BADSIG|EXPKEYSIG|EXPSIG|REVKEYSIG|is not signed|invalid signature"
    r"|signatures? (?:couldn't|were|could not)"
    r"|SHA1 is not considered secure|OpenPGP signature verification failed|Missing key|weak digest|not signed"
)
_BROKEN = re.compile(r"Hash Sum mismatch|unexpected size|File has unexpected|Hashes of expected file")
_CLASH = re.compile(r"Conflicting values set for option Signed-By")


@dataclass(frozen=True)
class Step:
    """One line of a simulation: a package (``name:arch`` for a foreign one), its version before and after."""

    name: str
    old: str | None
    new: str | None
    arch: str


def steps(text: str) -> list[Step]:
    """The installs and removals that `apt-get -s` lists, in its order."""
    found = []
    for line in text.splitlines():
        match = _INST.match(line)
        if match:
            found.append(Step(match.group(1), match.group(2), match.group(3), match.group(4)))
            continue
        match = _REMV.match(line)
        if match:
            found.append(Step(match.group(1), match.group(2), None, ""))
    return found


def uris(text: str) -> dict[tuple[str, str], tuple[str, str, int]]:
    """(name, version) -> (address, file name, bytes) of what `apt-get --print-uris install` would fetch."""
    found = {}
    for line in text.splitlines():
        match = _URI.match(line)
        if match:
            name, _underscore, rest = match.group(2).partition("_")
            version = urllib.parse.unquote(rest.rsplit("_", 1)[0])
            found[(name, version)] = (match.group(1), match.group(2), int(match.group(3)))
    return found


def madison(text: str) -> list[tuple[str, str, str]]:
    """(name, version, address of the repository) of what `apt-cache madison` lists: newest first for each name."""
    found = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 3 and parts[2].endswith("Packages"):
            found.append((parts[0], parts[1], parts[2].split()[0]))
    return found


@dataclass(frozen=True)
class Trouble:
    """Why a repository gave no index. ``kind``: ``signature``, ``broken``, ``clash`` or ``unreachable``."""

    kind: str
    text: str
    ours: bool


def troubles(text: str, uris_of_ours: tuple[str, ...]) -> list[Trouble]:
    """What `apt-get update` complains of, each once. A line without an address is taken as ours."""
    found: list[Trouble] = []
    for line in text.splitlines():
        if not line.startswith(("E: ", "W: ", "Err:")):
            continue
        said = re.sub(r"^(?:E: |W: |Err:[0-9]+ )", "", line).strip()
        if _CLASH.search(said):
            kind = "clash"
        elif _SIGNATURE.search(said):
            kind = "signature"
        elif _BROKEN.search(said):
            kind = "broken"
        elif re.search(
            r"Failed to fetch|does not have a Release file|no longer has a Release|is not valid yet|expired", said
        ):
            kind = "unreachable"
        else:
            continue
        ours = any(uri.rstrip("/") in said for uri in uris_of_ours) or not re.search(r"[a-z+]+:/", said)
        if all(said != other.text for other in found):
            found.append(Trouble(kind, said, ours))
    return found


def exact_needs(text: str) -> list[tuple[str, str]]:
    """(name, version) of the dependencies that apt could not meet and that admit one version only."""
    found = re.findall(r"(?:Depends|PreDepends|Pre-Depends): (\S+) \(= (\S+)\)", text)
    return list(dict(found).items())


def complaint(text: str) -> str:
    """Why apt found no solution, in its own words and in one line: the broken relations, then its errors."""
    lines = [line.strip() for line in text.splitlines()]
    relations = [line for line in lines if re.match(r"\S+ : (Depends|Conflicts|Breaks|PreDepends|Pre-Depends)", line)]
    errors = [line[3:] for line in lines if line.startswith("E: ")]
    return "; ".join([*relations[:4], *errors[:3]])[:800] or "it gave no reason"
