# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What kind of NVLink fabric this node is part of. Told by what the node is, never by a product's name (C16)."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR, product
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import pci

# Kinds. HGX: switches on this node (a fabric manager runs here). TRAY: switches elsewhere in the rack. NONE: no switch.
HGX = "hgx"
TRAY = "tray"
NONE = "none"

SWITCH_FOLDER = "/proc/driver/nvidia-nvswitch/devices"
INFINIBAND = "/sys/class/infiniband"
VPD_LIMIT = 4096


def collect(node: Node) -> dict[str, Any]:
    """``{"kind": HGX|TRAY|NONE|Unknown, "nvlsm": bool|Unknown, "products": [names], "evidence": text}``.

    A listed product decides, unless an NVSwitch is seen beside it. The vital product data of the RDMA devices is read
    only for a product that the table does not list: such a read takes long.
    Source: facts 1.41, 5.13; peers 2.14 and trap 13.
    """
    found = pci.devices(node)
    if isinstance(found, Unknown):
        return {"kind": found, "nvlsm": found, "products": [], "evidence": pci.DEVICES}
    ids = {(device.vendor, device.device) for device in found if device.is_gpu and device.vendor == NVIDIA_VENDOR}
    products = [product(*pair) for pair in sorted(ids)]
    if not products:
        return _answer(NONE, False, [], "no NVIDIA GPU on the PCI bus")
    listed = [item for item in products if item is not None]
    names = [item.name for item in listed]
    switches = [device.bdf for device in found if device.is_nvswitch]
    entries = node.listdir(SWITCH_FOLDER)
    if any(item.form == TRAY for item in listed):
        return _answer(TRAY, False, names, f"product {', '.join(names)}")
    nvlsm: bool | Unknown = any(item.nvlsm for item in listed)
    if any(item.fabric_manager for item in listed):
        return _answer(HGX, nvlsm, names, f"product {', '.join(names)}")
    if switches:
        return _answer(HGX, nvlsm, names, f"NVSwitch {', '.join(switches[:4])} on the PCI bus")
    if isinstance(entries, list) and entries:
        return _answer(HGX, nvlsm, names, f"{SWITCH_FOLDER} holds {', '.join(entries[:4])}")
    if len(listed) == len(products):
        return _answer(NONE, False, names, f"product {', '.join(names)}")
    return _unlisted(node, names)


def _answer(kind: Any, nvlsm: Any, names: list[str], evidence: str) -> dict[str, Any]:
    return {"kind": kind, "nvlsm": nvlsm, "products": names, "evidence": evidence}


def _unlisted(node: Node, names: list[str]) -> dict[str, Any]:
    """An unlisted product: an NVLink 5 board betrays itself by RDMA devices that manage its switches."""
    managed = _switch_managers(node)
    if isinstance(managed, list) and managed:
        return _answer(HGX, True, names, f"{INFINIBAND}/{managed[0]}/device/vpd holds SW_MNG")
    why = f" ({managed.reason})" if isinstance(managed, Unknown) else ""
    reason = f"this GPU product is not in the table, and no NVSwitch shows what fabric it has{why}"
    return _answer(Unknown(reason, pci.DEVICES), Unknown(reason, pci.DEVICES), names, pci.DEVICES)


def _switch_managers(node: Node) -> list[str] | Unknown:
    names = node.listdir(INFINIBAND)
    if names is None:
        return []
    if isinstance(names, Unknown):
        return names
    found = []
    unread: Unknown | None = None
    for name in names:
        data = node.read_bytes(f"{INFINIBAND}/{name}/device/vpd", VPD_LIMIT)
        if isinstance(data, Unknown):
            unread = data
        elif data and re.search(rb"\bSW_MNG\b", data):
            found.append(name)
    return unread if unread is not None and not found else found
