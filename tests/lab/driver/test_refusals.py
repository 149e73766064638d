# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What `playbooks/site.yml` refuses on a node, and that it leaves such a node as it was. Needs the lab's engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab import compare
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver import inventory, table

ROOT = Path(__file__).resolve().parents[3]
NAME = "gpufleet-lab-driver-refused"
# The run's own lock and what it keeps for a rollback.
OURS = "/var/lib/gpufleet-kimi-k3"
# (what stands in the way, how it is taken away, variables of the site, what the refusal says)
REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "runfile": ("touch /usr/bin/nvidia-uninstall", "rm /usr/bin/nvidia-uninstall", {}, "runfile installation"),
    "driver container": (
        "mkdir -p /run/nvidia/validations && touch /run/nvidia/validations/.driver-ctr-ready",
        "rm -r /run/nvidia",
        {},
        "driver container manages this node's driver",
    ),
    "busy": (
        "touch /dev/nvidia0; (exec 9</dev/nvidia0; exec sleep 600) >/dev/null 2>&1 & echo $! > /run/busy",
        "kill $(cat /run/busy); rm /dev/nvidia0",
        {},
        "the GPUs are in use by sleep",
    ),
    "no room": (
        "mount -t tmpfs -o size=1m none /boot && touch /boot/vmlinuz-$(uname -r)",
        "umount /boot",
        {},
        "/boot has 1 MiB free",
    ),
    "locked": (
        (
            'python3 -c \'import fcntl,os,time; f=open("/var/lib/dpkg/lock-frontend","w"); fcntl.lockf(f,fcntl.LOCK_EX); '
            "time.sleep(600)' >/dev/null 2>&1 & echo $! > /run/locked; sleep 1"
        ),
        "kill $(cat /run/locked)",
        {"nvidia_driver_lock_timeout": 1},
        "in use",
    ),
    "wrong key": (
        "true",
        "true",
        {"nvidia_driver_key_file": str(table.STUBS / "other.asc")},
        "not signed by the given key",
    ),
    "known bad": (
        "true",
        "true",
        {"nvidia_driver_known_bad": [{"version": "580.126.20", "reason": "our jobs hang"}]},
        "our jobs hang",
    ),
    "no such version": ("true", "true", {"nvidia_driver_version": "580.1.1"}, "580.1.1 is not offered"),
    "headers without files": (
        "rm -r /lib/modules/*/build",
        "mkdir /lib/modules/$(uname -r)/build",
        {},
        "leads nowhere",
    ),
    "no way back": (
        "mv /etc/apt/sources.list.d/cuda-debian12-x86_64.list /root && apt-get -qq update && apt-get clean",
        "mv /root/cuda-debian12-x86_64.list /etc/apt/sources.list.d",
        {},
        "Rollback unavailable",
    ),
    # The last one: the headers do not come back.
    "no headers": (
        "dpkg --remove linux-headers-$(uname -r)",
        "true",
        {"nvidia_driver_repositories": []},
        "linux-headers-",
    ),
}


def on_node(text: str, stdin: str = "") -> str:
    argv = ["docker", "exec", "-i", NAME, "sh", "-c", text]
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def state() -> dict[str, Any]:
    """The node without what the kernel and the run itself keep there, and without times, which refusals may touch."""
    seen: dict[str, Any] = json.loads(on_node("python3 -", (ROOT / "tests" / "lab" / "manifest.py").read_text()))
    seen["files"] = {path: [*item[:3], *item[6:]] for path, item in seen["files"].items() if not path.startswith(OURS)}
    return {part: seen[part] for part in ("files", "packages")}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The inventory of one node that a site has on a held 575."""
    make = [sys.executable, str(ROOT / "tests" / "lab" / "driver" / "nodes.py"), NAME, "debian12-held-575"]
    subprocess.run(make, check=True)
    folder = tmp_path_factory.mktemp("site")
    node = inventory.variables(table.row("debian12-held-575"), NAME)
    common = inventory.common(str(folder / "reports"))
    file = folder / "hosts.json"
    file.write_text(json.dumps({"gpu_nodes": {"hosts": {"node": node}, "vars": common}}), encoding="utf-8")
    yield file
    subprocess.run(["docker", "rm", "--force", NAME], check=True, capture_output=True)


def site(hosts: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(hosts)]
    settings = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    playbook = str(ROOT / "playbooks" / "site.yml")
    return subprocess.run([*command, playbook, *more], env=settings, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_and_the_node_stays_as_it_was(hosts: Path, case: str) -> None:
    way, clear, variables, says = REFUSED[case]
    on_node(way)
    try:
        before = state()
        done = site(hosts, "-e", json.dumps(variables))
        told = " ".join(done.stdout.split())
        assert done.returncode == 2, told[-3000:]
        assert says in told
        assert compare.differences(before, state()) == []
    finally:
        on_node(clear)
