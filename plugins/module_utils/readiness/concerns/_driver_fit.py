# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the driver fits: the flavour the GPU needs, the branch and version the image needs."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.driver import REBOOT
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _driver_state
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
    version_tuple,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_module

# ---- flavour -------------------------------------------------------------------------------------------------------


def assess_flavour(
    findings: Findings, driver: dict[str, Any], state: _driver_state.State, require: dict[str, Any]
) -> None:
    """Held against the GPU's product; an unlisted product decides nothing unless the open flavour is there anyway."""
    flavour, evidence = _flavour(driver, state)
    wanted = require["driver_flavour"]
    if isinstance(flavour, Unknown):
        findings.unknown("flavour", flavour, required=wanted)
        return
    gpus = driver["gpus"]
    log = driver["log"]
    refused = log["needs_open"] if isinstance(log, dict) else None
    only = [] if isinstance(gpus, Unknown) else sorted({gpu["product"] for gpu in gpus if gpu["open_only"]})
    unlisted = [] if isinstance(gpus, Unknown) else sorted({gpu["id"] for gpu in gpus if gpu["open_only"] is None})
    if flavour == nvidia_module.OPEN:
        if wanted == nvidia_module.PROPRIETARY:
            findings.failed(
                "flavour",
                "The module is the open flavour, and the contract asks for the proprietary one"
                + (f", which cannot drive {only[0]}: correct `driver_flavour`." if only else "."),
                observed=flavour,
                required=wanted,
                evidence=evidence,
                remedy=Remedy("Set `driver_flavour` to auto or open: the open flavour drives every GPU since Turing."),
            )
        else:
            findings.passed(
                "flavour", "The module is the open flavour.", observed=flavour, required=wanted, evidence=evidence
            )
        return
    version = state.version if isinstance(state.version, str) else "the driver"
    if only or refused:
        findings.failed(
            "flavour",
            f"The module {version} is the proprietary flavour, and {(only or ['this GPU'])[0]} needs the open one.",
            observed=flavour,
            required=nvidia_module.OPEN,
            evidence=[evidence, *([Evidence(log["source"], refused)] if refused else [])],
        )
    elif wanted == nvidia_module.OPEN:
        findings.failed(
            "flavour",
            f"The module {version} is the proprietary flavour, and the contract asks for the open one.",
            observed=flavour,
            required=wanted,
            evidence=evidence,
        )
    elif wanted == nvidia_module.PROPRIETARY:
        findings.passed(
            "flavour", "The module is the proprietary flavour.", observed=flavour, required=wanted, evidence=evidence
        )
    elif isinstance(gpus, Unknown):
        findings.unknown("flavour", gpus, observed=flavour, required=wanted, evidence=evidence)
    elif unlisted:
        findings.unknown(
            "flavour",
            f"The module is the proprietary flavour, and whether GPU {unlisted[0]} runs on it is not known.",
            observed=flavour,
            required=wanted,
            evidence=evidence,
        )
    else:
        findings.passed(
            "flavour",
            "The module is the proprietary flavour, which these GPUs run on.",
            observed=flavour,
            required=wanted,
            evidence=evidence,
        )


def _flavour(driver: dict[str, Any], state: _driver_state.State) -> tuple[str | Unknown, Evidence]:
    """Of the loaded module; where none is loaded, of the one on disk."""
    told, line = driver["loaded"]["flavour"], driver["loaded"]["line"]
    if isinstance(told, str):
        return told, Evidence(nvidia_module.PROC_VERSION, line)
    module = state.module
    if isinstance(module, dict) and (state.loaded is None or module["version"] == state.loaded):
        return module["flavour"], Evidence("modinfo nvidia", f"license: {module['license']}")
    for unread in (told, state.loaded, module):
        if isinstance(unread, Unknown):
            return unread, Evidence(unread.source)
    return Unknown("the flavour of the module cannot be told", nvidia_module.PROC_VERSION), Evidence("")


# ---- branch --------------------------------------------------------------------------------------------------------


def assess_branch(findings: Findings, state: _driver_state.State, require: dict[str, Any]) -> None:
    version, where = state.version, state.version_from
    exact, least = require["driver_version"], require["driver_version_min"]
    required = exact or f"branch {require['driver_branch_min']} or newer"
    if isinstance(version, Unknown):
        findings.unknown("branch", version, required=required)
        return
    numbers = version_tuple(version)
    if not numbers:
        findings.unknown("branch", f"{version[:40]!r} is no driver version", required=required)
        return
    evidence = Evidence(where, version)
    floor = version_tuple(least) or ()
    waiting = _driver_state.waits_for_reboot(state)
    remedy = REBOOT if waiting and _allowed(version_tuple(waiting), require) else None
    waits = f"; {waiting} on disk waits for a reboot" if remedy else ""
    if numbers[0] < require["driver_branch_min"]:
        reason = f"Driver {version} is of branch {numbers[0]}, older than {require['driver_branch_min']}{waits}."
    elif floor and numbers[0] == floor[0] and numbers < floor:
        reason = f"Driver {version} is older than {least}, the first of its branch the image runs on{waits}."
    elif exact and numbers != version_tuple(exact):
        reason = f"Driver {version} is not {exact}, which the contract asks for{waits}."
        remedy = remedy or Remedy(
            f"Bring the driver to exactly {exact}, or correct `driver_version`.", "reboot", **cures.DRIVER
        )
    else:
        findings.passed(
            "branch",
            f"Driver {version} ({where}) is of branch {numbers[0]}.",
            observed=version,
            required=required,
            evidence=evidence,
        )
        return
    findings.failed("branch", reason, observed=version, required=required, evidence=evidence, remedy=remedy)


def _allowed(numbers: tuple[int, ...] | None, require: dict[str, Any]) -> bool:
    floor = version_tuple(require["driver_version_min"]) or ()
    exact = version_tuple(require["driver_version"])
    if not numbers or numbers[0] < require["driver_branch_min"] or (exact and numbers != exact):
        return False
    return not (floor and numbers[0] == floor[0] and numbers < floor)
