# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The list of dnf's versionlock plugin: which locks are ours, which the site's, and the list as it shall be."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

MARK = "# held by gpufleet.kimi_k3"
_FULL = re.compile(r"(?:[0-9]+:)?(.+)-(?:[0-9]+:)?([0-9][^-]*)-([^-]+)")
_SHORT = re.compile(r"(.+)-(?:[0-9]+:)?([0-9*][^-]*)")


@dataclass(frozen=True)
class Lock:
    """One line of the list. ``name``: of the package, a pattern where the line has one there."""

    line: str
    name: str
    marked: bool

    def is_ours(self, patterns: tuple[str, ...]) -> bool:
        """Marked as ours, or a lock of one package that the request names. A pattern of the site stays the site's."""
        if self.marked:
            return True
        plain = not re.search(r"[*?\[!]", self.name)
        return plain and any(fnmatch.fnmatchcase(self.name, pattern) for pattern in patterns)


def read(text: str) -> list[Lock]:
    """The locks of a list, in its order."""
    found = []
    marked = False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#") or not stripped:
            marked = stripped == MARK
            continue
        match = _FULL.fullmatch(stripped) or _SHORT.fullmatch(stripped)
        found.append(Lock(stripped, match.group(1) if match else stripped, marked))
        marked = False
    return found


def without(text: str, lines: set[str]) -> str:
    """The list without these locks and without their marks; everything else to the letter."""
    kept: list[str] = []
    for line in text.splitlines():
        if line.strip() in lines:
            if kept and kept[-1].strip() == MARK:
                kept.pop()
            continue
        kept.append(line)
    return "".join(f"{line}\n" for line in kept)


def changed(text: str, release: list[str], add: list[str]) -> str:
    """The list as it shall be."""
    return without(text, set(release)) + "".join(f"{MARK}\n{line}\n" for line in add)


def line_of(name: str, version: str) -> str:
    """The lock of one version, as `dnf versionlock add` writes it."""
    return f"{name}-{version if ':' in version else '0:' + version}.*"
