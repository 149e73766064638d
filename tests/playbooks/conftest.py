# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the project's playbooks as a user would, and answers with their events."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import ROOT, Run


@pytest.fixture
def play(tmp_path):
    """play("probe", hosts, extra variables, limit=…, check=…): a Run of playbooks/<name>.yml."""

    def run(
        playbook: str,
        hosts: dict[str, dict[str, Any]],
        extra: dict[str, Any] | None = None,
        limit: str = "",
        check: bool = False,
    ) -> Run:
        inventory = tmp_path / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")
        reports = tmp_path / "reports"
        (tmp_path / "runner").mkdir(exist_ok=True)
        search_path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        finished = ansible_runner.run(
            private_data_dir=str(tmp_path / "runner"),
            project_dir=str(ROOT),
            playbook=str(ROOT / "playbooks" / f"{playbook}.yml"),
            inventory=str(inventory),
            limit=limit or None,
            extravars={"node_readiness_report_dir": str(reports), **(extra or {})},
            cmdline="--check" if check else None,
            envvars={"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PATH": search_path},
            quiet=True,
            # Else a run that follows in the same test would be given the variables and --check of the one before.
            suppress_env_files=True,
        )
        return Run(finished.rc, list(finished.events), reports)

    return run
