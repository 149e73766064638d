# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""docs/sources.md explains every short reference of the repository, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "sources.md"
PLACES = ("docs", "molecule", "playbooks", "plugins", "roles", "scripts", "tests")
NOT_OURS = {".ansible", ".cache", "__pycache__"}

# A list of references names its kind once: words between its items are a comma, "and" or both.
NEXT = r"(?:, and |, | and )"
NUMBER = r"\d+\.\d+"
RANGE = rf"{NUMBER}(?:(?: to |[-\u2013]){NUMBER})?"
CORRECTION = r"corrections \([^()]*\)"
FACTS = re.compile(rf"\bfacts,? ((?:{CORRECTION}|{RANGE})(?:{NEXT}(?:{CORRECTION}|{RANGE}))*)")
TRAPS = rf"traps? \d+\b(?!\.)(?:{NEXT}\d+\b(?!\.))*"
PEER = rf"(?:{TRAPS}|section \d+|{NUMBER}|\d[a-z])"
PEERS = re.compile(rf"\bpeers,? ({PEER}(?:{NEXT}{PEER})*)")
CASES = re.compile(r"\bC(\d\d)(?:[-\u2013]C(\d\d))?\b")
# Notes that do not ship. What they say belongs into the text or into docs/sources.md.
NOTES = re.compile(r"\b(?:facts|cases|peers|lab|design|requirements)\.md\b|\brequirements [0-9]")


def texts() -> Iterator[tuple[Path, str]]:
    """Every text of the repository that may hold a reference."""
    found = [*ROOT.glob("*.md"), *(path for place in PLACES for path in sorted((ROOT / place).rglob("*")))]
    for path in found:
        if path.is_file() and path != Path(__file__).resolve() and not NOT_OURS & set(path.relative_to(ROOT).parts):
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def in_one_line(text: str) -> str:
    """The text with its line ends, and the marks of comments after them, as single spaces."""
    return re.sub(r"\s*\n\s*(?:#+ )?\s*", " ", text)


def all_between(first: str, last: str) -> list[str]:
    """``1.39`` and ``1.42``: each number from the one to the other."""
    (chapter, start), (_same, end) = first.split("."), last.split(".")
    return [f"{chapter}.{number}" for number in range(int(start), int(end) + 1)]


def references(text: str) -> set[str]:
    """The references of a text, each as docs/sources.md spells it. Corrections without a topic mean their table."""
    line = in_one_line(text)
    found = set()
    for listed in FACTS.findall(line):
        found |= {f"facts, corrections ({topic})" for topic in re.findall(r'corrections \("?([^()"]*)"?\)', listed)}
        numbers = re.sub(CORRECTION, "", listed)
        for item in re.findall(RANGE, numbers):
            ends = re.findall(NUMBER, item)
            found |= {f"facts {number}" for number in all_between(ends[0], ends[-1])}
    for listed in PEERS.findall(line):
        for traps in re.findall(TRAPS, listed):
            found |= {f"peers trap {number}" for number in re.findall(r"\d+", traps)}
        rest = re.sub(TRAPS, "", listed)
        found |= {f"peers {item}" for item in re.findall(rf"section \d+|{NUMBER}|\d[a-z]", rest)}
    for first, last in CASES.findall(line):
        found |= {f"C{number:02}" for number in range(int(first), int(last or first) + 1)}
    return found


def rows() -> list[str]:
    """The references that docs/sources.md has a row for."""
    return re.findall(r"^\| `([^`]+)` \|", SOURCES.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_way_to_write_references_is_read():
    assert references("facts 1.39-1.41, 5.4 and corrections (some topic); C14\u2013C16. Source: C67") == {
        *("facts 1.39", "facts 1.40", "facts 1.41", "facts 5.4", "facts, corrections (some topic)"),
        *("C14", "C15", "C16", "C67"),
    }
    assert references(
        "# (facts,\n#     corrections (GIN) and 2.1 to 2.2), peers 1b, 2.14 and traps 2, 13; peers section 5"
    ) == {
        *(
            "facts, corrections (GIN)",
            "facts 2.1",
            "facts 2.2",
            "peers 1b",
            "peers 2.14",
            "peers trap 2",
            "peers trap 13",
            "peers section 5",
        ),
    }
    assert references("facts, 5 of 3.9; peers; C4, C123, ABC12") == set()


def test_every_reference_has_a_row():
    known = set(rows())
    unknown = {
        str(path.relative_to(ROOT)): sorted(missing)
        for path, text in texts()
        if path != SOURCES and (missing := references(text) - known)
    }
    assert unknown == {}


def test_every_row_is_used_and_there_once():
    used = set().union(*(references(text) for path, text in texts() if path != SOURCES))
    listed = rows()
    assert sorted(set(listed) - used) == []
    assert len(listed) == len(set(listed))


def test_every_row_names_a_source():
    without = [
        line
        for line in SOURCES.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and not re.search(r"\[[^]]+\]|measured by this project|inferred|package pages", line)
    ]
    assert without == []


def test_every_short_link_of_the_sources_has_an_address():
    text = SOURCES.read_text(encoding="utf-8")
    addresses = set(re.findall(r"^\[([^]]+)\]: https://", text, re.MULTILINE))
    links = set(re.findall(r"\[([^]]+)\](?![(:])", text))
    assert links == addresses


def test_no_file_names_notes_that_do_not_ship():
    naming = {
        str(path.relative_to(ROOT)): found for path, text in texts() if (found := sorted(set(NOTES.findall(text))))
    }
    assert naming == {}
