# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The NVIDIA driver: who manages it, what is loaded, on disk and in the libraries, and what the next boot will load.

The order of the table is the order of causes. Packages of two versions explain a mismatch, a mismatch and the wrong
flavour explain a module that does not load, and only then does the running node say more than its configuration.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.driver import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import (
    _driver_disk,
    _driver_fit,
    _driver_packages,
    _driver_running,
    _driver_state,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Findings,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR, product
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    dkms,
    kernels,
    nvidia_driver,
    nvidia_module,
    pci,
    systemd,
)


def collect(node: Node) -> dict[str, Any]:
    """The driver in all its places; on a machine without an NVIDIA GPU only ``{"gpus": []}``.

    ``{"gpus": [{bdf, driver, product, open_only}], "tree": "" or the driver container's root, "loaded": {version,
    flavour, line}, "kernels": {running, installed, boot, how}, "disk": {kernel: {version, flavour, license, filename}
    or None}, "headers": {kernel: bool}, "dkms": [...], "userland": {versions, files}, "params": {name: value},
    "log": {...}, "packages": {...}, "persistenced": {...}, "smi": {...}}``; Unknown stands for what was not readable.
    """
    found = pci.gpus(node)
    if isinstance(found, list) and not any(gpu.vendor == NVIDIA_VENDOR for gpu in found):
        return {"gpus": []}
    container = node.exists(nvidia_driver.CONTAINER_TREE + "/usr/bin/nvidia-smi")
    tree = nvidia_driver.CONTAINER_TREE if container is True else ""
    boots = kernels.known(node)
    names = _kernels_in_question(boots)
    disk = {} if tree else {name: nvidia_module.on_disk(node, name) for name in names}
    userland = nvidia_driver.userland(node, tree)
    libraries = [] if isinstance(userland, Unknown) else sorted(userland["files"])
    module = disk.get(boots["running"])
    return {
        "gpus": found if isinstance(found, Unknown) else [_gpu(gpu) for gpu in found if gpu.vendor == NVIDIA_VENDOR],
        "tree": tree,
        "loaded": nvidia_module.loaded(node),
        "kernels": boots,
        "disk": disk,
        "headers": {name: kernels.headers(node, name) for name in names},
        "dkms": dkms.read(node),
        "userland": userland,
        "params": nvidia_module.parameters(node),
        "packages": {}
        if tree
        else _driver_packages.collect(node, libraries, module["filename"] if isinstance(module, dict) else ""),
        "log": nvidia_driver.log(node),
        "persistenced": systemd.unit(node, "nvidia-persistenced.service"),
        "smi": nvidia_driver.smi(node),
    }


def _kernels_in_question(boots: dict[str, Any]) -> list[str]:
    """The running kernel and the next boot's; where that one is not known, all that are installed."""
    names = [boots["running"]]
    if isinstance(boots["boot"], str):
        names.append(boots["boot"])
    elif isinstance(boots["installed"], list):
        names += boots["installed"][-4:]
    # A name that is none of a kernel comes from a damaged disk: it is no argument of a command.
    return [name for name in dict.fromkeys(names) if kernels.NAME.fullmatch(name)]


def _gpu(gpu: pci.PciDevice) -> dict[str, Any]:
    known = product(gpu.vendor, gpu.device)
    return {
        "bdf": gpu.bdf,
        "id": f"{gpu.vendor}:{gpu.device}",
        "driver": gpu.driver,
        "product": known.name if known else None,
        "open_only": known.open_only if known else None,
    }


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for every check of the table."""
    findings = Findings("driver", CHECKS)
    driver = facts["driver"]
    if driver["gpus"] == []:
        for spec in CHECKS:
            findings.not_applicable(spec.name, "this machine has no NVIDIA GPU")
        return findings.checks()
    _assess_owner(findings, facts.get("owners"))
    state = _driver_state.state(driver)
    _driver_running.assess_bound(findings, driver, state)
    _driver_disk.assess_installed(findings, driver, state)
    if driver["tree"]:
        for name in ("leftover", "single_origin", "next_boot", "pinned"):
            findings.not_applicable(name, "the driver lives in a driver container, not in this host's packages")
    elif state.absent:
        for name in ("single_origin", "next_boot", "pinned"):
            findings.not_applicable(name, "no NVIDIA driver is installed")
        _driver_packages.assess_leftover(findings, driver["packages"])
    else:
        _driver_packages.assess(findings, driver["packages"])
        _driver_disk.assess_next_boot(findings, driver, state)
    if state.absent:
        for name in ("consistent", "flavour", "branch", "loaded", "persistence"):
            findings.not_applicable(name, "no NVIDIA driver is installed")
    else:
        _driver_state.assess_consistent(findings, driver, state)
        _driver_fit.assess_flavour(findings, driver, state, require)
        _driver_fit.assess_branch(findings, state, require)
        _driver_running.assess_loaded(findings, driver, state)
        _driver_running.assess_persistence(findings, driver, state)
    return findings.checks()


# ---- managed_by ----------------------------------------------------------------------------------------------------


def _assess_owner(findings: Findings, owners: Any) -> None:
    if not isinstance(owners, dict):
        findings.unknown(
            "managed_by", owners if isinstance(owners, Unknown) else "nobody looked for the driver's owner"
        )
        return
    owner, schedulers = owners.get("driver"), owners.get("schedulers")
    if isinstance(owner, Unknown):
        findings.unknown("managed_by", owner)
        return
    observed = {"owner": owner, "schedulers": schedulers}
    runs = (
        f" {' and '.join(schedulers)} runs its work: drain there first."
        if isinstance(schedulers, list) and schedulers
        else ""
    )
    if owner:
        reason = f"{owner[:1].upper()}{owner[1:]} manages the driver: nothing of it is changed from here.{runs}"
    else:
        reason = f"This host manages its driver itself.{runs}"
    findings.passed("managed_by", reason, observed=observed)
