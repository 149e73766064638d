#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory of the fabric's lab, an Ansible inventory script: a container for each row of nodes.NODES."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.lab import lab  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab.fabric import nodes  # noqa: E402


def inventory() -> dict[str, Any]:
    """Groups and host variables in the form that Ansible asks of inventory scripts."""
    reports = os.path.join(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", str(lab.CACHE)), "fabric-reports")
    hosts = {
        name: {
            **lab.in_container(f"fabric-{name}"),
            # Ansible's own folder for a run is no part of the node.
            "ansible_remote_tmp": "/tmp/ansible",
            "lab_expected": node.expected,
            **node.variables,
        }
        for name, node in nodes.NODES.items()
    }
    return {
        "_meta": {"hostvars": hosts},
        "all": {"children": ["gpu_nodes"], "vars": {"node_readiness_report_dir": reports}},
        "gpu_nodes": {"hosts": list(hosts)},
        "containers": {"hosts": list(hosts)},
    }


if __name__ == "__main__":
    print(json.dumps(inventory() if "--list" in sys.argv else {}))
