# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a user wrote for a changing run, held against what is allowed, for all hosts before any is contacted."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleError

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.lock import RUN_ID, text_fault
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import nearest, shown

PLAYBOOK = re.compile(r"[a-z0-9_]{1,60}")
ID = "the id of a run, such as 20261130T210000Z-1a2b3c4d, as the lock and the record name it"
# As difflib counts; below, names of other roles would be taken for misspellings.
MISSPELT = 0.85


def _run_id(value: Any) -> str:
    return "" if value == "" or (isinstance(value, str) and RUN_ID.fullmatch(value)) else ID


def _steal(value: Any) -> str:
    return "" if all(RUN_ID.fullmatch(item) for item in steal_ids(value)) else f"{ID}, or a list of them"


def _playbook(value: Any) -> str:
    return "" if isinstance(value, str) and PLAYBOOK.fullmatch(value) else "at most 60 of a-z, 0-9 and _"


def _folder_of_nodes(value: Any) -> str:
    good = isinstance(value, str) and value.startswith("/") and value.strip("/") and not text_fault(value, 1000)
    return "" if good else "the absolute path of a folder on the node"


def _folder_here(value: Any) -> str:
    good = isinstance(value, str) and value.strip() and value.isprintable()
    return "" if good else "the path of a folder on the control node"


def _text(value: Any) -> str:
    return "" if not text_fault(value) else "at most 200 printable characters on one line"


VARIABLES: dict[str, Callable[[Any], str]] = {
    "changing_run_playbook": _playbook,
    "changing_run_lock_dir": _folder_of_nodes,
    "changing_run_report_dir": _folder_here,
    "changing_run_step": _text,
    "k3_run_id": _run_id,
    "k3_lock_steal": _steal,
}
# One run is one for all its hosts.
COMMON = ("changing_run_playbook", "changing_run_report_dir", "k3_run_id", "k3_lock_steal")
# Registered by the role; given by a user they would stand in for what nodes answered.
INTERNAL = (
    "changing_run_begun",
    "changing_run_lock",
    "changing_run_ended",
    "__changing_run_foreseen",
    "__changing_run_taken",
    "__changing_run_release",
)


def steal_ids(value: Any) -> list[str]:
    """The run ids of k3_lock_steal: a list, or one text with commas between them."""
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    return [text for item in items if (text := str(item).strip())]


def faults(variables: Mapping[str, Mapping[str, Any]], extra: Mapping[str, Any]) -> list[str]:
    """Every fault as one sentence with hosts, variable, value and what is allowed; empty when all is fine.

    variables: each host's variables. extra: those given with -e.
    """
    given = [name for name in INTERNAL if name in extra]
    found: dict[str, list[str]] = {
        f"{name}: it is not allowed with -e; allowed: nothing, the role sets it": [] for name in given
    }
    for host, values in variables.items():
        for fault in _host_faults(values):
            found.setdefault(fault, []).append(host)
    told = [f"{named(hosts)}: {fault}" if hosts else fault for fault, hosts in found.items()]
    if not told:
        for name in COMMON:
            different = sorted({str(values[name]) for values in variables.values() if name in values})
            if len(different) > 1:
                told.append(f"{name}: {shown(different)} is not allowed; allowed: one value for all hosts")
    return told


def named(hosts: list[str]) -> str:
    """Hosts for a sentence: the first three, and how many more."""
    if len(hosts) == 1:
        return f"host {hosts[0]}"
    return "hosts " + ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


def _host_faults(values: Mapping[str, Any]) -> list[str]:
    known = list(VARIABLES)
    found = []
    for name in values:
        if name in VARIABLES or name in INTERNAL:
            continue
        alike = name.startswith("k3_") and difflib.get_close_matches(name, known, 1, MISSPELT)
        if name.startswith("changing_run_") or alike:
            found.append(f"there is no variable {shown(name)}; {nearest(name, known)}")
    for name, allowed in VARIABLES.items():
        if name not in values:
            continue
        try:
            wrong = allowed(values[name])
        except AnsibleError as exc:
            found.append(f"{name} cannot be evaluated: {str(exc).splitlines()[0]}")
            continue
        if wrong:
            found.append(f"{name}: {shown(values[name])} is not allowed; allowed: {wrong}")
    return found
