# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run does to a node, line by line, for people: the same before and after it was done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.refusals import changes
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import is_unknown


def lines(
    facts: Mapping[str, Any],
    request: Mapping[str, Any],
    plans: Iterable[Mapping[str, Any]],
    files: Mapping[str, Any],
    services: Mapping[str, str],
    rollback: str,
) -> list[str]:
    """The summary: repository files, packages, holds, files, services, rollback, reboot.

    Args:
        facts: the probe's facts of before.
        request: the answer of driver_request.
        plans: the plans of package_plan: headers kernel by kernel, then the driver.
        files: path -> whether it changes, of the files the role writes itself.
        services: unit -> what becomes of it.
        rollback: where the old packages are, or why they are not.
    """
    version = request["version"] or f"{request['branch']} (which version is not known)"
    found = [f"driver {version} ({request['flavour']}), from {request['naming']}"]
    seen: set[tuple[str, Any]] = set()
    packages: list[str] = []
    for plan in plans:
        found += [f"repository file {file['path']}: {file['action']}" for file in plan["repositories"]
                  if file["action"] != "none"]  # fmt: skip
        found += [f"module stream {stream['name']}: {stream['from'] or 'none'} -> {stream['to']}"
                  for stream in plan["streams"] if stream["action"] != "keep"]  # fmt: skip
        for item in changes(plan):
            if (item["name"], item["to"]) not in seen:
                seen.add((item["name"], item["to"]))
                packages.append(package(item))
        found += [f"hold {name}" for name in plan["holds"]["add"]]
        found += [f"not certain: {text}" for text in plan["unknown"]]
    found += packages or ["packages: none changes"]
    found += [f"file {path}" for path, changed in files.items() if changed]
    found += [f"service {name}: {what}" for name, what in services.items()]
    found.append(f"rollback: {rollback}")
    # Repositories of the site stand in every plan.
    found = list(dict.fromkeys(found))
    reasons = reboot(facts, request, [item for plan in plans for item in changes(plan)], files)
    found.append(f"reboot: yes, {'; '.join(reasons)}" if reasons else "reboot: no")
    return found


def package(item: Mapping[str, Any]) -> str:
    """One package as a person reads it."""
    if item["to"] is None:
        return f"package {item['name']} {item['from']} removed"
    origin = f" (from {item['origin']})" if item["origin"] else ""
    return f"package {item['name']} {item['from'] or 'absent'} -> {item['to']}{origin}"


def reboot(
    facts: Mapping[str, Any],
    request: Mapping[str, Any],
    changed: Iterable[Mapping[str, Any]],
    files: Mapping[str, Any],
) -> list[str]:
    """Why a reboot is due once this is done; empty where none is."""
    driver = facts["driver"]
    loaded = driver["loaded"]["version"]
    reasons = []
    if not request["version"]:
        return [f"most likely, since which version of branch {request['branch']} will be on disk is not known"]
    if is_unknown(loaded):
        reasons.append(f"which driver is loaded is not known ({loaded['unknown']})")
    elif loaded is None:
        reasons.append(f"no driver is loaded, and {request['version']} will be on disk")
    elif loaded != request["version"]:
        reasons.append(f"driver {loaded} is loaded, and {request['version']} will be on disk")
    elif isinstance(driver["loaded"]["flavour"], str) and driver["loaded"]["flavour"] != request["flavour"]:
        reasons.append(
            f"the {driver['loaded']['flavour']} module is loaded, and the {request['flavour']} one will be on disk"
        )
    others = sorted({gpu["driver"] for gpu in driver["gpus"] if gpu["driver"] not in (None, "", "nvidia")})
    if others:
        reasons.append(f"{', '.join(others)} has the GPUs")
    boot = driver["kernels"]["boot"]
    if isinstance(boot, str) and boot != driver["kernels"]["running"]:
        reasons.append(f"kernel {driver['kernels']['running']} runs and {boot} boots next")
    options = [path for path, new in files.items() if new and path.startswith("/etc/modprobe.d/")]
    if options and not reasons:
        reasons.append("options of the loaded module changed")
    return reasons
