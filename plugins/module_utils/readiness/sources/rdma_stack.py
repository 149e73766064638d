# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The RDMA software of a node: its kernel modules, and whether the vendor's stack or the kernel's own runs (C25)."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import modules, packages

# The RDMA module beside the driver of an adapter. Source: kernel drivers/infiniband/hw, facts 3.8.
RDMA_MODULE = {
    "mlx5_core": "mlx5_ib",
    "mlx4_core": "mlx4_ib",
    "bnxt_en": "bnxt_re",
    "ionic": "ionic_rdma",
    "ice": "irdma",
    "i40e": "irdma",
    "idpf": "irdma",
    "mana": "mana_ib",
    "efa": "efa",
}
COMMON = ("ib_core", "ib_uverbs", "ib_umad")
INBOX, OUT_OF_TREE = "inbox", "vendor"
OUT_OF_TREE_FOLDERS = ("updates", "extra", "weak-updates")
KERNEL_PACKAGES = ("mlnx-ofed-kernel", "mlnx-ofa_kernel", "kmod-mlnx-ofa_kernel", "doca-kernel")


def collect(node: Node) -> dict[str, Any]:
    """``{"modules": {name: loaded}, "ofed": version or None, "ib_core": {...} or None, "kind", "userspace_only"}``.

    ``kind``: inbox, vendor or Unknown, by where the ib_core on disk for this kernel stands. ``reload_due``: the loaded
    ib_core is another build than the one on disk.
    """
    core = modules.on_disk(node, ["ib_core"])
    return {
        "modules": _loaded(node),
        "ofed": _ofed(node),
        "ib_core": core,
        "kind": _kind(core),
        "reload_due": _reload_due(node, core),
        "userspace_only": _userspace_only(node),
    }


def _loaded(node: Node) -> dict[str, Any]:
    listed = modules.loaded(node)
    names = sorted({*COMMON, *RDMA_MODULE, *RDMA_MODULE.values()})
    answers: dict[str, Any] = {}
    for name in names:
        if isinstance(listed, dict) and name in listed:
            answers[name] = True
            continue
        # A driver built into the kernel is not in the list of modules.
        there = node.exists(f"/sys/module/{name}")
        answers[name] = listed if there is False and isinstance(listed, Unknown) else there
    return answers


def _ofed(node: Node) -> str | Unknown | None:
    result = node.run(["ofed_info", "-s"])
    if result.error == "missing":
        return None
    if not result.ok:
        return result.unknown()
    lines = result.stdout.strip().splitlines()
    return lines[0].strip().rstrip(":")[:80] if lines else Unknown("`ofed_info -s` said nothing", "ofed_info -s")


def _kind(core: dict[str, str] | Unknown | None) -> str | Unknown:
    if isinstance(core, Unknown):
        return core
    if core is None:
        return Unknown("no ib_core is on disk for this kernel", "modinfo ib_core")
    path = core.get("filename", "")
    if path == "(builtin)":
        return INBOX
    below = path.split("/lib/modules/", 1)[-1].split("/")[1:]
    if below[:1] == ["kernel"]:
        return INBOX
    if below and below[0] in OUT_OF_TREE_FOLDERS:
        return OUT_OF_TREE
    return Unknown(f"ib_core stands at {path[:120] or 'no path'}, which tells nothing", "modinfo ib_core")


def _reload_due(node: Node, core: dict[str, str] | Unknown | None) -> bool | Unknown:
    running = node.value("/sys/module/ib_core/srcversion")
    stored = core.get("srcversion") if isinstance(core, dict) else None
    if not isinstance(running, str) or not stored:
        return Unknown("the loaded and the stored ib_core cannot be compared", "/sys/module/ib_core/srcversion")
    return running != stored


def _userspace_only(node: Node) -> bool:
    """Whether the vendor's libraries are installed on purpose without its kernel modules."""
    installed = packages.installed(node)
    if isinstance(installed, Unknown):
        return False
    names = installed.by_name
    return "doca-ofed-userspace" in names and not any(name.startswith(KERNEL_PACKAGES) for name in names)
