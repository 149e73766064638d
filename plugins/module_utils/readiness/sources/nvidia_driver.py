# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The NVIDIA driver beside its kernel module: libraries, what the kernel log says of it, and what nvidia-smi does."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    kernel_log,
    nvidia_smi,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.nvidia_module import VERSION_PATTERN

# The root of the driver a driver container installs. Source: gpu-driver-container.
CONTAINER_TREE = "/run/nvidia/driver"
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64",
    "/usr/lib",
)

_LIBRARY = re.compile(rf"lib(cuda|nvidia-ml)\.so\.({VERSION_PATTERN})")
_LOG_PREFIX = re.compile(r"^\s*(?:<[0-9]+>)?\s*(?:\[[^\]]*\])?\s*(?:kernel:\s*)?(?:NVRM:\s*)?")
_MISMATCH = re.compile(
    rf"API mismatch: the client\b.{{0,160}}?has the version ({VERSION_PATTERN}),?\s*but.{{0,20}}?"
    rf"this kernel module has the version ({VERSION_PATTERN})"
)
_NEEDS_OPEN = re.compile(r"requires use of the NVIDIA open kernel modules", re.I)
_BOUND_ELSEWHERE = re.compile(
    r"NVRM:.*(is already bound to|probe routine was not called|No NVIDIA devices probed)|already bound to NovaCore"
)
_SMI_LIBRARY = re.compile(r"NVML library version: ([0-9.]{3,20})")


def userland(node: Node, tree: str = "") -> dict[str, Any] | Unknown:
    """``{"versions": [in use], "files": {path: version}}`` of libcuda and libnvidia-ml below ``tree``.

    In use is what ``lib….so.1`` points to; where no such link names a version, every version that is there.
    """
    files: dict[str, str] = {}
    active: set[str] = set()
    for folder in LIBRARY_FOLDERS:
        names = node.listdir(tree + folder)
        if isinstance(names, Unknown):
            return names
        for name in names or []:
            match = _LIBRARY.fullmatch(name)
            if match:
                files[f"{tree}{folder}/{name}"] = match.group(2)
            elif name in ("libcuda.so.1", "libnvidia-ml.so.1"):
                target = node.readlink(f"{tree}{folder}/{name}")
                match = _LIBRARY.fullmatch(target.rsplit("/", 1)[-1]) if isinstance(target, str) else None
                if match:
                    active.add(match.group(2))
    return {"versions": sorted(active or set(files.values())), "files": dict(sorted(files.items())[:20])}


def log(node: Node) -> dict[str, Any] | Unknown:
    """What the kernel said in this boot: ``{"source", "mismatch": {client, kernel, line}, "needs_open", "held"}``.

    The API mismatch is one message over several lines, which are joined before they are read (C02).
    """
    whole = kernel_log.read(node)
    if isinstance(whole, Unknown):
        return whole
    mismatch = None
    for number, line in enumerate(whole.lines):
        if "API mismatch" in line:
            joined = " ".join(_LOG_PREFIX.sub("", part[:400]).strip() for part in whole.lines[number : number + 5])
            match = _MISMATCH.search(joined)
            if match:
                mismatch = {"client": match.group(1), "kernel": match.group(2), "line": match.group()}
    return {
        "source": whole.source,
        "mismatch": mismatch,
        "needs_open": _last(whole.matching(_NEEDS_OPEN)),
        "held": _last(whole.matching(_BOUND_ELSEWHERE)),
    }


def _last(lines: list[str]) -> str | None:
    return lines[-1].strip()[:300] if lines else None


def smi(node: Node) -> dict[str, Any]:
    """What nvidia-smi adds: ``{"version", "mismatch", "library", "persistence": [mode of each GPU]}``."""
    answer = nvidia_smi.query(node)
    if isinstance(answer, Unknown):
        result = nvidia_smi.result(node)
        said = f"{result.stdout} {result.stderr}"
        library = _SMI_LIBRARY.search(said)
        return {
            "version": answer,
            "mismatch": "driver/library version mismatch" in said.lower(),
            "library": library.group(1).strip(".") if library else None,
            "persistence": answer,
        }
    return {
        "version": answer.driver_version,
        "mismatch": False,
        "library": None,
        "persistence": [gpu.text("persistence_mode") for gpu in answer.gpus],
    }
