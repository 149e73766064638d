# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What lines of the terminal are made of: names of hosts, wrapped sentences, cures. Nothing in them is acted upon."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import plain, redact

NAME_WIDTH = 40
# Where the command of a remedy is run.
ON_NODE = "as root"


def wrapped(head: str, text: str, width: int) -> list[str]:
    """The text in lines of at most ``width`` characters, the first of which begins with ``head``."""
    return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head)) or [head.rstrip()]


def cut(name: str, width: int) -> str:
    """A name as harmless text of at most ``width`` characters."""
    name = " ".join(plain(name).split("\n"))
    return name if len(name) <= width else name[: width - 1] + "…"


def name_width(title: str, names: Iterable[str]) -> int:
    """The width of a column of names."""
    return min(NAME_WIDTH, max([len(title), *(len(plain(name)) for name in names)]))


def examples(hosts: Sequence[str], shown: int = 3) -> str:
    """The first hosts by name, and how many more."""
    told = ", ".join(cut(host, NAME_WIDTH) for host in hosts[:shown])
    return told + (f" and {len(hosts) - shown} more" if len(hosts) > shown else "")


def disruption(remedy: Mapping[str, Any]) -> str:
    """`` (reboot)``; empty where nothing is disturbed."""
    return "" if remedy["disruptive"] == "none" else f" ({remedy['disruptive']})"


def cure_lines(remedy: Mapping[str, Any] | None, width: int, said: set[str]) -> list[str]:
    """The cure of several nodes, unless it was told before; what is run for one node stands with that node."""
    if not remedy or remedy["action"] in said:
        return []
    said.add(remedy["action"])
    lines = wrapped("    cure     ", redact(remedy["action"]) + disruption(remedy), width)
    if remedy["command"] and not remedy["playbook"]:
        lines.append(f"    as root  {redact(remedy['command'])}")
    return lines


def cure_command(host: str, remedy: Mapping[str, Any], inventory: Sequence[str]) -> tuple[str, str | None]:
    """Where to run it (``run`` here, ``as root`` on the node) and the line to copy, None where there is none.

    The playbook with its tag where the collection cures it, else the command of the remedy.
    """
    if remedy.get("playbook"):
        tags = f" --tags {remedy['tag']}" if remedy.get("tag") else ""
        sources = "".join(f" -i {shlex.quote(source)}" for source in inventory)
        return "run", f"ansible-playbook {remedy['playbook']}{sources} --limit {host}{tags}"
    return ON_NODE, redact(remedy["command"]) if remedy.get("command") else None
