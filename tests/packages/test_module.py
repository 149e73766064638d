# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module's face, as Ansible calls it: check mode, the run, the second run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def call(node, *options, **arguments):
    """The exit status and the result of one ad-hoc call."""
    argv = [str(Path(sys.executable).parent / "ansible"), node.name, f"--inventory={node.name},"]
    argv += ["--extra-vars", json.dumps({"ansible_connection": "community.docker.docker", "ansible_user": "root"})]
    argv += ["--extra-vars", "ansible_python_interpreter=/usr/bin/python3"]
    argv += ["--module-name=gpufleet.kimi_k3.package_plan", "--args", json.dumps(arguments), *options]
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
    }
    env = {**env, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    result = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


@pytest.mark.parametrize(("kind", "repository"), [("deb12", "debian12"), ("el9", "rhel9")])
def test_as_ansible_calls_it(make, kind, repository):
    node = make(kind, repository)
    asked = {
        "repositories": [node.source()],
        "install": [{"name": "nvidia-open", "version": "580.126.20"}],
        "hold": ["*nvidia*"],
        "state": "present",
        **({"module_streams": {"nvidia-driver": "580-open"}} if kind == "el9" else {}),
    }
    before = node.state()
    status, said = call(node, "--check", "--diff", **asked)
    assert status == 0, said
    assert "CHANGED" in said
    assert "+++ after: packages" in said
    assert node.state() == before
    assert "CHANGED" in call(node, **asked)[1]
    assert "nvidia-open" in node.installed()
    assert "SUCCESS" in call(node, **asked)[1]


def test_a_refusal_is_a_failure_with_one_sentence(make):
    status, said = call(make(), install=[{"name": "nvidia-open", "version": "no version"}])
    assert status != 0
    assert "install[0].version: 'no version' is not allowed; allowed: a version" in " ".join(said.split())
