# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a node is left as it is: each reason one sentence for a person on call, all of them at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.request import upstream
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import Table, is_unknown, why

MIB = 1 << 20
# DKMS writes a module for each kernel, and the initramfs grows with it.
GROWTH = 1.2


def of_node(facts: Mapping[str, Any], wish: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What keeps the role off this node whatever it would change. ``now``: the answer of driver_preconditions."""
    found = [_owner(facts), _runfile(facts), _root(now), now.get("package_manager", "")]
    if not wish["repair_packages"]:
        found.append(_broken(facts))
    return [reason for reason in found if reason]


def of_change(
    facts: Mapping[str, Any],
    wish: Mapping[str, Any],
    now: Mapping[str, Any],
    request: Mapping[str, Any],
    plan: Mapping[str, Any],
    table: Table,
) -> list[str]:
    """What forbids this very change; a plan that changes no package is never refused for it."""
    if not changes(plan):
        return []
    found = [_secure_boot(facts, request), *_known_bad(wish, request, table), _busy(now, table, wish)]
    found += _rooms(now, table, plan)
    return [reason for reason in found if reason]


def of_headers(wanted: Sequence[Mapping[str, Any]], plans: Sequence[Mapping[str, Any]]) -> list[str]:
    """Kernels whose headers are not there although their package is: no plan would bring them (C05)."""
    return [
        f"the headers of kernel {row['kernel']} are installed ({row['install'][0]['name']}), and "
        f"/lib/modules/{row['kernel']}/build leads nowhere; install that package again"
        for row, plan in zip(wanted, plans, strict=True)
        if plan["certain"] and not changes(plan)
    ]


def changes(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The packages that a plan changes."""
    return [item for item in plan["packages"] if item["action"] != "keep"]


def busy(now: Mapping[str, Any], wish: Mapping[str, Any], table: Table) -> str:
    """Who works on the GPUs, as a sentence; empty where nobody does."""
    return _busy(now, table, wish)


# ---- the node ------------------------------------------------------------------------------------------------------


def _owner(facts: Mapping[str, Any]) -> str:
    owners = facts.get("owners")
    owner = owners.get("driver") if isinstance(owners, Mapping) else {"unknown": "nobody looked for the driver's owner"}
    if is_unknown(owner):
        return f"who manages this node's driver is not known: {why(owner)}"
    return f"{owner[:1].upper()}{owner[1:]} manages this node's driver; have it changed there" if owner else ""


def _runfile(facts: Mapping[str, Any]) -> str:
    packages = facts.get("driver", {}).get("packages")
    if not isinstance(packages, Mapping):
        return "what the package manager has of the driver was not read"
    marks = packages.get("marks") or {}
    seen = [path for path, there in marks.items() if there is True]
    unowned = packages.get("unowned")
    seen += unowned if isinstance(unowned, list) else []
    if seen:
        return (
            f"parts of a runfile installation are on this node ({', '.join(seen[:4])}); drain it, run nvidia-uninstall "
            "and reboot first, since packages over such parts give two versions"
        )
    unread = next((value for value in (*marks.values(), unowned) if is_unknown(value)), None)
    return f"whether a runfile installation is on this node is not known: {why(unread)}" if unread else ""


def _broken(facts: Mapping[str, Any]) -> str:
    """Whether the package database can be read. What was left half done in it is judged by package_plan."""
    packages = facts.get("driver", {}).get("packages")
    unread = packages.get("unread") if isinstance(packages, Mapping) else None
    return f"the package database cannot be read: {why(unread)}" if is_unknown(unread) else ""


def _root(now: Mapping[str, Any]) -> str:
    volatile = now["volatile"]
    if is_unknown(volatile):
        return f"whether this node keeps what is written to it is not known: {why(volatile)}"
    if volatile:
        return f"this node's root is not kept over a reboot ({volatile}); put the driver into the image it boots"
    return ""


# ---- the change ----------------------------------------------------------------------------------------------------


def _secure_boot(facts: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """C19: a key has to be enrolled at the console, which no playbook can do."""
    if not request["dkms"]:
        return ""
    boot = facts["host"]["boot"]
    secure, enforced = boot["secure_boot"], boot["signatures_enforced"]
    if is_unknown(secure):
        return f"whether Secure Boot is on is not known ({why(secure)}), and this driver's module is not signed"
    if not secure and not enforced:
        return ""
    what = "Secure Boot is on" if secure else "This kernel takes signed modules only (module.sig_enforce)"
    return (
        f"{what}, and {request['naming']} builds its module on the node with a key that the firmware does not know; "
        "switch it off, enrol the key at the console, or use a signed module (nvidia_driver_source: distribution)"
    )


def _known_bad(wish: Mapping[str, Any], request: Mapping[str, Any], table: Table) -> list[str]:
    if wish["force_version"]:
        return []
    rows = wish["known_bad"] if wish["known_bad"] is not None else table["known_bad"]
    return [
        f"driver {row['version']} is on the list of bad versions: {row['reason']}; take another, or set "
        "nvidia_driver_force_version: true"
        for row in rows
        if str(row["version"]) == request["version"]
        and any(re.fullmatch(row.get("kernel") or ".*", kernel) for kernel in request["kernels"])
    ]


def _busy(now: Mapping[str, Any], table: Table, wish: Mapping[str, Any]) -> str:
    holders = now["holders"]
    if is_unknown(holders):
        return f"who uses the GPUs is not known: {why(holders)}"
    # The kernel keeps 15 characters of a name.
    idle = {name[:15] for name in [*table["idle_holders"], *wish["idle_holders"]]}
    working = [holder for holder in holders if holder["name"] not in idle]
    if not working:
        return ""
    named = [f"{holder['name']} ({holder['pid']}{_unit(holder)})" for holder in working[:6]]
    more = f" and {len(working) - 6} more" if len(working) > 6 else ""
    return f"the GPUs are in use by {', '.join(named)}{more}; drain the node first"


def _unit(holder: Mapping[str, Any]) -> str:
    return f" of {holder['unit']}" if holder["unit"] else ""


def _rooms(now: Mapping[str, Any], table: Table, plan: Mapping[str, Any]) -> list[str]:
    found = []
    fetched = plan.get("download_bytes") or 0
    grown = max(plan.get("disk_bytes") or 0, 0)
    for path, least in table["room"].items():
        room = now["room"].get(path, {"unknown": "it was not read"})
        if is_unknown(room):
            found.append(f"how much room {path} has is not known: {why(room)}")
            continue
        need = least * MIB
        # Packages are kept below /var, and what they hold goes below /.
        need = max(need, int((fetched if path == "/var" else grown if path == "/" else 0) * GROWTH))
        if room["free"] < need:
            found.append(
                f"{path} has {room['free'] // MIB} MiB free (on {room['mount']}), and {need // MIB} are needed"
            )
    return found


# ---- the set -------------------------------------------------------------------------------------------------------


def not_one_version(packages: Mapping[str, str]) -> dict[str, list[str]]:
    """version -> names of version-locked packages, empty where all have one version (C11)."""
    versions: dict[str, list[str]] = {}
    for name, version in sorted(packages.items()):
        versions.setdefault(upstream(version), []).append(name)
    return versions if len(versions) > 1 else {}
