#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's inventory, an Ansible inventory script: a container for each row of tests/fixtures/nodes/variants.py, and
the hosts on which no probe can run."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import variants  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab import lab  # noqa: E402


def inventory() -> dict[str, Any]:
    """Groups and host variables in the form that Ansible asks of inventory scripts."""
    reports = os.path.join(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", str(lab.CACHE)), "reports")
    hosts: dict[str, dict[str, Any]] = {
        name: {
            **lab.in_container(name),
            "lab_variant": name,
            "lab_expected": {"state": "probed", **variant.expected()},
            "node_readiness_require": variant.contract,
            "node_readiness_timeout": variant.timeout,
        }
        for name, variant in variants.VARIANTS.items()
    }
    containers = list(hosts)
    for name, host in lab.CANNOT_BE_PROBED.items():
        hosts[name] = {"lab_expected": host.expected, "lab_says": host.says, **host.variables}
        if host.container:
            containers.append(name)
    return {
        "_meta": {"hostvars": hosts},
        "all": {"children": ["nodes"], "vars": {"node_readiness_report_dir": reports}},
        "nodes": {"hosts": list(hosts)},
        "containers": {"hosts": containers},
    }


if __name__ == "__main__":
    print(json.dumps(inventory() if "--list" in sys.argv else {}))
