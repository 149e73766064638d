# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is to be declared in the topology file, and what the rest of the inventory overrules of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import ContractError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import DIFFERS, HOLDS, Seen
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import nameable
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.variables import OBSERVABLE, clean, same


@dataclass(frozen=True)
class Declared:
    """What is declared for one node, as clean values by variable.

    ``values``: what Ansible uses, whoever declares it. ``file``: what the topology file says. ``conflicts``: of the
    variables the file declares, those for which Ansible uses another value, written elsewhere.
    """

    values: Mapping[str, Any]
    file: Mapping[str, Any]
    conflicts: tuple[str, ...] = ()


def declared(
    variables: Mapping[str, Any], discovered: Mapping[str, Any], in_file: Mapping[str, Any], loaded: bool
) -> Declared:
    """Tell what a person declared from what the inventory plugin found.

    ``variables``: those of the node as Ansible has them; ``discovered``: what gpu_fabric put among them; ``in_file``:
    the node's in the topology file; ``loaded``: whether Ansible has read that file.
    """
    file = {name: value for name, value in _cleaned(in_file).items() if value is not None}
    found = _cleaned(discovered)
    used = _cleaned(variables)
    values = {
        name: value
        for name, value in used.items()
        if value is not None and ((loaded and name in file) or not _equal(value, found.get(name)))
    }
    conflicts = tuple(name for name in file if loaded and not _equal(file[name], used.get(name)))
    return Declared(values, file, conflicts)


def to_write(row: Mapping[str, Any], seen: Seen, known: Declared) -> tuple[dict[str, Any], str | None]:
    """(the values of this node to put into the file, why something of it is not declared from what it shows).

    What is written elsewhere is left alone. A value of the file gives way to what the node shows, unless it is a choice
    that holds there; none is ever taken out because it was not seen.
    """
    if not seen.by:
        return {}, "not seen"
    if seen.gpus == 0:
        return {}, "it has no GPU"
    if not nameable(row["host"]):
        return {}, "Ansible would read its name as a range or a port"
    values: dict[str, Any] = {}
    elsewhere, gone = [], []
    for name, cell in row["variables"].items():
        found = cell["discovered"]
        if found is None:
            if cell["state"] == DIFFERS:
                gone.append(name)
        elif name in known.file:
            chosen = cell["state"] == HOLDS and _equal(known.file[name], cell["declared"])
            if not chosen and not _equal(known.file[name], found):
                values[name] = found
        elif name not in known.values:
            values[name] = found
        elif cell["state"] == DIFFERS:
            elsewhere.append(name)
    parts = (
        ("cannot be read", [name for name in OBSERVABLE if name in seen.unknown]),
        ("declared, and not there", gone),
        ("declared elsewhere, and not what is there", elsewhere),
    )
    return values, "; ".join(f"{words}: {', '.join(names)}" for words, names in parts if names) or None


def _equal(first: Any, second: Any) -> bool:
    return second is not None and same(first, second)


def _cleaned(values: Mapping[str, Any]) -> dict[str, Any]:
    """The observable ones of ``values``; None for one that the contract does not allow."""
    found: dict[str, Any] = {}
    for name in OBSERVABLE:
        if name in values:
            try:
                found[name] = clean(name, values[name])
            except ContractError:
                found[name] = None
    return found
