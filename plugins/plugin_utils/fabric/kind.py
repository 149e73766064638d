# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NVLink fabric a node has, by the facts of its probe; never by a product's name (C16)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError, is_unknown, why

NONE = "none"
HGX = "hgx"
HGX_NVLINK5 = "hgx_nvlink5"
TRAY = "tray"
# What a kernel's name may hold before it becomes an argument.
_KERNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,99}")


def of(facts: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    """``{"kind", "evidence", "kernels": [the running one and the next boot's]}``. ``wanted``: nvidia_fabric_kind.

    Raises:
        FabricError: where it is not known, not what the site says, or somebody else's to set up.
    """
    kind, evidence = _kind(facts, wanted)
    if kind == NONE:
        return {"kind": NONE, "evidence": evidence, "kernels": []}
    _refuse_owner(facts)
    return {"kind": kind, "evidence": evidence, "kernels": kernels(facts)}


def _kind(facts: Mapping[str, Any], wanted: str) -> tuple[str, str]:
    if wanted == NONE:
        return NONE, "nvidia_fabric_kind: none"
    if not facts:
        raise FabricError("the probe gave no facts of this node, so nothing of it is changed")
    machine = facts.get("machine")
    vendors = machine.get("vendors") if isinstance(machine, Mapping) else machine
    if isinstance(vendors, list) and NVIDIA_VENDOR not in vendors:
        seen, evidence = NONE, "no NVIDIA GPU on the PCI bus"
    else:
        seen, evidence = _seen(facts, wanted)
    if wanted not in ("auto", seen):
        raise FabricError(
            f"nvidia_fabric_kind: '{wanted}' is not allowed on this node, which is {seen} ({evidence}); allowed: auto, "
            f"{seen}, or none to leave its fabric alone"
        )
    return seen, evidence


def _seen(facts: Mapping[str, Any], wanted: str) -> tuple[str, str]:
    fabric = facts.get("fabric")
    told = fabric.get("kind") if isinstance(fabric, Mapping) and not is_unknown(fabric) else fabric
    kind = told.get("kind") if isinstance(told, Mapping) and not is_unknown(told) else told
    if isinstance(kind, str) and isinstance(told, Mapping):
        return HGX_NVLINK5 if kind == HGX and told["nvlsm"] is True else kind, str(told["evidence"])
    if wanted == "auto":
        raise FabricError(
            f"what NVLink fabric this node has is not known: {why(kind)}; say it with nvidia_fabric_kind, or probe "
            "again"
        )
    return wanted, f"nvidia_fabric_kind; the probe cannot tell: {why(kind)}"


def _refuse_owner(facts: Mapping[str, Any]) -> None:
    owners = facts.get("owners")
    owner = owners.get("fabric") if isinstance(owners, Mapping) and not is_unknown(owners) else owners
    if owner is None and isinstance(owners, Mapping):
        return
    if isinstance(owner, str):
        raise FabricError(f"{owner[:1].upper()}{owner[1:]} manages this node's fabric; have it changed there")
    raise FabricError(f"who manages this node's fabric is not known: {why(owner)}")


def kernels(facts: Mapping[str, Any]) -> list[str]:
    """The running kernel and the next boot's; where the latter is not known, every installed one."""
    driver = facts.get("driver")
    known = driver.get("kernels") if isinstance(driver, Mapping) else None
    if not isinstance(known, Mapping) or not isinstance(known.get("running"), str):
        raise FabricError(f"which kernels this node has is not known: {why(known if known is not None else driver)}")
    boot = known["boot"] if isinstance(known["boot"], str) else known["installed"]
    if not isinstance(boot, (str, list)):
        raise FabricError(f"which kernel the next boot takes is not known: {why(boot)}")
    found = list(dict.fromkeys([known["running"], *([boot] if isinstance(boot, str) else boot)]))
    strange = [name for name in found if not _KERNEL.fullmatch(name)]
    if strange:
        raise FabricError(f"this is no name of a kernel: {ascii(strange[0])[:80]}")
    return found
