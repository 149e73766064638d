# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a change of the fabric's configuration needs to know of a node, beyond the probe. Reads, and changes nothing."""

from __future__ import annotations

import json
import time
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.fabric_node import kernel_modules, module_options
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _fabric_imex as imex
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _fabric_manager as manager
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns.fabric import FIELDS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    gpu_holders,
    initramfs,
    nvidia_module,
    nvidia_smi,
    systemd,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.fabric_kind import HGX, TRAY

# What a node may be, as the role calls it, and how the probe calls that.
KINDS: dict[str, dict[str, Any]] = {
    "hgx": {"kind": HGX, "nvlsm": False},
    "hgx_nvlink5": {"kind": HGX, "nvlsm": True},
    "tray": {"kind": TRAY, "nvlsm": False},
}
UNITS = {"manager": manager.MANAGER, "imex": imex.IMEX}
UNIT_KEYS = ("LoadState", "ActiveState", "SubState", "UnitFileState", "Result")
ADDRESSES = ["ip", "-j", "addr", "show"]


def read(node: Node, kind: str, kernels: list[str], options_file: str, files: list[str]) -> dict[str, Any]:
    """Everything that decides what is to be done; what cannot be read is Unknown.

    ``progress()`` and ``{"manager", "nvlsm", "imex"}`` as the probe has them, ``"modules": {kernel: [missing on
    disk]}``, ``"options": [{source, option, value}]``, ``"params": {name: value in force}``, ``"initramfs":
    {kernel: whether it is older than options_file}`` of those that have one, ``"files": {path: text or None}``,
    ``"addresses": [own]``, ``"holders": [processes with a GPU open]``, ``"config": text of IMEX's configuration or
    None``, ``"nodes_newer"``: whether IMEX was started before its nodes file was last written (None: it does not run).
    """
    tray = kind == "tray"
    stale = [(kernel, initramfs.stale(node, kernel, [options_file])) for kernel in (kernels if tray else ())]
    return {
        **progress(node, kind),
        **manager.collect(node, KINDS[kind]),
        **imex.collect(node, KINDS[kind]),
        "modules": {}
        if kind != "hgx_nvlink5"
        else {kernel: kernel_modules.missing(node, kernel, manager.NVLINK5_MODULES) for kernel in kernels},
        "options": module_options.read(node) if tray else [],
        "params": nvidia_module.parameters(node) if tray else {},
        "initramfs": {kernel: old for kernel, old in stale if old is not None},
        "files": {path: node.read(path) for path in files},
        "addresses": addresses(node) if tray else [],
        "holders": gpu_holders.read(node),
        "config": node.read(imex.IMEX_CONFIG) if tray else None,
        "nodes_newer": _newer(node, imex.IMEX_NODES, imex.IMEX) if tray else None,
    }


def progress(node: Node, kind: str) -> dict[str, Any]:
    """``{"driver", "gpus": [{bdf, state, status}], "units": {name: {LoadState…}}, "unloaded": [modules]}``."""
    smi = nvidia_smi.query(node)
    fields = {name: FIELDS[name] for name in ("state", "status")}
    told = {name: systemd.unit(node, unit) for name, unit in UNITS.items()}
    return {
        "driver": nvidia_module.loaded(node)["version"],
        "gpus": smi if isinstance(smi, Unknown) else [gpu.row(fields) for gpu in smi.gpus[: nvidia_smi.GPUS_KEPT]],
        "units": {
            name: unit if isinstance(unit, Unknown) else {key: unit.get(key, "") for key in UNIT_KEYS}
            for name, unit in told.items()
        },
        "unloaded": manager.unloaded(node) if kind == "hgx_nvlink5" else [],
    }


def settled(now: dict[str, Any], unit: str) -> bool:
    """Whether there is nothing left to wait for: every GPU registered (C33) and the unit up, or it failed."""
    state = now["units"][unit]
    if isinstance(state, Unknown):
        return False
    if state["ActiveState"] == "failed":
        return True
    return state["ActiveState"] == "active" and registered(now["gpus"])


def registered(gpus: Any) -> bool:
    """Whether there are GPUs, and all of them have registered with the fabric."""
    return (
        isinstance(gpus, list)
        and bool(gpus)
        and all((gpu["state"], gpu["status"]) == ("Completed", "Success") for gpu in gpus)
    )


def addresses(node: Node) -> list[str] | Unknown:
    """The addresses of the node's interfaces, without those that only it can reach."""
    result = node.run(ADDRESSES)
    if not result.ok:
        return result.unknown()
    try:
        told = [
            address["local"]
            for link in json.loads(result.stdout)
            for address in link.get("addr_info", [])
            if address.get("scope") == "global"
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Unknown(f"`{result.source}` did not tell the node's addresses", result.source)
    return sorted({address for address in told if isinstance(address, str)})


def _newer(node: Node, path: str, unit: str) -> bool | Unknown | None:
    """A run that was killed between the file and the restart leaves this to be seen."""
    result = node.run(["systemctl", "show", unit, "--property=ActiveState,ActiveEnterTimestampMonotonic"])
    if not result.ok:
        return result.unknown()
    told = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    entered, written = told.get("ActiveEnterTimestampMonotonic", ""), initramfs.changed(node, path)
    if told.get("ActiveState") != "active" or written is None:
        return None
    if not entered.isdigit():
        return Unknown(f"systemd does not tell since when {unit} runs", result.source)
    age = time.time() - written
    if age < 0:
        return Unknown(f"the time of {path} lies in the future; `touch` it", path)
    # By age, since the one clock jumps and the other counts from boot.
    return age < time.clock_gettime(time.CLOCK_MONOTONIC) - int(entered) / 1e6
