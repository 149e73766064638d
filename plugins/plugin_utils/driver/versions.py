# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One exact version for all nodes that want the same branch: resolved once, recorded, and the same from then on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.request import upstream
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import DriverError

FILE = "nvidia_driver_versions.json"


def key(wish: Mapping[str, Any]) -> str:
    """What a version is recorded for: the branch, and where it comes from."""
    where = f" {wish['mirror_url']}" if wish["source"] == "mirror" else ""
    return f"{wish['branch']} {wish['source']}{where}"


def read(folder: str) -> dict[str, Any]:
    """The record: ``{key: {"version", "resolved", "nodes": n}}``; empty where there is none.

    Raises:
        DriverError: where the file cannot be read or understood.
    """
    path = Path(folder).expanduser() / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise DriverError(
            f"{path} cannot be read ({exc}); it holds the versions that were chosen for the fleet"
        ) from exc
    if not isinstance(found, dict) or not all(isinstance(row, dict) and "version" in row for row in found.values()):
        raise DriverError(f"{path} is no record of chosen versions; move it away to have them chosen anew")
    return found


def write(folder: str, record: Mapping[str, Any]) -> str:
    """Write the record as a whole or not at all; its path."""
    path = Path(folder).expanduser() / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(part, path)
    return str(path)


def resolve(
    offers: Mapping[str, Mapping[str, Any]], record: Mapping[str, Any], now: datetime | None = None
) -> tuple[dict[str, str], dict[str, Any]]:
    """The version of each host, and the record with what was chosen now.

    Args:
        offers: host -> ``{"key", "branch", "versions": [full versions on offer of the package that decides]}``.
        record: what was chosen before; it stays.

    Raises:
        DriverError: where the hosts of one key are offered no common version.
    """
    chosen: dict[str, str] = {}
    after = dict(record)
    groups: dict[str, list[str]] = {}
    for host, offer in offers.items():
        groups.setdefault(offer["key"], []).append(host)
    for name, hosts in groups.items():
        if name not in after:
            newest = _common(name, {host: offers[host] for host in hosts})
            moment = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
            after[name] = {"version": newest, "resolved": moment, "nodes": len(hosts)}
        chosen.update(dict.fromkeys(hosts, after[name]["version"]))
    return chosen, after


def _common(name: str, offers: Mapping[str, Mapping[str, Any]]) -> str:
    of_branch = {
        host: {
            upstream(version)
            for version in offer["versions"]
            if upstream(version).split(".")[0] == str(offer["branch"])
        }
        for host, offer in offers.items()
    }
    common = set.intersection(*of_branch.values())
    if not common:
        told = "; ".join(
            f"{host}: {', '.join(sorted(found, key=number)) or 'none'}" for host, found in of_branch.items()
        )
        raise DriverError(
            f"no version of {name} is offered to all nodes ({told}); say which with nvidia_driver_version"
        )
    return max(common, key=number)


def number(version: str) -> tuple[int, ...]:
    """A version as integers: 580.126.20 is newer than 580.95.05 (facts 1.5)."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
