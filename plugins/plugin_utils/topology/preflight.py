# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a user wrote for topology.yml, held against what is allowed, before any node is contacted."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import nearest, shown
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.readiness_preflight import MISSPELT
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import TopologyFileError, parse

PREFIX = "topology_"
WRITE, GATE, FILE, OVERWRITE = "topology_write", "topology_gate", "topology_file", "topology_overwrite"
VARIABLES = (WRITE, GATE, FILE, OVERWRITE)
# Set by the playbook, not by a user.
INTERNAL = ("topology_preflight", "topology_comparison")
NAME = "topology.yml"
PLACE = "a file on the control node, ending in .yml or .yaml, in a folder that is there and may be written to"


@dataclass(frozen=True)
class Options:
    """What was asked for. ``file``: the topology file; None where none was named and the inventory has no folder."""

    write: bool = False
    gate: bool = False
    overwrite: bool = False
    file: Path | None = None


def options(
    of_host: Mapping[str, Mapping[str, Any]], extra: Mapping[str, Any], sources: Sequence[str]
) -> tuple[Options, list[str]]:
    """The options, and every fault as one sentence with variable, value and what is allowed.

    ``of_host``: the variables of each host, those given with -e among them; ``extra``: the latter alone; ``sources``:
    the inventories that were given to Ansible.
    """
    found = [
        f"{name}: it is not allowed with -e; allowed: nothing, the playbook sets it"
        for name in INTERNAL
        if name in extra
    ]
    found += _misspelt({name for variables in of_host.values() for name in variables} | set(extra))
    given: dict[str, Any] = {}
    for name in VARIABLES:
        values, faults = _values(name, of_host)
        found += faults
        if len(values) == 1 and not faults:
            given[name] = next(iter(values.values()))
    for name in (WRITE, GATE, OVERWRITE):
        if name in given and not _is_boolean(given[name]):
            found.append(f"{name}: {shown(given[name])} is not allowed; allowed: true or false")
            del given[name]
    path, fault = _file(given.get(FILE), sources)
    write = bool(boolean(given.get(WRITE, False)))
    overwrite = bool(boolean(given.get(OVERWRITE, False)))
    if not fault and path is not None and write:
        fault = _target_fault(path, overwrite)
    if fault:
        found.append(fault)
    elif write and path is None:
        found.append(f"{FILE}: it is not set and the inventory is no file; allowed: {PLACE}")
    return Options(write, bool(boolean(given.get(GATE, False))), overwrite, path), found


def is_loaded(path: Path, sources: Sequence[str]) -> bool:
    """Whether Ansible reads this file as part of the inventory it was given."""
    real = path.resolve()
    found = [Path(source).resolve() for source in sources if "," not in source]
    return any(source == real or (source.is_dir() and source in real.parents) for source in found)


def _misspelt(names: set[str]) -> list[str]:
    return [
        f"there is no variable {shown(name)}; {nearest(name, VARIABLES)}"
        for name in sorted(names)
        if name.startswith(PREFIX)
        and name not in (*VARIABLES, *INTERNAL)
        and difflib.get_close_matches(name, VARIABLES, 1, MISSPELT)
    ]


def _values(name: str, of_host: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The different values of one variable by how they read, and what is wrong with having them."""
    values: dict[str, Any] = {}
    for host, variables in of_host.items():
        try:
            if name in variables:
                value = variables[name]
                values[ascii(value)] = value
        except AnsibleError as exc:
            return {}, [f"host {host}: {name} cannot be evaluated: {str(exc).splitlines()[0]}"]
    if len(values) > 1:
        return values, [f"{name}: {shown(sorted(values))} is not allowed; allowed: one value for all hosts"]
    return values, []


def _is_boolean(value: Any) -> bool:
    try:
        boolean(value)
    except TypeError:
        return False
    return isinstance(value, (bool, str, int))


def _file(given: Any, sources: Sequence[str]) -> tuple[Path | None, str]:
    """(the topology file, why it cannot be one)."""
    if given is None:
        folders = (Path(source) for source in sources if "," not in source)
        first = next((folder for folder in folders if folder.exists()), None)
        return None if first is None else (first if first.is_dir() else first.parent) / NAME, ""
    fault = f"{FILE}: {shown(given)} is not allowed; allowed: {PLACE}"
    if not isinstance(given, str) or not given.strip() or not given.isprintable():
        return None, fault
    try:
        path = Path(given).expanduser().absolute()
        if path.is_dir():
            return None, f"{fault} (it is a folder)"
    except (OSError, RuntimeError) as exc:
        return None, f"{fault} ({exc})"
    if path.suffix not in (".yml", ".yaml"):
        return None, f"{fault} (Ansible reads no other as an inventory in YAML)"
    if path.name.startswith(".") or {"group_vars", "host_vars"} & set(path.parts[:-1]):
        return None, f"{fault} (Ansible does not read this one as an inventory)"
    return path, ""


def _target_fault(path: Path, overwrite: bool) -> str:
    """Why the topology cannot be written to this place."""
    fault = f"{FILE}: {shown(str(path))} is not allowed; allowed: "
    try:
        # A link has to lead somewhere.
        target = path.resolve(strict=path.is_symlink())
        if not target.parent.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
            return f"{fault}{PLACE} ({target.parent} is no folder one may write to)"
        if not target.exists():
            return ""
        if not target.is_file():
            return f"{fault}{PLACE} (it is there and is no file)"
        parse(target.read_text(encoding="utf-8"))
    except TopologyFileError as exc:
        if not overwrite:
            return f"{fault}a file that this playbook wrote ({exc}); name another, or add -e {OVERWRITE}=true"
    except (OSError, RuntimeError, ValueError) as exc:
        return f"{fault}{PLACE} ({exc})"
    return ""
