#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory of the driver's lab, an Ansible inventory script: the nodes of nodes.yml, with what a site would set."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.lab import lab  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver import table  # noqa: E402

# The distribution's own repository, which has the headers.
REPOSITORY = {
    "apt": {
        "path": "/etc/apt/sources.list.d/distribution.sources",
        "key_path": "/usr/share/keyrings/distribution.asc",
        "content": (
            "Types: deb\nURIs: http://127.0.0.1:8000/distribution/\nSuites: ./\n"
            "Signed-By: /usr/share/keyrings/distribution.asc\n"
        ),
    },
    "dnf": {
        "path": "/etc/yum.repos.d/distribution.repo",
        "key_path": "/etc/pki/rpm-gpg/RPM-GPG-KEY-distribution",
        "content": (
            "[distribution]\nname=distribution\nbaseurl=http://127.0.0.1:8000/distribution/\nenabled=1\ngpgcheck=1\n"
            "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-distribution\n"
        ),
    },
}


def repository(container: str, manager: str) -> dict[str, str]:
    """The distribution's repository as an element of nvidia_driver_repositories."""
    key = table.KEYS / f"{container}.asc"
    text = key.read_text(encoding="utf-8") if key.is_file() else ""
    return {"name": "distribution", "key": text, **REPOSITORY[manager]}


def variables(row: table.Row, container: str) -> dict[str, Any]:
    """Host variables of a node in that container."""
    return {
        **lab.in_container(""),
        "ansible_host": container,
        # Ansible's own folder for a run is no part of the node.
        "ansible_remote_tmp": "/tmp/ansible",
        "lab_node": row.name,
        "lab_expected": {"manager": row.system["manager"], **row.node.get("expected", {})},
        "nvidia_driver_repositories": [repository(container, row.system["manager"])],
        **row.node.get("variables", {}),
    }


def common(reports: str) -> dict[str, Any]:
    """Variables of all nodes of a site that takes the driver from its mirror."""
    return {
        "node_readiness_report_dir": reports,
        "nvidia_driver_source": "mirror",
        "nvidia_driver_mirror_url": "http://127.0.0.1:8000/cuda/repos",
        "nvidia_driver_key_file": str(table.STUBS / "vendor.asc"),
    }


def inventory() -> dict[str, Any]:
    """Groups and host variables in the form that Ansible asks of inventory scripts."""
    reports = os.path.join(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", str(lab.CACHE)), "driver-reports")
    hosts = {row.name: variables(row, f"gpufleet-lab-driver-{row.name}") for row in table.rows()}
    return {
        "_meta": {"hostvars": hosts},
        "all": {"children": ["gpu_nodes"], "vars": common(reports)},
        "gpu_nodes": {"hosts": list(hosts)},
    }


if __name__ == "__main__":
    print(json.dumps(inventory() if "--list" in sys.argv else {}))
