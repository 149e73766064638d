# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fabric manager and NVLink subnet manager of boards with their own NVSwitches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._fabric_versions import (
    ABSENT,
    install,
    installed_versions,
    version_fault,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import modules, processes, systemd
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.fabric_kind import HGX, TRAY

MANAGER = "nvidia-fabricmanager.service"
NVLSM = "nvlsm.service"
# The names of the packages changed at 580 and differ between families (facts 1.39).
MANAGER_PACKAGE = re.compile(r"nvidia-fabric-?manager(-[0-9]{3})?")
NVLSM_BINARY = "/opt/nvidia/nvlsm/sbin/nvlsm"
# Both have to be loaded before the fabric manager starts, or it takes the path of older boards and finds nothing (C15).
NVLINK5_MODULES = ("ib_umad", "mlx5_ib")
MANAGER_LOG = ["journalctl", "-u", "nvidia-fabricmanager", "-b", "-n", "50", "--no-pager"]
MANAGER_VERSION = ["nv-fabricmanager", "--version"]
MISMATCH = re.compile(r"interface version (\S{1,40}) don't match with driver version (\S{1,40}?)\.?(\s|$)")


def collect(node: Node, kind: dict[str, Any]) -> dict[str, Any]:
    """``{"manager": …, "nvlsm": …}``, each None on a node of a kind that cannot need it."""
    may = kind["kind"]
    return {
        "manager": _manager(node, needed=may == HGX) if may in (HGX, TRAY) else None,
        "nvlsm": _nvlsm(node) if may == HGX and kind["nvlsm"] else None,
    }


def _manager(node: Node, needed: bool) -> dict[str, Any]:
    """``{"unit", "running"}``, and where it is needed ``{"packages": {name: version}, "binary", "modules", "log"}``."""
    unit = systemd.unit(node, MANAGER)
    active = not isinstance(unit, Unknown) and unit["ActiveState"] == "active"
    state = {
        "unit": unit if isinstance(unit, Unknown) else {key: unit.get(key, "") for key in ("LoadState", "ActiveState")},
        "running": processes.running(node, "nv-fabricmanager"),
    }
    if not needed:
        return state
    found = installed_versions(node, MANAGER_PACKAGE)
    return {
        **state,
        "packages": found,
        # A driver installed without packages brings a fabric manager without one.
        "binary": None if isinstance(found, dict) and found else _binary_version(node),
        "modules": unloaded(node),
        "log": None if active else _log(node),
    }


def _binary_version(node: Node) -> str | Unknown | None:
    """What nv-fabricmanager says of itself; None where it is not installed."""
    result = node.run(MANAGER_VERSION)
    if result.error == "missing":
        return None
    match = re.search(r"[Vv]ersion is\s*:?\s*([0-9]{1,4}(?:\.[0-9]{1,4}){1,2})", result.stdout + result.stderr)
    if match:
        return match.group(1)
    return result.unknown() if not result.ok else Unknown(f"`{result.source}` told no version", result.source)


def unloaded(node: Node) -> list[str] | Unknown:
    """Those of NVLINK5_MODULES that are not loaded. A driver built into the kernel shows in /sys/module only."""
    loaded = modules.loaded(node)
    if isinstance(loaded, Unknown):
        return loaded
    return [name for name in NVLINK5_MODULES if name not in loaded and node.exists(f"/sys/module/{name}") is not True]


def _log(node: Node) -> list[str] | Unknown:
    """The unit's last lines of this boot that tell why it does not run."""
    result = node.run(MANAGER_LOG)
    if not result.ok:
        return result.unknown()
    words = re.compile(r"don't match|NV_WARN_NOTHING_TO_DO|Pre-NVL5|[Ff]ailed|[Ee]rror")
    return [line.strip()[:300] for line in result.stdout.splitlines() if words.search(line)][-8:]


def _nvlsm(node: Node) -> dict[str, Any]:
    found = installed_versions(node, re.compile("nvlsm"))
    return {
        "packages": found,
        "binary": node.exists(NVLSM_BINARY),
        "running": processes.running(node, "nvlsm"),
        "unit": systemd.is_active(node, NVLSM),
    }


def assess_manager(findings: Findings, fabric: dict[str, Any]) -> None:
    """Needed by what the node is: the same failure is harmless without NVSwitches (C16), and not with them."""
    kind, manager = fabric["kind"], fabric["manager"]
    if isinstance(kind["kind"], Unknown):
        findings.unknown("manager", kind["kind"])
        return
    if manager is None:
        findings.not_applicable("manager", f"no NVSwitch is on this node ({kind['evidence']})")
        return
    unit = manager["unit"]
    active = None if isinstance(unit, Unknown) else unit["ActiveState"] == "active"
    if kind["kind"] == TRAY:
        if active or manager["running"] is True:
            remedy = Remedy(
                "Stop the fabric manager of this tray.", "none", f"systemctl disable --now {MANAGER}", **cures.FABRIC
            )
            text = "The fabric manager runs on a tray, whose switches are managed elsewhere in the rack."
            findings.warned("manager", text, "active", "not running", Evidence(systemd.SOURCE, MANAGER), remedy)
        else:
            findings.not_applicable("manager", "the NVSwitches of a tray are managed elsewhere in the rack")
        return
    _assess_needed_manager(findings, fabric, manager, active)


def _assess_needed_manager(
    findings: Findings, fabric: dict[str, Any], manager: dict[str, Any], active: bool | None
) -> None:
    driver, unit = fabric["driver"], manager["unit"]
    versions = manager["packages"]
    state = unit if isinstance(unit, Unknown) else unit["ActiveState"]
    observed = {"versions": versions or manager["binary"], "state": state, "driver": driver}
    required = f"{driver} and active" if isinstance(driver, str) else "the loaded driver's version, and active"
    log = manager["log"] if isinstance(manager["log"], list) else []
    evidence = [Evidence(systemd.SOURCE, f"{MANAGER} {state if isinstance(state, str) else 'not told'}")]
    evidence += [Evidence(" ".join(MANAGER_LOG), line) for line in log[-3:]]

    def fail(text: str, remedy: Remedy | None = None) -> None:
        findings.failed("manager", text, observed, required, evidence, remedy)

    refused = next((match for match in map(MISMATCH.search, log) if match), None)
    fault = version_fault("fabric manager", versions, manager["binary"], driver)
    runs = active or (active is None and manager["running"] is True)
    if fault == ABSENT and manager["running"] is True:
        _assess_foreign_manager(findings, fabric, observed, required, evidence)
    elif fault == ABSENT:
        fail("The fabric manager is not installed, and this node has NVSwitches.")
    elif isinstance(fault, str) and fault:
        fail(fault, install("nvidia-fabricmanager", versions, driver, MANAGER))
    elif refused:
        text = f"The fabric manager is of version {refused.group(1)} and refused driver {refused.group(2)}."
        fail(text, install("nvidia-fabricmanager", versions, driver, MANAGER))
    elif fabric["kind"]["nvlsm"] and isinstance(manager["modules"], list) and manager["modules"]:
        _fail_modules(fail, manager["modules"], log, evidence)
    elif active is False:
        why = next((line for line in reversed(log) if "NV_WARN_NOTHING_TO_DO" in line or "Pre-NVL5" in line), "")
        told = " It found no switches to manage, although this board has them." if why else ""
        start = Remedy(
            "Start the fabric manager and see why it stopped.",
            "none",
            f"systemctl enable --now {MANAGER}",
            **cures.FABRIC,
        )
        fail(f"The fabric manager is not running ({state}).{told}", start)
    elif isinstance(fault, Unknown):
        findings.unknown("manager", fault, observed, required, evidence)
    elif not runs:
        why = unit if isinstance(unit, Unknown) else "whether the fabric manager runs is not known"
        findings.unknown("manager", why, observed, required, evidence)
    elif fabric["kind"]["nvlsm"] and isinstance(manager["modules"], Unknown):
        findings.unknown("manager", manager["modules"], observed, required, evidence)
    else:
        findings.passed(
            "manager", f"The fabric manager {driver} runs beside driver {driver}.", observed, required, evidence
        )


def _assess_foreign_manager(
    findings: Findings, fabric: dict[str, Any], observed: Any, required: Any, evidence: list[Evidence]
) -> None:
    """It runs in somebody's container, whose packages are not to be seen from here (GPU operator)."""
    gpus = fabric["gpus"]
    text = "A fabric manager runs, but none is installed on this node, so its version cannot be read"
    if (
        not isinstance(gpus, Unknown)
        and gpus
        and all((gpu["state"], gpu["status"]) == ("Completed", "Success") for gpu in gpus)
    ):
        text += "; it does not start beside another driver's version, and every GPU has registered with it."
        remedy = Remedy("Compare the version in its container with the loaded driver.")
        findings.warned("manager", text, observed, required, evidence, remedy)
        return
    findings.unknown("manager", text + ".", observed, required, evidence)


def _fail_modules(fail: Any, missing: Sequence[str], log: Sequence[str], evidence: list[Evidence]) -> None:
    """C15: the same "nothing to do" that is harmless elsewhere."""
    evidence.append(Evidence("/proc/modules", "not loaded: " + ", ".join(missing)))
    nothing = any("NV_WARN_NOTHING_TO_DO" in line or "Pre-NVL5" in line for line in log)
    told = ", so it took this board for an older one and found nothing to do" if nothing else ""
    text = (
        f"The fabric manager of an NVLink 5 board needs kernel modules that are not loaded: {', '.join(missing)}{told}."
    )
    remedy = Remedy(
        "Load the modules now and at boot (/etc/modules-load.d; on Ubuntu they come with linux-modules-extra of the "
        "running kernel), then restart the fabric manager.",
        "drain",
        "modprobe -a " + " ".join(missing),
        **cures.FABRIC,
    )
    fail(text, remedy)


def assess_nvlsm(findings: Findings, fabric: dict[str, Any]) -> None:
    """Present and running; its version is a date and says nothing about the driver."""
    kind, nvlsm = fabric["kind"], fabric["nvlsm"]
    if isinstance(kind["nvlsm"], Unknown):
        findings.unknown("nvlsm", kind["nvlsm"])
        return
    if nvlsm is None:
        findings.not_applicable("nvlsm", f"only NVLink 5 boards with their own switches need it ({kind['evidence']})")
        return
    found, unit, process = nvlsm["packages"], nvlsm["unit"], nvlsm["running"]
    versions = ", ".join(found.values()) if isinstance(found, dict) else ""
    observed = {"versions": found, "running": process is True or unit is True}
    evidence = Evidence("/proc", "process nvlsm") if process is True else Evidence(systemd.SOURCE, NVLSM)
    if process is True or unit is True:
        findings.passed("nvlsm", f"nvlsm {versions or '(version unread)'} runs.", observed, "running", evidence)
    elif isinstance(process, Unknown):
        findings.unknown("nvlsm", process, observed, "running")
    elif isinstance(found, dict) and not found and nvlsm["binary"] is False:
        text = "nvlsm is not installed; without it the GPUs of an NVLink 5 board never register with the fabric."
        findings.failed("nvlsm", text, observed, "running", Evidence("package list", "no nvlsm"))
    else:
        start = Remedy("Restart the fabric manager, which starts nvlsm.", "drain", f"systemctl restart {MANAGER}")
        text = f"nvlsm {versions} is installed, but does not run." if versions else "nvlsm does not run."
        findings.failed("nvlsm", text, observed, "running", Evidence("/proc", "no process nvlsm"), start)
