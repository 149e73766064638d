# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who owns the driver, fabric, RDMA stack and container engine of a node. Where it is not us, no cure is offered."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    UNKNOWN,
    WARN,
    Check,
    Remedy,
    Spec,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import processes

PARTS = ("driver", "fabric", "rdma", "container")

# (path that betrays an owner, its name, the parts it owns). Source: gpu-driver-container and gpu-operator mount the
# driver's root under /run/nvidia/driver and their startup probe leaves the ready file (both gone after a reboot);
# Mellanox/ofed-docker mounts its own root, ready file included, under /run/mellanox/drivers; GKE's installer writes to
# /home/kubernetes/bin/nvidia; Base Command Manager's daemon lives in /cm/local/apps/cmd on each node; DGX OS has
# /etc/dgx-release; Azure/azhpc-images records its tested set in /opt/azurehpc.
MARKS = (
    ("/run/nvidia/driver/usr/bin/nvidia-smi", "the GPU operator's driver container", ("driver", "fabric")),
    ("/run/nvidia/validations/.driver-ctr-ready", "the GPU operator's driver container", ("driver", "fabric")),
    ("/usr/local/nvidia/toolkit/nvidia-container-runtime", "the GPU operator's toolkit container", ("container",)),
    ("/run/mellanox/drivers/.driver-ready", "the network operator's driver container", ("rdma",)),
    ("/home/kubernetes/bin/nvidia/bin/nvidia-smi", "Google Kubernetes Engine", ("driver", "fabric", "container")),
    ("/cm/local/apps/cmd", "NVIDIA Base Command Manager", ("driver", "fabric", "rdma")),
    ("/etc/dgx-release", "the vendor image (DGX OS)", ("driver", "fabric", "rdma")),
    ("/opt/azurehpc/component_versions.txt", "the vendor image (Azure HPC)", ("driver", "fabric", "rdma")),
)
# Schedulers own the workload, not the parts: they decide when a node may be disturbed. By process name; rke2, k0s, EKS
# and OpenShift run a process named kubelet, k3s and MicroK8s have it inside their own.
SCHEDULERS = (
    ("kubelet", "Kubernetes (kubelet)"),
    ("k3s-server", "Kubernetes (k3s)"),
    ("k3s-agent", "Kubernetes (k3s)"),
    ("kubelite", "Kubernetes (MicroK8s)"),
    ("slurmd", "Slurm (slurmd)"),
)


def collect(node: Node) -> dict[str, Any]:
    """``{part: owner or None, "schedulers": [...]}``; a mark that cannot be looked at makes its parts Unknown."""
    owners: dict[str, Any] = dict.fromkeys(PARTS)
    for path, name, parts in MARKS:
        there = node.exists(path)
        for part in parts:
            if isinstance(there, Unknown):
                owners[part] = owners[part] or there
            elif there and not isinstance(owners[part], str):
                owners[part] = name
    owners["schedulers"] = _schedulers(node)
    return owners


def _schedulers(node: Node) -> list[str] | Unknown:
    """Schedulers whose daemon runs, by the names of the running processes."""
    running = processes.names(node)
    return running if isinstance(running, Unknown) else [label for comm, label in SCHEDULERS if comm in running]


def withhold(checks: list[Check], specs: dict[str, Spec], owners: dict[str, Any]) -> None:
    """Replace the cure of every check whose part belongs to somebody else by the name of that owner."""
    for check in checks:
        part = specs[check.id].owner
        owner = owners.get(part) if part else None
        if isinstance(owner, str) and check.status in (FAIL, WARN, UNKNOWN):
            disruptive = check.remedy.disruptive if check.remedy else "none"
            check.remedy = Remedy(
                f"{_sentence(owner)} manages this part of the node: have it changed there.", disruptive
            )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
