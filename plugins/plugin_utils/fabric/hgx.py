# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Boards with NVSwitches of their own: the fabric manager, and on NVLink 5 what has to be there before it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.fabric_node.state import UNITS, registered
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._fabric_manager import (
    NVLINK5_MODULES,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import foreseen, versions
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError, is_unknown, why
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.plan import File, Plan, Service, not_started

UNIT = UNITS["manager"]
MODULES_FILE = "/etc/modules-load.d/gpufleet-nvidia-fabric.conf"
UP = ("active", "activating", "reloading")


def plan(
    kind: Mapping[str, Any], facts: Mapping[str, Any], now: Mapping[str, Any], table: Mapping[str, Any], host: str
) -> Plan:
    """What is done to such a node. ``kind``: the answer of kind.of(); ``now``: that of fabric_state.

    Raises:
        FabricError: where something that decides is not known, or the modules cannot be had.
    """
    made = Plan(kind["kind"], kind["evidence"], driver=now["driver"])
    manager = now["manager"]
    verdict, reason = versions.judge(
        "nvidia-fabricmanager", manager["packages"], manager["binary"], now["driver"], versions.on_disk(facts), host
    )
    if verdict == versions.NO and not manager["packages"] and manager["running"] is True:
        reason = "a fabric manager runs that no package of this node brought; it is left to whoever started it"
    if kind["kind"] == "hgx_nvlink5":
        _modules(made, facts, now, table, kind["kernels"])
        if _no_nvlsm(now["nvlsm"]):
            cure = versions.CURE.format(host=host)
            reason = reason if verdict == versions.NO else (
                "nvlsm is not installed, and without it the GPUs of an NVLink 5 board never register (C15); the role "
                f"nvidia_driver brings it: {cure}"
            )  # fmt: skip
            verdict = versions.NO
    _service(made, now, verdict, reason)
    return made


def _service(made: Plan, now: Mapping[str, Any], verdict: str, reason: str) -> None:
    unit = now["units"]["manager"]
    if is_unknown(unit):
        raise FabricError(f"the state of {UNIT} is not known: {why(unit)}")
    if verdict != versions.NO and unit["LoadState"] != "loaded":
        masked = unit["LoadState"] == "masked"
        cure = f"somebody masked it; `systemctl unmask {UNIT}` and run again" if masked else "no such unit is there"
        verdict, reason = versions.NO, cure
    up = unit["ActiveState"] in UP
    service = Service(UNIT)
    if verdict != versions.NO and unit["UnitFileState"] == "disabled":
        service.enabled = True
    elif verdict != versions.NO and unit["UnitFileState"] == foreseen.UNTOLD:
        made.said.append(foreseen.line(UNIT))
    if verdict == versions.START and not up:
        service.state = "started"
    made.services.append(service)
    if verdict == versions.REBOOT:
        made.reboot.append(reason)
    if verdict != versions.START:
        made.said.append(not_started(UNIT, up, verdict == versions.REBOOT, reason))
    elif up and now["unloaded"] and not registered(now["gpus"]):
        # It found no switches of this generation, and finds them only when it starts (C15).
        made.said.append(
            f"restart due: {UNIT} runs since before {' and '.join(now['unloaded'])} was loaded, and what runs is not "
            f"restarted from here; drain the node, then `systemctl restart {UNIT}`"
        )
    else:
        made.awaits = "manager"


def _no_nvlsm(nvlsm: Mapping[str, Any]) -> bool:
    packages, binary = nvlsm["packages"], nvlsm["binary"]
    if is_unknown(packages) and binary is not True:
        raise FabricError(f"whether nvlsm is installed is not known: {why(packages)}")
    if not packages and is_unknown(binary):
        raise FabricError(f"whether nvlsm is installed is not known: {why(binary)}")
    return (is_unknown(packages) or not packages) and binary is not True


def _modules(
    made: Plan, facts: Mapping[str, Any], now: Mapping[str, Any], table: Mapping[str, Any], kernels: list[str]
) -> None:
    unloaded = now["unloaded"]
    if is_unknown(unloaded):
        raise FabricError(f"whether {' and '.join(NVLINK5_MODULES)} are loaded is not known: {why(unloaded)}")
    reasons = []
    for kernel in kernels:
        missing = now["modules"][kernel]
        if is_unknown(missing):
            reasons.append(f"which modules kernel {kernel} has is not known: {why(missing)}")
        elif missing:
            packages = _packages(table, facts, kernel)
            if packages:
                made.packages.append({"kernel": kernel, "install": [{"name": name} for name in packages]})
            else:
                reasons.append(
                    f"kernel {kernel} has no {' and no '.join(missing)}, which an NVLink 5 board needs (C15), and "
                    f"which package of {_system(facts)} brings them is not established; install it, then run again"
                )
    if reasons:
        raise FabricError("\n".join(reasons))
    text = "".join(f"{name}\n" for name in NVLINK5_MODULES)
    made.files.append(File(MODULES_FILE, f"# Written by gpufleet.kimi_k3.nvidia_fabric.\n{text}", _there(now)))
    made.load = list(unloaded)


def _there(now: Mapping[str, Any]) -> Any:
    return now["files"][MODULES_FILE]


def _packages(table: Mapping[str, Any], facts: Mapping[str, Any], kernel: str) -> list[str]:
    system = facts.get("host", {}).get("os")
    for row in table["kernel_modules"]:
        if isinstance(system, Mapping) and system.get("id") in row["ids"] and re.fullmatch(row["kernel"], kernel):
            return [name.format(kernel=kernel) for name in row["packages"]]
    return []


def _system(facts: Mapping[str, Any]) -> str:
    system = facts.get("host", {}).get("os")
    named = isinstance(system, Mapping) and not is_unknown(system)
    return str(system.get("name") or system.get("id")) if named else "this system"
