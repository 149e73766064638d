#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory of the driver's lab, an Ansible inventory script: each node with where it starts and where it ends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.lab import lab  # noqa: E402

STUBS = Path(os.environ.get("LAB_STUBS", str(lab.CACHE / "packages")))
# repository, what is there before (see nodes.py), variables of the site, what is there afterwards.
NODES: dict[str, dict[str, Any]] = {
    "debian12-bare": {"repository": "debian12", "expected": {"version": "580.126.20"}},
    "debian12-held-575": {
        "repository": "debian12",
        "former": "held-575",
        "expected": {"version": "580.126.20", "held": "bash", "kept": "575.57.08"},
    },
    "debian12-proprietary": {
        "repository": "debian12",
        "former": "proprietary-580",
        "expected": {"version": "580.126.20", "kept": "580.126.20"},
    },
    "ubuntu2404-to-595": {
        "repository": "ubuntu2404",
        "former": "open-580",
        "variables": {"nvidia_driver_branch": "595"},
        "expected": {"version": "595.71.05", "kept": "580.95.05"},
    },
}


def repository(name: str) -> dict[str, str]:
    """The distribution's own repository, which has the headers."""
    key = STUBS.parent / "driver" / f"{name}.asc"
    return {
        "name": "distribution",
        "path": "/etc/apt/sources.list.d/distribution.sources",
        "key": key.read_text(encoding="utf-8") if key.is_file() else "",
        "key_path": "/usr/share/keyrings/distribution.asc",
        "content": (
            "Types: deb\nURIs: http://127.0.0.1:8000/distribution/\nSuites: ./\n"
            "Signed-By: /usr/share/keyrings/distribution.asc\n"
        ),
    }


def inventory() -> dict[str, Any]:
    """Groups and host variables in the form that Ansible asks of inventory scripts."""
    reports = os.path.join(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", str(lab.CACHE)), "driver-reports")
    hosts = {
        name: {
            **lab.in_container(f"driver-{name}"),
            # Ansible's own folder for a run is no part of the node.
            "ansible_remote_tmp": "/tmp/ansible",
            "lab_repository": node["repository"],
            "lab_former": node.get("former", ""),
            "lab_expected": node["expected"],
            "nvidia_driver_repositories": [repository(f"gpufleet-lab-driver-{name}")],
            **node.get("variables", {}),
        }
        for name, node in NODES.items()
    }
    return {
        "_meta": {"hostvars": hosts},
        "all": {
            "children": ["gpu_nodes"],
            "vars": {
                "node_readiness_report_dir": reports,
                "nvidia_driver_source": "mirror",
                "nvidia_driver_mirror_url": "http://127.0.0.1:8000/cuda/repos",
                "nvidia_driver_key_file": str(STUBS / "vendor.asc"),
            },
        },
        "gpu_nodes": {"hosts": list(hosts)},
    }


if __name__ == "__main__":
    print(json.dumps(inventory() if "--list" in sys.argv else {}))
