# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the facts of one node say of its place in the fleet, as inventory variables. Pure.

The same for facts that were just collected (with Unknown objects in them) and for those of a report (where these are
``{"unknown": reason}``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _rails
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import KEYS, NAME
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown, version_tuple
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR

ARCHITECTURE = re.compile(r"[a-z0-9_]{2,20}")
CLUSTER_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CLIQUE_ID = re.compile(r"[0-9]{1,10}")
PATHS = tuple(choice for choice in KEYS["gpudirect_path"].choices if choice != "auto")

# Variables in the order in which they are told.
VARIABLES = (
    "gpu_model",
    "gpu_count",
    "arch",
    "driver_version",
    "k3_nvlink_domain",
    "k3_nvlink_partition",
    "k3_rdma_hcas",
    "rdma_rate",
    "rdma_link_layer",
    "k3_data_interface",
    "k3_gpudirect_path",
)


def observed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The inventory variables that the facts by concern support, and ``unknown``: ``{variable: why it is not told}``.

    gpu_model (short product name), gpu_count, arch (x86_64, aarch64), driver_version (of the loaded module),
    k3_nvlink_domain (clusterUuid), k3_nvlink_partition (cliqueId as a text; "0" is one), k3_rdma_hcas (the rails as
    NCCL_IB_HCA spells them), rdma_rate (Gb/s of each of them), rdma_link_layer (InfiniBand, Ethernet),
    k3_data_interface and k3_gpudirect_path.
    What this node does not have (no domain, no rail, no GPU) is in neither. Facts that do not have the form of the
    probe's may raise AttributeError, KeyError, TypeError or ValueError.
    """
    told: dict[str, Any] = {}
    revived = _revived(facts)
    told.update(_gpus(revived))
    told.update(_fabric(revived, told["gpu_vendors"]))
    told.update(_rdma(revived))
    told["arch"] = _of_form(_fact(revived, "host", "arch"), ARCHITECTURE, "an architecture")
    told["k3_data_interface"] = _of_form(_fact(revived, "network", "default"), NAME, "the name of an interface")
    path = _fact(revived, "gpudirect", "path")
    told["k3_gpudirect_path"] = path if path in PATHS or not isinstance(path, str) else _strange(path, "a path")
    unknown = {name: told[name].reason for name in VARIABLES if isinstance(told[name], Unknown)}
    known = {name: told[name] for name in VARIABLES if name not in unknown and told[name] is not None}
    return {**known, "unknown": unknown}


def _gpus(facts: Mapping[str, Any]) -> dict[str, Any]:
    """gpu_model and gpu_count as the PCI bus shows them, and the vendors (Unknown where the bus was not read)."""
    rows = _fact(facts, "gpu", "pci")
    if isinstance(rows, Unknown):
        return {"gpu_model": rows, "gpu_count": rows, "gpu_vendors": rows}
    names = sorted({str(row["product"]) for row in rows if row["product"] is not None})
    unlisted = sorted({f"{row['vendor']}:{row['device']}" for row in rows if row["product"] is None})
    model: str | Unknown | None = names[0] if names else None
    if unlisted:
        model = Unknown(f"the product of PCI id {', '.join(unlisted)[:80]} is not in the table of known GPUs")
    elif len(names) > 1:
        model = Unknown(f"this node mixes GPUs: {', '.join(names)}")
    return {"gpu_model": model, "gpu_count": len(rows), "gpu_vendors": {str(row["vendor"]) for row in rows}}


def _fabric(facts: Mapping[str, Any], vendors: set[str] | Unknown) -> dict[str, Any]:
    """Domain, partition and driver; a node whose bus shows no GPU of NVIDIA has none of them."""
    if not isinstance(vendors, Unknown) and NVIDIA_VENDOR not in vendors:
        return {"k3_nvlink_domain": None, "k3_nvlink_partition": None, "driver_version": None}
    driver = _fact(facts, "fabric", "driver")
    if isinstance(driver, str) and version_tuple(driver) is None:
        driver = _strange(driver, "a driver version")
    return {
        "k3_nvlink_domain": _of_form(_fact(facts, "fabric", "domain"), CLUSTER_UUID, "a clusterUuid"),
        "k3_nvlink_partition": _of_form(_fact(facts, "fabric", "partition"), CLIQUE_ID, "a cliqueId"),
        "driver_version": driver,
    }


def _rdma(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The rails, their rate and link layer, all None without rails."""
    devices = _fact(facts, "rdma", "devices")
    found = devices if isinstance(devices, Unknown) else _rails.rails({"devices": devices}, [])
    if isinstance(found, Unknown):
        return {"k3_rdma_hcas": found, "rdma_rate": found, "rdma_link_layer": found}
    names: list[str] | Unknown | None = [rail.name for rail in found.rails] or None
    for rail in found.rails:
        if isinstance(rail.of["switch_management"], Unknown):
            # An HCA that manages the NVSwitches looks like a rail.
            why = rail.of["switch_management"].reason
            names = Unknown(f"whether {rail.device} is a rail or manages the NVSwitches cannot be told: {why}")
            break
        if not NAME.fullmatch(rail.name):
            names = _strange(rail.name, "the name of an HCA")
            break
    if isinstance(names, Unknown):
        return {"k3_rdma_hcas": names, "rdma_rate": names, "rdma_link_layer": names}
    return {
        "k3_rdma_hcas": names,
        "rdma_rate": _one([rail.port["rate_gbps"] for rail in found.rails], "rates"),
        "rdma_link_layer": _one([rail.port["link_layer"] for rail in found.rails], "link layers"),
    }


def _one(values: list[Any], what: str) -> Any:
    """The value that all rails share, None without rails. A whole rate is an integer."""
    unread = next((value for value in values if isinstance(value, Unknown)), None)
    if unread is not None:
        return unread
    different = sorted(set(values))
    if len(different) > 1:
        return Unknown(f"the rails have different {what}: {', '.join(str(value) for value in different)}")
    value = different[0] if different else None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fact(facts: Mapping[str, Any], concern: str, name: str) -> Any:
    """One fact; Unknown where its concern was not read."""
    if concern not in facts:
        return Unknown("it was not asked for")
    part = facts[concern]
    return part if isinstance(part, Unknown) else part[name]


def _of_form(value: Any, form: re.Pattern[str], what: str) -> Any:
    """``value``; Unknown in place of a text that is none of ``what``: it would become part of an inventory."""
    return value if not isinstance(value, str) or form.fullmatch(value) else _strange(value, what)


def _strange(value: str, what: str) -> Unknown:
    return Unknown(f"the node tells {ascii(value)[:80]}, which is not {what}")


def _revived(value: Any) -> Any:
    """``value`` with an Unknown in each place where its JSON form stands."""
    if isinstance(value, Mapping):
        if set(value) == {"unknown"} and isinstance(value["unknown"], str):
            return Unknown(value["unknown"])
        return {name: _revived(item) for name, item in value.items()}
    return [_revived(item) for item in value] if isinstance(value, (list, tuple)) else value
