# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A role's variables, held against what is allowed, for all nodes before any of them is contacted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleError

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import nearest, shown

_PROCESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
# Given a value, what would be allowed in its place; empty where it is fine.
Judge = Callable[[Any], str]


@dataclass(frozen=True)
class Rules:
    """What a role's variables may be.

    ``prefix`` is that of all its variables, also of those that do not exist. ``together`` is asked for faults of
    variables that are fine alone; it is given those that are set, and only where each is fine. ``internal`` are names
    that the role itself sets during a run.
    """

    prefix: str
    judges: Mapping[str, Judge]
    together: Callable[[Mapping[str, Any]], list[str]] = lambda values: []
    internal: tuple[str, ...] = ()


def faults(rules: Rules, variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every fault as one sentence, with hosts, variable, value and what is allowed; empty when all is fine.

    ``variables`` holds each host's inventory and extra variables. A fault that many hosts share comes once.
    """
    found: dict[str, list[str]] = {}
    for host, values in variables.items():
        for fault in of_host(rules, values):
            found.setdefault(fault, []).append(host)
    return [f"{named(hosts)}: {fault}" for fault, hosts in found.items()]


def of_host(rules: Rules, variables: Mapping[str, Any]) -> list[str]:
    """The faults of one host's variables."""
    found = [
        f"there is no variable {shown(name)}; {nearest(name, tuple(rules.judges))}"
        for name in variables
        if name.startswith(rules.prefix) and name not in rules.judges and name not in rules.internal
    ]
    values: dict[str, Any] = {}
    for name, judge in rules.judges.items():
        if name not in variables:
            continue
        try:
            values[name] = variables[name]
        except AnsibleError as exc:
            found.append(f"{name} cannot be evaluated: {str(exc).splitlines()[0]}")
            continue
        allowed = judge(values[name])
        if allowed:
            found.append(not_allowed(name, values[name], allowed))
    return found or rules.together(values)


def not_allowed(name: str, value: Any, allowed: str) -> str:
    """The sentence about one value."""
    return f"{name}: {shown(value)} is not allowed; allowed: {allowed}"


def named(hosts: list[str]) -> str:
    """The hosts of a fault, as a sentence begins."""
    if len(hosts) == 1:
        return f"host {hosts[0]}"
    return "hosts " + ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


# ---- judges that roles share ---------------------------------------------------------------------------------------


def one_of(*choices: str) -> Judge:
    """One of these words."""
    words = " or ".join(choice or "empty" for choice in choices)
    return lambda value: "" if isinstance(value, str) and value in choices else words


def boolean(value: Any) -> str:
    """What Ansible takes for true or false."""
    words = ("true", "false", "yes", "no", "on", "off", "1", "0")
    return "" if isinstance(value, bool) or str(value).lower() in words else "true or false"


def seconds(low: int, high: int) -> Judge:
    """A whole number of seconds, also as text."""

    def judge(value: Any) -> str:
        good = not isinstance(value, bool) and str(value).isdigit() and low <= int(value) <= high
        return "" if good else f"seconds from {low} to {high}"

    return judge


def processes(value: Any) -> str:
    """Names of processes, as the kernel shows them."""
    good = isinstance(value, list) and all(isinstance(item, str) and _PROCESS.fullmatch(item) for item in value)
    return "" if good else "a list of names of processes"
