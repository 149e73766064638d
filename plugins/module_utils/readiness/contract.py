# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a node must be: the keys of ``require``, their K3 defaults, and the check of what a user wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@-]{0,63}")
PATH = re.compile(r"/[A-Za-z0-9_./@+-]{0,254}")


class ContractError(ValueError):
    """A value of ``require`` or ``skip`` that cannot be right; the message names key, value and what is allowed."""


@dataclass(frozen=True)
class Key:
    """One key of ``require``: its type, K3 default, meaning and source."""

    type: str
    default: Any
    meaning: str
    source: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None


# Types: int, bool, choice, version (dotted integers or empty), name (device or host name or empty),
# names (a list of them), path (absolute or empty).
KEYS: dict[str, Key] = {
    "driver_branch_min": Key(
        "int",
        580,
        "Lowest driver branch the image runs on.",
        "facts 0.1, 1.3: CUDA 13 needs r580",
        minimum=1,
        maximum=9999,
    ),
    "driver_version": Key(
        "version", "", "Exact driver version; empty accepts every version of an allowed branch.", "facts 1.5"
    ),
    "driver_version_min": Key(
        "version",
        "580.65.06",
        "Lowest version within its own branch (other branches are held against driver_branch_min only); empty: none.",
        "facts 1.3, 1.5: the first release of 580 with CUDA 13.0",
    ),
    "driver_flavour": Key(
        "choice",
        "auto",
        "Kernel module flavour; auto: open from Blackwell on, either before.",
        "facts 1.10; C17",
        choices=("auto", "open", "proprietary"),
    ),
    "gpu_count": Key(
        "int",
        0,
        "GPUs the node must show; 0: what its product has (HGX 8, GB200/GB300 tray 4).",
        "facts 7.1",
        minimum=0,
        maximum=64,
    ),
    "gpu_busy_allowed": Key(
        "bool",
        False,
        "Whether processes on the GPUs are expected (a serving node); else they are residue that warns.",
        "a process left from an earlier start holds GPU memory",
    ),
    "gpu_idle_memory_mib": Key(
        "int",
        1024,
        "GPU memory in MiB that may be in use without a process before it counts as residue.",
        "no source names a figure",
        minimum=0,
    ),
    "gpu_pcie_replays_max": Key(
        "int",
        1000,
        "PCIe replays since the last reset of a GPU above which its link is warned about.",
        "no source names a figure",
        minimum=0,
    ),
    "fabric_registration_s": Key(
        "int",
        300,
        "Seconds after boot in which GPUs may still be registering with the NVLink fabric.",
        "C33",
        minimum=0,
        maximum=86400,
    ),
    "interconnect": Key(
        "choice",
        "auto",
        "How nodes of the deployment talk; auto: nvlink on GB200/GB300, rdma where HCAs are, else none.",
        "facts 0.4",
        choices=("auto", "rdma", "nvlink", "none"),
    ),
    "nvlink_domain": Key(
        "name",
        "",
        "Declared clusterUuid of the NVLink domain; empty: not compared.",
        "facts, corrections (NVLink domain)",
    ),
    "nvlink_partition": Key(
        "name",
        "",
        "Declared cliqueId of the NVLink partition; empty: not compared.",
        "facts, corrections (NVLink domain)",
    ),
    "rdma_hcas": Key(
        "names",
        [],
        "Declared HCAs of the rails; empty: every HCA with an active port of the highest rate.",
        "facts 0.18; peers 2.17",
    ),
    "rdma_rate_min_gbps": Key(
        "int",
        0,
        "Lowest port rate of a rail in Gb/s; 0: only unequal rails are reported.",
        "peers 2.17",
        minimum=0,
        maximum=10000,
    ),
    "rdma_flaps_max": Key(
        "int",
        3,
        "Link flaps of a rail's port since the driver was loaded, above which it is warned about.",
        "peers 1b: link_downed above 3 in three hours; a total only warns",
        minimum=0,
    ),
    "rdma_errors_max": Key(
        "int",
        0,
        "Errors of one kind on a rail's port since the driver was loaded, above which it is warned about.",
        "no source names a figure",
        minimum=0,
    ),
    "rail_isolated": Key(
        "bool",
        False,
        "Whether rails cannot reach each other (NCCL_CROSS_NIC=0), which rules GIN out.",
        "facts, corrections (GIN); C31",
    ),
    "gpudirect_path": Key(
        "choice",
        "auto",
        "Path GPU memory takes to the HCA; auto: dmabuf, else peermem.",
        "facts 2.10",
        choices=("auto", "dmabuf", "peermem", "none"),
    ),
    "gpudirect_gin": Key(
        "bool", False, "Whether the plan uses deepep_v2, which needs NCCL GIN.", "facts, corrections (GIN)"
    ),
    "container_engine": Key(
        "choice",
        "auto",
        "Engine that runs the image; auto: docker, else podman, else containerd.",
        "facts 6.9",
        choices=("auto", "docker", "podman", "containerd"),
    ),
    "memlock_min_kib": Key(
        "int",
        -1,
        "Lowest locked-memory limit of the engine's processes in KiB; -1: unlimited.",
        "facts 6.8; C28",
        minimum=-1,
    ),
    "data_interface": Key(
        "name", "", "Interface of NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME; empty: the default route's.", "facts 3.4"
    ),
    "network_mtu_min": Key(
        "int",
        0,
        "Lowest MTU of the data interface; 0: only read.",
        "no source names a figure",
        minimum=0,
        maximum=65536,
    ),
    "image_store_path": Key("path", "", "Where the engine stores images; empty: what the engine says.", "C44"),
    "image_room_gib": Key("int", 40, "Free room for the image in GiB.", "facts 6.5", minimum=0),
    "image_inodes_min": Key(
        "int", 200000, "Free inodes below which the image store warns.", "C44; no source names a figure", minimum=0
    ),
    "weights_path": Key(
        "path", "", "Where the weights are or shall be; empty: not decided yet, which only warns.", "facts 6.6"
    ),
    "weights_room_gb": Key("int", 1800, "Free room for the weights in GB (10^9 bytes).", "facts 6.6", minimum=0),
    "host_memory_min_gib": Key(
        "int", 512, "Memory below which the node is warned about, in GiB.", "no source names a figure", minimum=0
    ),
    "host_uptime_max_days": Key(
        "int", 55, "Uptime from which a reboot is advised on B200/B300.", "peers 2.17", minimum=1, maximum=3650
    ),
}


def defaults() -> dict[str, Any]:
    """The K3 contract as it is without a word from the user."""
    return {name: (list(key.default) if isinstance(key.default, list) else key.default) for name, key in KEYS.items()}


def resolve(given: Any) -> dict[str, Any]:
    """The defaults overlaid with ``given``; ContractError lists every fault at once."""
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ContractError(f"require must be a dictionary, not {shown(given)}")
    contract = defaults()
    faults: list[str] = []
    for name, value in given.items():
        key = KEYS.get(name) if isinstance(name, str) else None
        if key is None:
            faults.append(f"require has no key {shown(name)}; {nearest(name, KEYS)}")
            continue
        fault, clean = _checked(key, value)
        if fault:
            faults.append(f"require.{name}: {shown(value)} is not allowed; allowed: {fault}")
        else:
            contract[name] = clean
    if faults:
        raise ContractError("; ".join(faults))
    return contract


def resolve_skip(given: Any, known: list[str]) -> dict[str, str]:
    """``{check id: reason}`` as the user wrote it; ContractError for an unknown id or an empty reason."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ContractError(f"skip must be a dictionary of check id and reason, not {shown(given)}")
    faults = []
    for check, reason in given.items():
        if check not in known:
            faults.append(f"skip: there is no check {shown(check)}; {nearest(check, known)}")
        elif not isinstance(reason, str) or not reason.strip():
            faults.append(
                f"skip.{check}: {shown(reason)} is not allowed; allowed: a sentence that says why it is skipped"
            )
    if faults:
        raise ContractError("; ".join(faults))
    return {check: str(reason).strip() for check, reason in given.items()}


def _checked(key: Key, value: Any) -> tuple[str, Any]:
    """("what is allowed" when the value is not, else "", the value in its own type)."""
    if key.type == "bool":
        if isinstance(value, bool):
            return "", value
        return "true or false", None
    if key.type == "int":
        limits = (("from", key.minimum), ("to", key.maximum))
        bounds = "an integer" + "".join(f" {word} {limit}" for word, limit in limits if limit is not None)
        # A templated variable arrives as text; digits are accepted, a boolean is not a number.
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,15}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return bounds, None
        if (key.minimum is not None and value < key.minimum) or (key.maximum is not None and value > key.maximum):
            return bounds, None
        return "", value
    if key.type == "choice":
        return (
            ("", value)
            if isinstance(value, str) and value in key.choices
            else ("one of " + ", ".join(key.choices), None)
        )
    if key.type == "names":
        if isinstance(value, list) and all(isinstance(item, str) and NAME.fullmatch(item) for item in value):
            return ("", value) if len(set(value)) == len(value) else ("a list of device names without repetition", None)
        return "a list of device names such as mlx5_0", None
    patterns = {
        "version": (VERSION, "a version such as 580.126.20, quoted, or empty"),
        "name": (NAME, "a name of letters, digits and . _ : @ -, or empty"),
        "path": (PATH, "an absolute path of letters, digits and / . _ @ + -, or empty"),
    }
    pattern, allowed = patterns[key.type]
    if key.type == "name" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return ("", value) if isinstance(value, str) and (value == "" or pattern.fullmatch(value)) else (allowed, None)


def nearest(name: Any, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the closest ones, or all there are."""
    # Only a fault needs it, and loading it costs every probe.
    import difflib  # pylint: disable=import-outside-toplevel

    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, 2)
    return "did you mean " + " or ".join(close) + "?" if close else "there are: " + ", ".join(names)


def shown(value: Any) -> str:
    """A value for an error message: quoted, one line, without control characters, at most 80 characters."""
    return ascii(value)[:80]
