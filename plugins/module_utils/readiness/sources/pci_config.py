# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PCI configuration space: Access Control Services of the bridges (C30)."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import pci

BRIDGE_CLASS = "0604"
# Source: PCI Express Base Specification, extended capability 000dh; lspci's names.
ACS_CAPABILITY = 0x000D
CONTROLS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
REDIRECTS = ("ReqRedir", "CmpltRedir")
EXTENDED_START = 0x100
BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def acs(data: bytes, is_root: bool) -> list[str] | Unknown | None:
    """The ACS controls that are on; None where the function has no such capability.

    Without root the kernel shows only the first 64 bytes; a conventional PCI function has 256 and no extended part.
    """
    if len(data) < EXTENDED_START:
        if not is_root and len(data) in (0, 64):
            return Unknown("needs root")
        return Unknown(f"its configuration space reads as {len(data)} bytes")
    if data[:4] == b"\xff\xff\xff\xff":
        return Unknown("the device does not answer (its configuration space reads as ones)")
    if len(data) == EXTENDED_START:
        return None
    offset = EXTENDED_START
    seen: set[int] = set()
    while offset:
        header = int.from_bytes(data[offset : offset + 4], "little")
        if header == 0 and offset == EXTENDED_START:
            return None
        if offset < EXTENDED_START or offset in seen or offset + 8 > len(data) or header in (0, 0xFFFFFFFF):
            return Unknown("the list of capabilities in its configuration space is broken")
        seen.add(offset)
        if header & 0xFFFF == ACS_CAPABILITY:
            control = int.from_bytes(data[offset + 6 : offset + 8], "little")
            return [name for bit, name in enumerate(CONTROLS) if control >> bit & 1]
        offset = header >> 20 & 0xFFC
    return None


def bridges(node: Node, endpoints: list[str]) -> dict[str, Any] | Unknown:
    """``{bridge: its ACS controls that are on, None without ACS, or Unknown}``.

    Only the bridges above the ``endpoints`` (GPUs and HCAs) where /sys tells them: what stands above a boot disk does
    not touch traffic between GPU and HCA. Else every bridge.
    """
    found = pci.devices(node)
    if isinstance(found, Unknown):
        return found
    above: set[str] = set()
    for bdf in endpoints:
        link = node.readlink(f"{pci.DEVICES}/{bdf}")
        if isinstance(link, str):
            above.update(part for part in link.split("/")[:-1] if BDF.fullmatch(part))
    answers: dict[str, Any] = {}
    for device in found:
        if device.pci_class[:4] != BRIDGE_CLASS or (above and device.bdf not in above):
            continue
        data = node.read_bytes(device.folder + "/config", 4096)
        if data is None:
            answers[device.bdf] = Unknown("it has no readable configuration space", device.folder + "/config")
        else:
            answers[device.bdf] = data if isinstance(data, Unknown) else acs(data, node.is_root())
    return answers
