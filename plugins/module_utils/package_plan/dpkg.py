# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What dpkg has on record: installed packages, holds, what was left half done; and how it orders versions."""

from __future__ import annotations

import os
import re

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import Package

STATUS = "/var/lib/dpkg/status"
_FIELDS = (
    "${Package}\t${Architecture}\t${db:Status-Want}\t${db:Status-Status}\t${db:Status-Eflag}\t"
    "${Version}\t${Installed-Size}\n"
)
_ABSENT = ("not-installed", "config-files")
_GOOD = ("installed", "triggers-pending", "triggers-awaited")


def installed(machine: Machine) -> dict[str, Package]:
    """Every package of which there are files, by name (a foreign architecture's by ``name:arch``)."""
    native = machine.ask(["dpkg", "--print-architecture"]).strip()
    found = {}
    for line in machine.ask(["dpkg-query", "-W", "-f", _FIELDS]).splitlines():
        name, arch, want, state, flag, version, size = line.split("\t")
        if state in _ABSENT:
            continue
        package = Package(
            name, arch, version, "broken" if flag != "ok" else state, want == "hold", int(size or 0) * 1024
        )
        found[name if arch in (native, "all") else f"{name}:{arch}"] = package
    return found


def half_done(packages: dict[str, Package]) -> list[str]:
    """The packages that dpkg began with and did not finish, as ``name (state)``."""
    return [f"{name} ({package.state})" for name, package in sorted(packages.items()) if package.state not in _GOOD]


def interrupted() -> bool:
    """Whether dpkg was killed while it wrote; apt then does nothing before `dpkg --configure -a`."""
    try:
        return any(re.fullmatch("[0-9]+", name) for name in os.listdir("/var/lib/dpkg/updates"))
    except OSError:
        return False


def status_without_holds(text: str, names: set[str]) -> str:
    """dpkg's status file as it would be without the holds of these packages: what a simulation asks of."""
    blocks = text.split("\n\n")
    for number, block in enumerate(blocks):
        name = re.search(r"^Package: (\S+)$", block, re.M)
        if name and name.group(1) in names:
            blocks[number] = re.sub(r"^Status: hold ", "Status: install ", block, flags=re.M)
    return "\n\n".join(blocks)


# ---- versions ------------------------------------------------------------------------------------------------------


def compare(one: str, other: str) -> int:
    """-1, 0 or 1 as ``one`` is older than, equal to or newer than ``other``. Source: Debian policy 5.6.12."""
    for left, right in zip(_parts(one), _parts(other)):
        result = _compare_part(left, right)
        if result:
            return result
    return 0


def _parts(version: str) -> tuple[str, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    return (epoch, upstream, revision) if dash else (epoch, rest, "0")


def _compare_part(one: str, other: str) -> int:
    while one or other:
        left, right = re.match(r"\D*", one), re.match(r"\D*", other)
        words = (left.group(0) if left else "", right.group(0) if right else "")
        one, other = one[len(words[0]) :], other[len(words[1]) :]
        keys = [[_order(char) for char in word] + [0] for word in words]
        if keys[0] != keys[1]:
            return -1 if keys[0] < keys[1] else 1
        left, right = re.match(r"\d*", one), re.match(r"\d*", other)
        digits = (left.group(0) if left else "", right.group(0) if right else "")
        one, other = one[len(digits[0]) :], other[len(digits[1]) :]
        if int(digits[0] or 0) != int(digits[1] or 0):
            return -1 if int(digits[0] or 0) < int(digits[1] or 0) else 1
    return 0


def _order(char: str) -> int:
    """A tilde is before the end, the end before letters, letters before the rest."""
    return -1 if char == "~" else ord(char) if char.isalpha() else ord(char) + 256
