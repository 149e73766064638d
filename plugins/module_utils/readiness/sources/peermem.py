# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nvidia_peermem: whether ib_core holds it, and where it is absent, why (facts 2.1 to 2.7; C24, C25)."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import kernel_log, modules

HOLDERS = "/sys/module/ib_core/holders"
PEERS = "/sys/kernel/mm/memory_peers"
REGISTER = "ib_register_peer_memory_client"
# The file's name differs from the module's on Debian (facts, corrections (Debian names)).
FILES = ("nvidia_peermem", "nvidia-current-peermem", "nvidia-current-open-peermem")
LEGACY = "nv_peer_mem"
KALLSYMS_LIMIT = 64 << 20

# Why peermem is not bound. Names after C24, C25 and the table of facts 2.3.
ABI_MISMATCH = "peermem_abi_mismatch"
DRIVER_MISMATCH = "peermem_driver_mismatch"
BUILT_WITHOUT = "peermem_built_without_ofed"
NO_INTERFACE = "peermem_no_interface_in_ib_core"
KEY_REJECTED = "peermem_key_rejected"
NOT_ON_DISK = "peermem_not_on_disk"
NOT_LOADED = "peermem_not_loaded"

_NAME = r"(?:nvidia[-_](?:current[-_](?:open[-_])?)?peermem|nv_peer_mem)"
_SYMBOL = re.compile(
    _NAME + r": (?:(disagrees about version of symbol) (\w{1,80})|Unknown symbol (\w{1,80}) \(err (-?[0-9]{1,4})\))"
)
_WITHOUT = re.compile(_NAME + r"\b.{0,80}compiled without IB peer memory symbols", re.I)
_KEY = re.compile(_NAME + r".{0,80}(?:key was rejected|module verification failed: signature|unavailable key)", re.I)


def collect(node: Node) -> dict[str, Any]:
    """``{"ib_core", "loaded", "bound", "legacy", "proof", "on_disk", "log", "interface", "at_boot"}``.

    ``bound``: ib_core holds nvidia_peermem, or the peer-memory interface lists it. ``on_disk``, ``log`` and
    ``interface`` (whether ib_core exports the interface) are read only where it is not bound, to say why.
    """
    listed = modules.loaded(node)
    names: dict[str, Any] = listed if isinstance(listed, dict) else {}

    def is_loaded(name: str) -> bool | Unknown:
        there = True if name in names else node.exists(f"/sys/module/{name}")
        return listed if there is False and isinstance(listed, Unknown) else there

    facts: dict[str, Any] = {
        "ib_core": is_loaded("ib_core"),
        "loaded": is_loaded("nvidia_peermem"),
        "legacy": is_loaded(LEGACY),
    }
    facts["bound"], facts["proof"] = _bound(node, names, facts["loaded"])
    facts["on_disk"] = facts["log"] = facts["interface"] = None
    if facts["bound"] is not True:
        facts["on_disk"] = modules.on_disk(node, FILES)
        facts["log"] = _log(node)
        # The list of kernel symbols is long: only asked where it decides.
        if isinstance(facts["on_disk"], dict) and needs_ib_core(facts["on_disk"]):
            facts["interface"] = _interface(node)
    facts["at_boot"] = _at_boot(node)
    return facts


def needs_ib_core(on_disk: dict[str, str]) -> bool:
    """Whether the module was built with peer-memory symbols: only then does it depend on ib_core (facts 2.5)."""
    return "ib_core" in on_disk.get("depends", "").split(",")


def cause(facts: dict[str, Any]) -> tuple[str | None, str]:
    """(why it is not bound, the line that decided); (None, why it cannot be told) where nothing decides.

    What the kernel said of the last attempt comes first: a refused load explains itself.
    """
    log, on_disk = facts["log"], facts["on_disk"]
    if isinstance(log, dict) and log["cause"]:
        return log["cause"], log["line"]
    if isinstance(on_disk, Unknown):
        return None, on_disk.reason
    if on_disk is None:
        return NOT_ON_DISK, "modinfo finds none of " + ", ".join(FILES)
    if not needs_ib_core(on_disk):
        return BUILT_WITHOUT, f"modinfo depends: {on_disk.get('depends') or '(empty)'}"
    if facts["interface"] is False:
        return NO_INTERFACE, f"{REGISTER} is not in /proc/kallsyms"
    if isinstance(facts["interface"], Unknown):
        return None, facts["interface"].reason
    if isinstance(log, Unknown):
        return None, f"whether a load was refused cannot be told: the kernel log {log.reason}"
    return NOT_LOADED, "built for this ib_core, and the kernel log has no refusal"


def file_name(facts: dict[str, Any]) -> str:
    """What modprobe calls the module on this node."""
    path = facts["on_disk"].get("filename", "") if isinstance(facts["on_disk"], dict) else ""
    match = re.search(r"/([A-Za-z0-9_-]{1,64})\.ko(?:\.[a-z0-9]{1,4})?$", path)
    return match.group(1) if match else "nvidia_peermem"


def _bound(node: Node, names: dict[str, Any], loaded: bool | Unknown) -> tuple[bool | Unknown, str]:
    if loaded is not True:
        return loaded, "/sys/module/nvidia_peermem"
    holders = node.listdir(HOLDERS)
    if isinstance(holders, list) and "nvidia_peermem" in holders:
        return True, HOLDERS
    if "ib_core" in names and "nvidia_peermem" in names["ib_core"].users:
        return True, "/proc/modules"
    peers = [node.exists(f"{PEERS}/{name}/version") for name in ("nv_mem", "nv_mem_nc")]
    if True in peers:
        return True, PEERS
    unread = next((part for part in (holders, *peers) if isinstance(part, Unknown)), None)
    return (unread if unread is not None and "ib_core" not in names else False), HOLDERS


def _log(node: Node) -> dict[str, Any] | Unknown:
    """``{"cause", "line"}`` of the last message about the module, both None and empty where there is none."""
    log = kernel_log.read(node)
    if isinstance(log, Unknown):
        return log
    for line in reversed(log.lines):
        if _WITHOUT.search(line):
            return {"cause": BUILT_WITHOUT, "line": line[:300]}
        if _KEY.search(line) and "tainting kernel" not in line:
            return {"cause": KEY_REJECTED, "line": line[:300]}
        match = _SYMBOL.search(line)
        if match:
            return {"cause": _of_symbol(*match.groups()), "line": line[:300]}
    return {"cause": None, "line": ""}


def _of_symbol(disagrees: str | None, versioned: str | None, unknown: str | None, number: str | None) -> str:
    """Err -22 is a symbol of another version, err 0 or -2 one that is not there (C24 A against C25)."""
    symbol = versioned or unknown or ""
    if symbol.startswith("nvidia_p2p_"):
        return DRIVER_MISMATCH
    return ABI_MISMATCH if disagrees or number == "-22" else NO_INTERFACE


def _interface(node: Node) -> bool | Unknown:
    """Whether the running ib_core has the peer-memory interface: its symbol is in the kernel's list for every user."""

    def load() -> bool | Unknown:
        text = node.read("/proc/kallsyms", KALLSYMS_LIMIT)
        if isinstance(text, Unknown):
            return text
        # A list without ib_core's own symbols was cut or is of a kernel without names.
        if not text or "ib_register_device" not in text:
            return Unknown("/proc/kallsyms does not list the symbols of ib_core", "/proc/kallsyms")
        return re.search(rf" {REGISTER}\b", text) is not None

    return node.once("peer memory interface", load)


def _at_boot(node: Node) -> str | None:
    """The file of modules-load.d that loads it at boot, None where none does (a service may do it as well)."""
    for folder in ("/etc/modules-load.d", "/usr/lib/modules-load.d"):
        names = node.listdir(folder)
        for name in names if isinstance(names, list) else []:
            text = node.read(f"{folder}/{name}", 65536) if name.endswith(".conf") else None
            if isinstance(text, str) and re.search(r"^\s*nvidia[-_](?:current[-_])?peermem\s*$", text, re.M):
                return f"{folder}/{name}"
    return None
