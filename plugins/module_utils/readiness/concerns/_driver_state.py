# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The three versions of the driver (loaded, on disk, libraries), and whether they agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _driver_packages
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_module

# Packages that ship the libraries, where the files stand in a folder the probe does not know. Source: facts 1.15-1.23.
LIBRARY_PACKAGES = ("libnvidia-compute", "libcuda1", "libnvidia-ml", "nvidia-driver-cuda-libs", "nvidia-driver-libs")


@dataclass(frozen=True)
class State:
    """The three versions. None: not there; Unknown: not readable. ``module`` is on disk for the running kernel.

    ``version`` is what speaks for the driver (loaded, else on disk, else libraries), and ``version_from`` says which.
    """

    loaded: Any
    module: Any
    libraries: Any
    libraries_from: str
    version: Any
    version_from: str
    absent: bool

    @property
    def disk(self) -> Any:
        """The version on disk."""
        return self.module["version"] if isinstance(self.module, dict) else self.module


def state(driver: dict[str, Any]) -> State:
    """The three versions out of the facts."""
    loaded = driver["loaded"]["version"]
    module = driver["disk"].get(driver["kernels"]["running"])
    libraries, source = _libraries(driver)
    parts = [
        (loaded, nvidia_module.PROC_VERSION),
        (module["version"] if isinstance(module, dict) else module, "on disk, modinfo nvidia"),
        (libraries, source),
    ]
    known = [(value, where) for value, where in parts if isinstance(value, str)]
    unread = [(value, where) for value, where in parts if isinstance(value, Unknown)]
    # What is loaded decides; an unreadable loaded version is never stood in for by another.
    candidates: list[tuple[Any, str]] = [*known, *unread, (Unknown("no driver version is to be found"), "")]
    version, where = (loaded, "") if isinstance(loaded, Unknown) else candidates[0]
    packages = driver["packages"]
    named = packages.get("locked") if isinstance(packages, dict) else None
    absent = not known and not unread and not named and not driver["tree"]
    return State(loaded, module, libraries, source, version, where, absent)


def _libraries(driver: dict[str, Any]) -> tuple[Any, str]:
    """(version, where); a tuple of versions where several are in use at once."""
    found = driver["userland"]
    if isinstance(found, Unknown):
        return found, found.source
    if len(found["versions"]) > 1:
        return tuple(found["versions"]), next(iter(found["files"]), "libcuda.so.1")
    if found["versions"]:
        return found["versions"][0], next(iter(found["files"]), "libcuda.so.1")
    packages = driver["packages"]
    for name, version in (packages.get("locked") or {}).items() if isinstance(packages, dict) else ():
        if name.startswith(LIBRARY_PACKAGES):
            return _driver_packages.upstream(version), f"package {name}"
    # Its library refuses a module of another version: an answer proves both.
    answered = driver["smi"]["version"]
    return (answered, "nvidia-smi -q -x") if isinstance(answered, str) else (None, "")


def waits_for_reboot(now: State) -> str | None:
    """The version on disk where it is another than the loaded one."""
    if isinstance(now.loaded, str) and isinstance(now.disk, str) and now.disk != now.loaded:
        return now.disk
    return None


# ---- consistent ----------------------------------------------------------------------------------------------------


def assess_consistent(findings: Findings, driver: dict[str, Any], now: State) -> None:
    """Loaded, on disk and libraries against each other; the kernel log and nvidia-smi are witnesses, not judges."""
    required = "loaded = on disk = libraries"
    log, smi = driver["log"], driver["smi"]
    mismatch = log["mismatch"] if isinstance(log, dict) else None
    # A mismatch of a module that is no longer loaded is history.
    if mismatch and isinstance(now.loaded, str) and mismatch["kernel"] != now.loaded:
        mismatch = None
    observed = {"loaded": now.loaded, "disk": now.disk, "libraries": now.libraries, "api_mismatch": mismatch}
    evidence = [
        Evidence(nvidia_module.PROC_VERSION, driver["loaded"]["line"]),
        Evidence("modinfo nvidia", f"version: {now.disk}" if isinstance(now.disk, str) else "no module"),
        Evidence(now.libraries_from or "/usr/lib", str(now.libraries)),
    ]
    if mismatch:
        evidence.append(Evidence(log["source"], mismatch["line"]))
    if smi["mismatch"]:
        evidence.append(Evidence("nvidia-smi -q -x", "Driver/library version mismatch"))

    def fail(reason: str, remedy: Remedy | None = None) -> None:
        findings.failed("consistent", reason, observed=observed, required=required, evidence=evidence, remedy=remedy)

    if isinstance(now.libraries, tuple):
        fail(
            f"libcuda and libnvidia-ml are of different versions: {' and '.join(now.libraries)}.",
            Remedy(
                "Bring all driver packages to one version, run ldconfig, then drain and reboot.",
                "reboot",
                **cures.DRIVER,
            ),
        )
        return
    if isinstance(now.loaded, str):
        if differs(now.disk, now.loaded):
            if differs(now.libraries, now.disk):
                fail(
                    f"Loaded is {now.loaded}, on disk {now.disk}, and the libraries are {now.libraries}.",
                    one_version(now.disk),
                )
            else:
                fail(f"Loaded is {now.loaded}; {now.disk} on disk waits for a reboot.")
            return
        if differs(now.libraries, now.loaded):
            where = "loaded and on disk" if isinstance(now.disk, str) else "loaded"
            fail(
                f"The libraries are {now.libraries}, and the module ({where}) is {now.loaded}.",
                one_version(now.libraries) if isinstance(now.disk, str) else None,
            )
            return
    elif now.loaded is None:
        if differs(now.libraries, now.disk):
            fail(
                f"Nothing is loaded; on disk is {now.disk}, and the libraries are {now.libraries}.",
                one_version(now.disk),
            )
            return
        if isinstance(now.disk, str) and isinstance(now.libraries, str):
            findings.not_applicable(
                "consistent", f"Nothing is loaded; module on disk and libraries agree on {now.disk}.", observed=observed
            )
            return
    unread = [part for part in (now.loaded, now.disk, now.libraries) if isinstance(part, Unknown)]
    # The kernel refused a program: with a part unread, its libraries are the best witness of the host's.
    if mismatch and (unread or now.libraries is None):
        fail(f"The module is {mismatch['kernel']}, and it refused a program with libraries of {mismatch['client']}.")
        return
    if smi["mismatch"]:
        library = f" of version {smi['library']}" if smi["library"] else ""
        fail(
            f"nvidia-smi finds libraries{library} that do not fit the loaded module ({now.loaded}).",
            None if unread else Remedy("Find the foreign libnvidia-ml.so.1 with `ldconfig -p` and remove it.", "none"),
        )
        return
    if unread:
        findings.unknown("consistent", unread[0], observed=observed, required=required)
    elif now.loaded is None or now.libraries is None:
        missing = "the loaded module" if now.loaded is None else "the libraries"
        findings.unknown(
            "consistent",
            f"There is nothing to compare: {missing} cannot be found.",
            observed=observed,
            required=required,
        )
    elif mismatch:
        findings.warned(
            "consistent",
            f"The host's parts agree on {now.loaded}, and the module refused a program with {mismatch['client']}.",
            observed=observed,
            required=required,
            evidence=evidence,
            remedy=Remedy("Look for a container or program that brings its own libcuda or libnvidia-ml."),
        )
    else:
        where = "Loaded module, module on disk and libraries" if now.disk else "Loaded module and libraries"
        findings.passed(
            "consistent", f"{where} are all {now.loaded}.", observed=observed, required=required, evidence=evidence
        )


def differs(one: Any, other: Any) -> bool:
    return isinstance(one, str) and isinstance(other, str) and one != other


def one_version(version: Any) -> Remedy:
    return Remedy(
        f"Bring module and library packages to one version ({version} is one of them) in one transaction, then "
        "drain and reboot: a reboot alone does not cure it.",
        "reboot",
        **cures.DRIVER,
    )
