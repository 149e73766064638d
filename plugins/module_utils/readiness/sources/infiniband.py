# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""RDMA hardware: HCAs on the PCI bus; devices, ports, GIDs and counters of /sys/class/infiniband (facts 5.14)."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR, product
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import pci
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.pci_config import BDF

CLASS = "/sys/class/infiniband"
MELLANOX, PENSANDO, AMAZON = "15b3", "1dd8", "1d0f"

# Port counters by what they speak of. Source: kernel Documentation/ABI/stable/sysfs-class-infiniband, peers 1b; C36.
FLAPS = ("link_downed", "link_error_recovery")
DAMAGE = (
    "symbol_error",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "excessive_buffer_overrun_errors",
    "rx_icrc_encapsulated",
)
# Congestion and retransmission: ordinary traffic moves them, so they are only shown.
TRAFFIC = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "port_xmit_discards")

RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,2})?) Gb/sec\b")
COUNT = re.compile(r"([0-9]{1,20})\Z")
STATE = re.compile(r"[0-9]{1,2}: ?([A-Za-z_]{1,24})")
GID = re.compile(r"(?:[0-9a-f]{4}:){7}[0-9a-f]{4}")
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
# A table is filled from its start; after so many free places nothing follows.
GIDS_FREE_MAX = 32


def hcas(node: Node) -> list[dict[str, Any]] | Unknown:
    """``[{"bdf", "vendor", "driver", "switch_management"}]``: the PCI functions that are RDMA adapters.

    An ordinary NIC of a vendor that also makes RDMA adapters counts only once the kernel shows an RDMA device on it.
    Virtual functions seen beside their physical function are left out.
    """

    def load() -> list[dict[str, Any]] | Unknown:
        found = pci.devices(node)
        if isinstance(found, Unknown):
            return found
        names = node.listdir(CLASS)
        in_use = {_bdf(node, name) for name in names} if isinstance(names, list) else set()
        bridged = _has_switch_bridges(node)
        answers = []
        for item in found:
            kind = item.pci_class[:4]
            adapter = (
                kind == "0207"
                or (kind == "0200" and item.vendor in (MELLANOX, PENSANDO))
                or (item.vendor == AMAZON and item.device.startswith("efa"))
                or item.bdf in in_use
            )
            if adapter and node.exists(item.folder + "/physfn") is False:
                management = _switch_management(node, item) if bridged else False
                answers.append(
                    {
                        "bdf": item.bdf,
                        "vendor": item.vendor,
                        "driver": item.driver,
                        "switch_management": management,
                    }
                )
        return answers

    return node.once("hcas", load)


def devices(node: Node) -> dict[str, Any] | Unknown:
    """The RDMA devices by name; empty where the kernel has no RDMA device or no RDMA stack.

    ``{"bdf", "driver", "numa", "hca_type", "board_id", "firmware", "netdevs", "soft", "switch_management", "ports"}``;
    ports by number: ``{"state", "phys_state", "rate_gbps", "link_layer", "counters", "gids"}``. ``soft``: an emulation
    on an ordinary NIC (rxe, siw). What cannot be read is Unknown in its place.
    """

    def load() -> dict[str, Any] | Unknown:
        names = node.listdir(CLASS)
        if isinstance(names, Unknown):
            return names
        adapters = hcas(node)
        known = {} if isinstance(adapters, Unknown) else {item["bdf"]: item for item in adapters}
        found: dict[str, Any] = {}
        for name in sorted(names or [], key=_natural):
            folder = f"{CLASS}/{name}"
            if node.exists(folder + "/device/physfn") is True:
                continue
            bdf = _bdf(node, name)
            hca_type = _text(node, folder + "/hca_type")
            numa = _text(node, folder + "/device/numa_node")
            netdevs = node.listdir(folder + "/device/net")
            adapter = known.get(bdf or "", {})
            found[name] = {
                "bdf": bdf,
                "driver": adapter.get("driver"),
                "numa": int(numa) if numa is not None and re.fullmatch(r"[0-9]{1,4}", numa) else None,
                "hca_type": hca_type,
                "board_id": _text(node, folder + "/board_id"),
                "firmware": _text(node, folder + "/fw_ver"),
                "netdevs": netdevs if isinstance(netdevs, list) else [],
                "soft": bdf is None and hca_type is None,
                "switch_management": adapter.get("switch_management", False),
                "ports": _ports(node, folder),
            }
        return found

    return node.once("infiniband devices", load)


def _ports(node: Node, folder: str) -> dict[str, Any] | Unknown:
    numbers = node.listdir(folder + "/ports")
    if isinstance(numbers, Unknown):
        return numbers
    return {number: _port(node, f"{folder}/ports/{number}") for number in numbers or [] if number.isdigit()}


def _port(node: Node, folder: str) -> dict[str, Any]:
    layer = _needed(node, folder + "/link_layer", re.compile(r"(InfiniBand|Ethernet)\Z"))
    rate = _needed(node, folder + "/rate", RATE)
    return {
        "state": _needed(node, folder + "/state", STATE),
        "phys_state": _needed(node, folder + "/phys_state", STATE),
        "rate_gbps": float(rate) if isinstance(rate, str) else rate,
        "link_layer": layer,
        "counters": _counters(node, folder),
        "gids": _gids(node, folder) if layer == "Ethernet" else [],
    }


def _counters(node: Node, folder: str) -> dict[str, int | Unknown]:
    """The counters of FLAPS, DAMAGE and TRAFFIC that this port has; Unknown for one that is there and tells no number.

    A port without a counter unit says words in their place.
    """
    found: dict[str, int | Unknown] = {}
    for name in FLAPS + DAMAGE + TRAFFIC:
        for part in ("counters", "hw_counters"):
            value = _needed(node, f"{folder}/{part}/{name}", COUNT)
            if isinstance(value, str):
                found[name] = int(value)
                break
            if node.value(f"{folder}/{part}/{name}") is not None:
                found[name] = value
    return found


def _gids(node: Node, folder: str) -> list[dict[str, Any]] | Unknown:
    """``[{"index", "gid", "type"}]`` of the places in use."""
    numbers = node.listdir(folder + "/gids")
    if isinstance(numbers, Unknown):
        return numbers
    found, free = [], 0
    for index in sorted(int(number) for number in numbers or [] if re.fullmatch("[0-9]{1,5}", number)):
        gid = node.value(f"{folder}/gids/{index}")
        if isinstance(gid, Unknown):
            return gid
        gid = (gid or "").lower()
        if gid == NO_GID or not GID.fullmatch(gid):
            free += 1
            if free > GIDS_FREE_MAX:
                break
            continue
        free = 0
        found.append({"index": index, "gid": gid, "type": _text(node, f"{folder}/gid_attrs/types/{index}")})
    return found


def _has_switch_bridges(node: Node) -> bool:
    """Only NVLink 5 baseboards carry HCAs that lead to their NVSwitches; elsewhere no VPD, which is slow, is read."""
    found = pci.gpus(node)
    if isinstance(found, Unknown):
        return True
    for item in found:
        kind = product(item.vendor, item.device)
        if item.vendor == NVIDIA_VENDOR and (kind is None or kind.nvlsm):
            return True
    return False


def _switch_management(node: Node, item: pci.PciDevice) -> bool | Unknown:
    """Whether the product data says SW_MNG: an HCA for managing the NVSwitches, never a rail. Source: peers 2.14."""
    data = node.read_bytes(item.folder + "/vpd", 4096)
    if isinstance(data, Unknown):
        return data
    return data is not None and b"SW_MNG" in data


def _natural(name: str) -> list[tuple[int, str]]:
    """mlx5_10 after mlx5_9."""
    return [(int(part), "") if part.isascii() and part.isdigit() else (0, part) for part in re.split("([0-9]+)", name)]


def _bdf(node: Node, name: str) -> str | None:
    link = node.readlink(f"{CLASS}/{name}/device")
    last = link.rsplit("/", 1)[-1] if isinstance(link, str) else ""
    return last if BDF.fullmatch(last) else None


def _text(node: Node, path: str) -> str | None:
    value = node.value(path)
    return value[:80] if isinstance(value, str) else None


def _needed(node: Node, path: str, pattern: re.Pattern[str]) -> str | Unknown:
    value = node.value(path)
    if value is None:
        return Unknown(f"{path} does not exist", path)
    if isinstance(value, Unknown):
        return value
    match = pattern.match(value)
    return match.group(1) if match else Unknown(f"{path} says {value[:40]!r}, which is not a known form", path)
