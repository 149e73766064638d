# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role nvidia_fabric refuses, on nodes of the lab: each refusal names its cause, and the node stays as it was.

And what it says of a fabric that does not come up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.tests.lab import compare, lab
from ansible_collections.gpufleet.kimi_k3.tests.lab.fabric import nodes

ROOT = Path(__file__).resolve().parents[3]
OWN = nodes.TRAYS[0]
HOST = {"nvidia_fabric_imex_owner": "host", "nvidia_fabric_imex_nodes": [OWN]}
SITE_FILE = "/etc/modprobe.d/site.conf"
# What is done to the node before and afterwards, the site's variables, and what has to be said.
REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "nobody owns IMEX": ("true", "true", {}, "nvidia_fabric_imex_owner: '' is not allowed on a tray"),
    "no nodes": ("true", "true", {"nvidia_fabric_imex_owner": "host"}, "nvidia_fabric_imex_nodes: [] is not allowed"),
    "nodes without this one": (
        "true",
        "true",
        {**HOST, "nvidia_fabric_imex_nodes": ["192.0.2.77"]},
        f"none of 192.0.2.77 is an address of this node, which has {OWN}",
    ),
    "a node twice": (
        "true",
        "true",
        {**HOST, "nvidia_fabric_imex_nodes": [OWN, OWN]},
        "host node: nvidia_fabric_imex_nodes: ",
    ),
    "a misspelt variable": (
        "true",
        "true",
        {"nvidia_fabric_imex_node": [OWN], **HOST},
        "there is no variable 'nvidia_fabric_imex_node'",
    ),
    "another kind": (
        "true",
        "true",
        {**HOST, "nvidia_fabric_kind": "hgx"},
        "'hgx' is not allowed on this node, which is tray",
    ),
    "an option elsewhere": (
        f"mkdir -p /etc/modprobe.d && echo options nvidia NVreg_CreateImexChannel0=0 >{SITE_FILE}",
        f"rm {SITE_FILE}",
        HOST,
        f"{SITE_FILE} sets NVreg_CreateImexChannel0=0",
    ),
    "an option of the role nvidia_driver": (
        "true",
        "true",
        {**HOST, "nvidia_driver_module_options": {"NVreg_CoherentGPUMemoryMode": "numa"}},
        "nvidia_driver_module_options: NVreg_CoherentGPUMemoryMode=numa is not allowed on a tray",
    ),
    "another nodes file": (
        "echo IMEX_NODE_CONFIG_FILE=/opt/nodes >>/etc/nvidia-imex/config.cfg",
        "sed -i /opt.nodes/d /etc/nvidia-imex/config.cfg",
        HOST,
        "/etc/nvidia-imex/config.cfg names /opt/nodes as its nodes file",
    ),
}


class LabNode:
    """A container that looks like a row of nodes.NODES."""

    def __init__(self, row: str, folder: Path) -> None:
        self.name = f"gpufleet-lab-fabric-refusals-{row}"
        self.folder = folder
        create = ["docker", "run", "--detach", f"--name={self.name}", f"--hostname={row}", "--network=none"]
        create += ["--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"]
        create += ["--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup", "--tmpfs=/run", "--tmpfs=/run/lock"]
        subprocess.run(["docker", "rm", "--force", self.name], check=True, capture_output=True)
        subprocess.run([*create, "--tmpfs=/tmp:exec", "gpufleet-node:bookworm"], check=True, capture_output=True)
        self.shell('until [ "$(systemctl is-system-running --wait 2>/dev/null)" = running ]; do sleep 0.5; done')
        subprocess.run([sys.executable, nodes.__file__, row, self.name], check=True)

    def shell(self, text: str, stdin: str = "") -> str:
        """Standard output of a shell text on the node."""
        argv = ["docker", "exec", "-i", self.name, "sh", "-c", text]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(self) -> dict[str, Any]:
        """The node without times, which putting a file back changes."""
        seen: dict[str, Any] = json.loads(self.shell("python3 -", (ROOT / "tests/lab/manifest.py").read_text()))
        seen["files"] = {path: [*item[:3], *item[6:]] for path, item in seen["files"].items()}
        return {part: seen[part] for part in ("files", "packages", "units")}

    def run(self, **variables: Any) -> tuple[int, str]:
        """Exit code and words of the role on this node."""
        host = {**lab.in_container("x", ansible_host=self.name), "ansible_remote_tmp": "/tmp/ansible", **variables}
        inventory = self.folder / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"node": host}}}), encoding="utf-8")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory)]
        done = subprocess.run(
            [*command, str(Path(__file__).with_name("fabric.yml"))],
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, " ".join(done.stdout.split())

    def close(self) -> None:
        """Take it away."""
        subprocess.run(["docker", "rm", "--force", self.name], check=True, capture_output=True)


def made(row: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabNode]:
    node = LabNode(row, tmp_path_factory.mktemp(row))
    yield node
    node.close()


@pytest.fixture(scope="module")
def tray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabNode]:
    """A tray whose fabric nobody has set up."""
    yield from made("tray-host-1", tmp_path_factory)


@pytest.fixture
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabNode]:
    """A B200 board whose fabric nobody has set up."""
    yield from made("b200", tmp_path_factory)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_and_the_node_stays_as_it_was(tray: LabNode, case: str) -> None:
    way, clear, variables, says = REFUSED[case]
    tray.shell(way)
    try:
        before = tray.state()
        code, told = tray.run(**variables)
        assert code == 2, told[-3000:]
        assert says in told, told[-3000:]
        assert compare.differences(before, tray.state()) == []
    finally:
        tray.shell(clear)


def test_a_fabric_that_does_not_come_up_in_time_fails_with_what_each_gpu_said(board: LabNode) -> None:
    code, told = board.run(nvidia_fabric_timeout=5)
    assert code == 2
    assert "the NVLink fabric is not up after 5 s" in told
    assert told.count("state In Progress, status N/A") >= 8
    # The same command goes on where that one ended.
    code, told = board.run()
    assert code == 0, told[-3000:]


def test_c15_a_fabric_manager_that_finds_nothing_fails_with_the_cause(board: LabNode) -> None:
    # A test double of a modprobe that says yes and does nothing.
    board.shell("printf '#!/bin/sh\\n' >/usr/local/sbin/modprobe")
    code, told = board.run()
    assert code == 2
    assert "nvidia-fabricmanager.service failed" in told
    assert "ib_umad and mlx5_ib are not loaded, so the fabric manager took this NVLink 5 board for an older one" in told
    assert "NV_WARN_NOTHING_TO_DO" in told
