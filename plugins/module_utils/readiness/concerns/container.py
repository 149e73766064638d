# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The container engine: does it answer, does it know the GPUs, are its device lists current, how much may it lock."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.container import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import (
    _container_engine,
    _container_gpu,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Findings,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    cdi,
    container_engine,
    nvidia_module,
    packages,
    pci,
)

TOOLKIT = ["nvidia-ctk", "--version"]
# Version-locked to each other. Source: facts 1.46.
TOOLKIT_PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
ENVIRONMENT = "/etc/environment"


def collect(node: Node) -> dict[str, Any]:
    """What the engine and its GPU parts say.

    ``{"engine": {...} as container_engine.find(), "hostname", "docker_host", "toolkit": {"version", "packages"},
    "runtime_there", "cdi": [...] as cdi.read(), "driver": loaded version, "gpus": count of NVIDIA GPUs,
    "memlock": {"bytes": -1 for unlimited, "source"}}``.
    """
    engine = container_engine.find(node)
    environment = node.read(ENVIRONMENT, 65536)
    docker_host = (
        re.search(r"(?m)^\s*(?:export\s+)?DOCKER_HOST=[\"']?([^\"'\n]*)", environment)
        if isinstance(environment, str)
        else None
    )
    gpus = pci.gpus(node)
    return {
        "engine": engine,
        "hostname": node.value("/proc/sys/kernel/hostname"),
        "docker_host": docker_host.group(1).strip() if docker_host else "",
        "toolkit": _toolkit(node),
        "runtime_there": _runtime_there(node, engine),
        "cdi": cdi.read(node, engine.get("cdi_dirs") or cdi.FOLDERS),
        "driver": nvidia_module.loaded(node)["version"],
        "gpus": gpus if isinstance(gpus, Unknown) else sum(device.vendor == "10de" for device in gpus),
        "memlock": _container_engine.read_memlock(node, engine),
    }


def _toolkit(node: Node) -> dict[str, Any]:
    """``{"version": text, Unknown, or None where it is not installed, "packages": {name: version}}``."""
    result = node.run(TOOLKIT)
    told = re.search(r"version (\d[\w.~+-]{0,40})", result.stdout) if result.ok else None
    version: Any = told.group(1) if told else None if result.error == "missing" else result.unknown()
    if result.ok and not told:
        version = Unknown(f"`{result.source}` told no version", result.source)
    known = packages.installed(node)
    found = known.by_name if not isinstance(known, Unknown) else {}
    return {
        "version": version,
        "packages": {name: found[name].upstream for name in TOOLKIT_PACKAGES if name in found},
    }


def _runtime_there(node: Node, engine: dict[str, Any]) -> bool | Unknown | None:
    """Whether the program docker calls for the nvidia runtime exists; None where it is found by its name."""
    runtimes = engine.get("runtimes")
    path = runtimes.get("nvidia") if isinstance(runtimes, dict) else None
    return node.exists(path) if isinstance(path, str) and path.startswith("/") else None


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for engine, gpu_runtime, cdi and memlock."""
    findings = Findings("container", CHECKS)
    container = facts["container"]
    engine = container["engine"]
    wanted = require["container_engine"]
    if engine["name"] and wanted not in ("auto", engine["name"]):
        # Facts of another contract: nobody looked for the engine that this one names.
        for spec in CHECKS:
            findings.unknown(spec.name, f"{wanted} was not looked for when this node was read")
        return findings.checks()
    _container_engine.assess_engine(findings, container, wanted)
    _container_gpu.assess_gpu_runtime(findings, container)
    _container_gpu.assess_cdi(findings, container)
    _container_engine.assess_memlock(findings, container, require["memlock_min_kib"])
    return findings.checks()
