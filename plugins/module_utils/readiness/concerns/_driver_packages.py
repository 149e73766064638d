# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The driver as packages: one set of one origin, nothing left over, held at its version."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    driver_packages,
    packages,
    pins,
    repositories,
)

RUNFILE_MARKS = ("/usr/bin/nvidia-uninstall", "/var/lib/nvidia/log")
# Where the runfile installer puts the module; packages put it under updates, extra, weak-updates or a folder of theirs.
RUNFILE_MODULE = "/kernel/drivers/video/"
SHOWN = 6


def collect(node: Node, library_files: list[str], module_file: str) -> dict[str, Any] | Unknown:
    """``{"tool", "locked": {name: version}, "broken", "repositories", "pins", "marks", "unowned"}``."""
    known = packages.installed(node)
    marks = {path: node.exists(path) for path in RUNFILE_MARKS}
    if isinstance(known, Unknown):
        return {"unread": known, "marks": marks}
    names = [package.name for package in driver_packages.locked(known, fabric=True)]
    files = library_files + ([module_file] if RUNFILE_MODULE in module_file else [])
    return {
        "tool": known.tool,
        "source": known.source,
        "locked": {package.name: package.version for package in driver_packages.locked(known)},
        "fabric": sorted(set(names) - {package.name for package in driver_packages.locked(known)}),
        "broken": driver_packages.broken(known),
        "repositories": repositories.read(node, known.tool),
        "machine": node.machine(),
        "pins": pins.read(node, known, names) if names else None,
        "marks": marks,
        "unowned": driver_packages.unowned(node, known, files),
    }


def upstream(version: str) -> str:
    """The driver version in a package version."""
    return packages.Package("", "", "", version).upstream


def assess(findings: Findings, facts: dict[str, Any]) -> None:
    """Answers leftover, single_origin and pinned."""
    assess_leftover(findings, facts)
    unread = facts.get("unread")
    if isinstance(unread, Unknown):
        findings.unknown("single_origin", unread)
        findings.unknown("pinned", unread)
        return
    if not facts["locked"]:
        for name in ("single_origin", "pinned"):
            findings.not_applicable(name, "no package of the driver is installed on this node")
        return
    _assess_origin(findings, facts)
    _assess_pins(findings, facts)


# ---- leftover ------------------------------------------------------------------------------------------------------


def assess_leftover(findings: Findings, facts: dict[str, Any]) -> None:
    """Parts of another installation under the packaged driver (C03)."""
    required = "no part of a runfile installation beside packages"
    marks = [path for path, there in facts["marks"].items() if there is True]
    unread = [there for there in (*facts["marks"].values(), facts.get("unread")) if isinstance(there, Unknown)]
    unowned = facts.get("unowned", [])
    if isinstance(unowned, Unknown):
        unread.append(unowned)
        unowned = []
    seen = marks + unowned
    if seen and facts.get("locked"):
        findings.failed(
            "leftover",
            f"Parts that no package owns stand under the packaged driver: {_some(seen)}.",
            observed=seen,
            required=required,
            evidence=[Evidence(path, "exists, owned by no package") for path in seen[:SHOWN]],
            remedy=Remedy("Drain the node, run nvidia-uninstall, reinstall the driver packages and reboot.", "reboot"),
        )
    elif unread:
        findings.unknown("leftover", unread[0], observed=seen, required=required)
    elif seen:
        findings.warned(
            "leftover",
            f"The driver was installed by the runfile, not by packages ({_some(seen)}): no hold or update reaches it.",
            observed=seen,
            required=required,
            evidence=[Evidence(path, "exists") for path in seen[:SHOWN]],
            remedy=Remedy("Plan to replace it: drain, run nvidia-uninstall, install packages, reboot.", "reboot"),
        )
    else:
        findings.passed(
            "leftover", "Nothing of a runfile installation is on this node.", observed=[], required=required
        )


# ---- single_origin -------------------------------------------------------------------------------------------------


def _assess_origin(findings: Findings, facts: dict[str, Any]) -> None:
    installed = facts["locked"]
    versions: dict[str, list[str]] = {}
    origins: dict[str, list[str]] = {}
    for name, version in sorted(installed.items()):
        versions.setdefault(upstream(version), []).append(name)
        told = driver_packages.origin(version)
        if told:
            origins.setdefault(told, []).append(f"{name} {version}")
    required = "one version and one origin of all version-locked driver packages"
    observed = {"versions": sorted(versions), "origins": sorted(origins)}
    if len(versions) > 1:
        parts = "; ".join(f"{version}: {_some(names)}" for version, names in sorted(versions.items()))
        mixed = f" They come from {' and '.join(sorted(origins))}." if len(origins) > 1 else ""
        findings.failed(
            "single_origin",
            f"The installed driver packages have {len(versions)} versions ({parts}).{mixed}",
            observed=observed,
            required=required,
            evidence=[Evidence(facts["source"], f"{names[0]} {installed[names[0]]}") for names in versions.values()],
        )
        return
    doubts = _doubts(facts, origins)
    if doubts:
        findings.warned(
            "single_origin",
            doubts[0][0],
            observed=observed,
            required=required,
            evidence=doubts[0][1],
            remedy=doubts[0][2],
        )
    elif isinstance(facts["repositories"], Unknown):
        findings.unknown("single_origin", facts["repositories"], observed=observed, required=required)
    else:
        findings.passed(
            "single_origin",
            f"All {len(installed)} driver packages have version {next(iter(versions))}.",
            observed=observed,
            required=required,
            evidence=Evidence(facts["source"], next(f"{name} {version}" for name, version in installed.items())),
        )


def _doubts(facts: dict[str, Any], origins: dict[str, list[str]]) -> list[tuple[str, Evidence, Remedy]]:
    """(reason, evidence, remedy) of what serves today and breaks the next change."""
    found = []
    if len(origins) > 1:
        found.append(
            (
                f"The driver packages come from {' and '.join(sorted(origins))}: the next update will part them.",
                Evidence(facts["source"], "; ".join(names[0] for names in origins.values())),
                Remedy("Choose one origin, pin it, and reinstall the whole set from it.", "reboot", **cures.DRIVER),
            )
        )
    known = facts["repositories"]
    if isinstance(known, Unknown):
        return found
    if known["clashes"]:
        found.append(
            (
                f"{known['clashes'][0]} is configured twice with different keys, which apt refuses to read.",
                Evidence("/etc/apt/sources.list.d", known["clashes"][0]),
                Remedy("Remove the older of the two entries and keep the one with the current keyring."),
            )
        )
    if known["unsigned"]:
        found.append(
            (
                f"{known['unsigned'][0]} switches the check of signatures off for NVIDIA's repository.",
                Evidence(known["unsigned"][0], "trusted=yes or gpgcheck=0"),
                Remedy("Install the current keyring of the repository and remove that option."),
            )
        )
    folder = repositories.MACHINE_FOLDERS.get(facts["machine"])
    found += [
        (
            f"{entry['file']} names the repository for {entry['machine']}; this machine's is {folder}.",
            Evidence(entry["file"], f"{entry['distro']}/{entry['machine']}"),
            Remedy(f"Use the folder {folder} of NVIDIA's repository."),
        )
        for entry in known["vendor"]
        if folder and entry["machine"] != folder
    ]
    distros = sorted({entry["distro"] for entry in known["vendor"]})
    if len(distros) > 1:
        found.append(
            (
                f"NVIDIA's repositories of several distributions are configured: {', '.join(distros)}.",
                Evidence(known["vendor"][0]["file"], ", ".join(distros)),
                Remedy("Keep the repository of this distribution only."),
            )
        )
    if known["vendor"] and known["distribution"] and not _decided(facts["pins"]):
        found.append(
            (
                "NVIDIA's repository and the distribution's both offer the driver, and no hold or pin decides.",
                Evidence(known["vendor"][0]["file"], f"also {known['distribution'][0]}"),
                Remedy("Pin one origin in apt's preferences, or hold the driver packages."),
            )
        )
    return found


def _decided(found: Any) -> bool:
    """Whether holds, version pins or a preference for one repository choose between two."""
    if not isinstance(found, dict):
        return False
    return bool(found.get("prefers")) or (bool(found["by_package"]) and all(found["by_package"].values()))


# ---- pinned --------------------------------------------------------------------------------------------------------


def _assess_pins(findings: Findings, facts: dict[str, Any]) -> None:
    found = facts["pins"]
    required = "every version-locked driver package held at its version, or out of reach of automatic updates"
    if isinstance(found, Unknown):
        findings.unknown("pinned", found, required=required)
        return
    by_package = found["by_package"]
    free = sorted(name for name, how in by_package.items() if not how)
    branch = sorted(name for name, how in by_package.items() if how == pins.BRANCH)
    automatic = found["automatic"]
    observed = {
        "not_held": free[:SHOWN],
        "branch_only": branch[:SHOWN],
        "void": found["void"],
        "automatic": automatic,
        "stream": found.get("stream"),
    }
    evidence = Evidence(
        "apt preferences and holds" if facts["tool"] == "dpkg" else "dnf versionlock and exclude",
        "; ".join(f"{name}: {by_package[name] or 'not held'}" for name in (free or branch or sorted(by_package))[:3]),
    )
    remedy = _hold(facts["tool"], free or branch)
    updater = f", and {automatic} would update it under the running module" if isinstance(automatic, str) else ""
    if found["void"] and (free or branch):
        findings.warned(
            "pinned",
            f"A pin has no effect: {found['void'][0]}{updater}.",
            observed=observed,
            required=required,
            evidence=evidence,
            remedy=remedy,
        )
    elif free:
        findings.warned(
            "pinned",
            f"{len(free)} of {len(by_package)} driver packages are not held ({_some(free)}){updater}.",
            observed=observed,
            required=required,
            evidence=evidence,
            remedy=remedy,
        )
    elif branch and isinstance(automatic, Unknown):
        findings.unknown("pinned", automatic, observed=observed, required=required)
    elif branch and automatic:
        findings.warned(
            "pinned",
            f"The driver is held on its branch only{updater}.",
            observed=observed,
            required=required,
            evidence=evidence,
            remedy=remedy,
        )
    elif branch:
        findings.passed(
            "pinned",
            "The driver is held on its branch, and nothing updates it by itself.",
            observed=observed,
            required=required,
            evidence=evidence,
        )
    else:
        findings.passed(
            "pinned",
            f"All {len(by_package)} driver packages are held at their version.",
            observed=observed,
            required=required,
            evidence=evidence,
        )


def _hold(tool: str, names: list[str]) -> Remedy:
    if tool == "dpkg":
        return Remedy(
            "Hold the driver packages, and name them in unattended-upgrades' blacklist.",
            command=f"apt-mark hold {' '.join(names)}" if names else None,
        )
    return Remedy(
        "Lock the driver packages with dnf's versionlock plugin.",
        command=f"dnf versionlock add {' '.join(names)}" if names else None,
    )


def _some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
