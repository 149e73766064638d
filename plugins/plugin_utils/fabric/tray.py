# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Trays of an NVLink rack: options of the module, no fabric manager, and IMEX for whoever owns it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.fabric_node.state import UNITS
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import imex, versions
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError, is_unknown, why
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.plan import File, Plan, Service
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.variables import nodes_needed, owner_needed

MANAGER = UNITS["manager"]
OPTIONS_FILE = "/etc/modprobe.d/gpufleet-nvidia-fabric.conf"
# Facts 7.7: what the option is not known to before.
MEMORY_MODE_BRANCH = 580


def options(wish: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, str]:
    """The module's options on a tray, by name."""
    return {**table["tray_options"], **table["memory_modes"][wish["memory_mode"]]}


def contradictions(wanted: Mapping[str, str], given: Mapping[str, Any], name: str) -> list[str]:
    """Options that the site gives another value by a variable of another role."""
    return [
        f"{name}: {option}={given[option]} is not allowed on a tray, where nvidia_fabric sets {option}={value} "
        f"({_said_by(option)}); allowed: {value}, or to leave it out there"
        for option, value in wanted.items()
        if option in given and str(given[option]) != value
    ]


def _said_by(option: str) -> str:
    return "nvidia_fabric_gpu_memory_mode" if option == "NVreg_CoherentGPUMemoryMode" else "facts 7.4"


def plan(
    kind: Mapping[str, Any],
    facts: Mapping[str, Any],
    now: Mapping[str, Any],
    wish: Mapping[str, Any],
    table: Mapping[str, Any],
    host: str,
    views: Mapping[str, Mapping[str, Any]],
) -> Plan:
    """What is done to a tray. ``views``: what is known of each host of the run, see imex.view().

    Raises:
        FabricError: with every reason at once.
    """
    made = Plan(kind["kind"], kind["evidence"], driver=now["driver"])
    wanted = options(wish, table)
    reasons = contradictions(wanted, wish["driver_options"], "nvidia_driver_module_options")
    reasons += _elsewhere(wanted, now["options"])
    if not wish["owner"]:
        reasons.append(owner_needed())
    if wish["owner"] == "host":
        reasons += [nodes_needed()] if not wish["nodes"] else imex.faults(now, wish, host, views)
    if reasons:
        raise FabricError("\n".join(reasons))
    _options(made, facts, now, wanted, table)
    _manager(made, now)
    imex.plan(made, facts, now, wish, table, host, views)
    return made


def _elsewhere(wanted: Mapping[str, str], found: Any) -> list[str]:
    """Options that a file of somebody else, or the boot arguments, set to another value."""
    if is_unknown(found):
        return [f"which options the module has elsewhere is not known: {why(found)}"]
    return [
        f"{item['source']} sets {item['option']}={item['value']}, and {OPTIONS_FILE} of nvidia_fabric would set "
        f"{wanted[item['option']]} ({_said_by(item['option'])}); which of them counts is left to chance: take the line "
        "out there, or make both the same"
        for item in found
        if item["source"] != OPTIONS_FILE and item["option"] in wanted and item["value"] != wanted[item["option"]]
    ]


def _options(
    made: Plan, facts: Mapping[str, Any], now: Mapping[str, Any], wanted: Mapping[str, str], table: Mapping[str, Any]
) -> None:
    lines = "".join(f"options nvidia {name}={value}\n" for name, value in sorted(wanted.items()))
    file = File(OPTIONS_FILE, f"# Written by gpufleet.kimi_k3.nvidia_fabric.\n{lines}", now["files"][OPTIONS_FILE])
    made.files.append(file)
    command = _initramfs(facts, table)
    for kernel in (kernel for kernel, stale in now["initramfs"].items() if stale or file.changes):
        if command:
            made.initramfs[kernel] = [*command, kernel]
        else:
            made.said.append(
                f"initramfs of kernel {kernel}: older than {OPTIONS_FILE}, and how this system writes one is not "
                "established; write it anew before the reboot"
            )
    coming = versions.on_disk(facts) or now["driver"]
    if "NVreg_CoherentGPUMemoryMode" in wanted and 0 < versions.branch(coming) < MEMORY_MODE_BRANCH:
        made.said.append(
            f"no effect yet: NVreg_CoherentGPUMemoryMode is an option of drivers from {MEMORY_MODE_BRANCH} on, and "
            f"{coming} is there"
        )
    if is_unknown(now["driver"]) or now["driver"] is None:
        return
    params = now["params"]
    if not isinstance(params, Mapping) or is_unknown(params):
        made.said.append(f"which options the loaded module has is not known: {why(params)}")
        return
    for option, value in sorted(wanted.items()):
        name = option.replace("NVreg_", "", 1)
        # Empty: the default, which is numa (facts 1.44).
        told = params.get(name)
        force = "numa" if name == "CoherentGPUMemoryMode" and told == "" else told
        if force is not None and force != value:
            made.reboot.append(f"the loaded module has {name}: {force}, and {value} is to be")


def _initramfs(facts: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    system = facts.get("host", {}).get("os")
    name = system.get("id") if isinstance(system, Mapping) else None
    return next((list(row["command"]) for row in table["initramfs"] if name in row["ids"]), [])


def _manager(made: Plan, now: Mapping[str, Any]) -> None:
    """It finds nothing to do on a tray, and its unit fails (facts 1.41): nothing is lost with it."""
    unit = now["units"]["manager"]
    if is_unknown(unit):
        raise FabricError(f"the state of {MANAGER} is not known: {why(unit)}")
    up = unit["ActiveState"] in imex.UP
    enabled = unit["LoadState"] == "loaded" and re.fullmatch("enabled(-runtime)?", unit["UnitFileState"]) is not None
    if up or enabled:
        made.services.append(Service(MANAGER, enabled=False if enabled else None, state="stopped" if up else None))
        made.said.append(
            f"{MANAGER} serves nothing on a tray, whose switches are managed elsewhere in the rack (facts 1.41)"
        )
