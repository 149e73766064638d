# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The inventory plugin gpu_fabric as Ansible loads it; tests/discovery lets it meet real servers."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import ROOT

HEAD = "plugin: gpufleet.kimi_k3.gpu_fabric\n"


@pytest.fixture
def graph(tmp_path):
    """graph(text, name=…, python_path=…): (exit status, what was said) of ansible-inventory for such a file."""

    def run(text: str, name: str = "fleet.gpu_fabric.yml", python_path: Path | None = None) -> tuple[int, str]:
        (tmp_path / name).write_text(text, encoding="utf-8")
        env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "HOME": str(tmp_path), "COLUMNS": "1000"}
        if python_path:
            env["PYTHONPATH"] = str(python_path)
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(tmp_path / name), "--graph"],
            capture_output=True,
            text=True,
            env=env,
            cwd=ROOT,
            check=False,
            timeout=120,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: [gpu01]\nworkerz: 3\n", "there is no option 'workerz'; did you mean workers?"),
        ("hosts: [gpu01]\nuse_agent: perhaps\n", "use_agent: 'perhaps' is not allowed; allowed: true or false"),
        ("hosts: [gpu01]\npassword: 123456\n", "password: the given value is not allowed"),
    ],
)
def test_a_wrong_option_is_one_sentence_with_its_file_and_an_error(graph, tmp_path, text, said):
    status, output = graph(HEAD + text)
    assert status != 0
    assert f"{tmp_path}/fleet.gpu_fabric.yml: {said}" in output
    assert "123456" not in output


def test_a_file_of_another_name_is_not_read(graph):
    status, output = graph(HEAD + "hosts: [gpu01]\n", "fleet.yml")
    assert status != 0
    assert "could not be verified by inventory plugin" in output


def test_without_paramiko_it_says_how_to_install_it(graph, tmp_path):
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking" / "paramiko.py").write_text("raise ImportError('it is not here')\n", encoding="utf-8")
    status, output = graph(HEAD + "hosts: [gpu01]\n", python_path=tmp_path / "lacking")
    assert status != 0
    assert "discovery needs the Python library paramiko on the control node (it is not here); install it: " in output


def test_a_host_that_cannot_be_reached_is_kept_and_no_error(graph):
    status, output = graph(HEAD + "hosts: ['127.9.9.9:1']\n")
    assert status == 0
    assert "gpu_fabric: 127.9.9.9: unreachable: no connection to 127.9.9.9 port 1" in output
    assert "@undiscovered: | |--127.9.9.9" in output


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("fleet.gpu_fabric.yml", f"{HEAD}hosts: ['127.9.9.9:1']\n", 2),
        ("fleet.yml", "all: {hosts: {gpu01: {}}}\n", 0),
    ],
)
def test_the_documented_command_fails_on_a_host_that_was_not_read(tmp_path, name, content, status):
    text = (ROOT / "docs" / "topology.md").read_text(encoding="utf-8")
    (command,) = [line[2:] for line in text.splitlines() if line.startswith("$ ansible localhost ")]
    inventory = tmp_path / name
    inventory.write_text(content, encoding="utf-8")
    program, *arguments = shlex.split(command.replace("inventories/mine", str(inventory)))
    done = subprocess.run(
        [str(Path(sys.executable).parent / program), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "HOME": str(tmp_path)},
        cwd=ROOT,
        check=False,
        timeout=120,
    )
    assert done.returncode == status, done.stdout + done.stderr
