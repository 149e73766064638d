# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node of nodes.yml on its own, and `playbooks/site.yml` run on it as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.tests.lab.driver import inventory, table

ROOT = Path(__file__).resolve().parents[3]
# The run's own lock, what it keeps for a rollback, and what it fetched.
OURS = "/var/lib/gpufleet-kimi-k3"
FETCHED = "/var/cache/gpufleet-kimi-k3"
LOG = f"{OURS}/package-plan/current/log"


class Site:
    """One node, in a container of that name, and the inventory that has it; ``folder`` takes inventory and reports."""

    def __init__(self, container: str, row: str, folder: Path, **variables: Any) -> None:
        self.container = container
        self.folder = folder
        make = [sys.executable, str(ROOT / "tests" / "lab" / "driver" / "nodes.py"), container, row]
        subprocess.run(make, check=True)
        node = {**inventory.variables(table.row(row), container), **variables}
        self.hosts = folder / "hosts.json"
        common = inventory.common(str(folder / "reports"))
        self.hosts.write_text(json.dumps({"gpu_nodes": {"hosts": {"node": node}, "vars": common}}), encoding="utf-8")

    def close(self) -> None:
        """Take the container away."""
        subprocess.run(["docker", "rm", "--force", self.container], check=True, capture_output=True)

    def on_node(self, text: str, stdin: str = "") -> str:
        """Standard output of a shell text on the node."""
        argv = ["docker", "exec", "-i", self.container, "sh", "-c", text]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self) -> dict[str, Any]:
        """The node without what the run itself keeps there, and without times, which refusals may touch."""
        manifest = (ROOT / "tests" / "lab" / "manifest.py").read_text(encoding="utf-8")
        seen: dict[str, Any] = json.loads(self.on_node("python3 -", manifest))
        files = {
            path: [*item[:3], *item[6:]] for path, item in seen["files"].items() if not path.startswith((OURS, FETCHED))
        }
        return {"files": files, "packages": seen["packages"]}

    def start(self, *more: str) -> subprocess.Popen[str]:
        """site.yml in a process group of its own."""
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.hosts)]
        settings = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        return subprocess.Popen(
            [*command, str(ROOT / "playbooks" / "site.yml"), *more],
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *more: str) -> tuple[int, str]:
        """The exit status of site.yml, and what it told, with single spaces."""
        process = self.start(*more)
        told, _none = process.communicate()
        return process.returncode, " ".join(told.split())

    def until_it_installs(self, package: str) -> None:
        """Wait until the transaction configures a package (a stub that was told to be slow)."""
        for _attempt in range(600):
            if self.on_node(f"grep -q 'Setting up {package}' {LOG} 2>/dev/null && echo yes || true"):
                return
            time.sleep(0.1)
        raise AssertionError(f"{package} was never set up")

    def kill(self, *words: str) -> None:
        """kill -9 every process of the node whose command line has one of the words, at once."""
        self.on_node(
            "python3 - " + " ".join(words),
            "import os, sys\n"
            "for n in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try: line = open(f'/proc/{n}/cmdline').read()\n"
            "    except OSError: continue\n"
            "    if int(n) not in (1, os.getpid(), os.getppid()) and any(w in line for w in sys.argv[1:]):\n"
            "        os.kill(int(n), 9)\n",
        )


def changed(told: str) -> int:
    """How many tasks of the node changed something, by the recap of what a run told."""
    found = re.search(r"node : ok=\d+ changed=(\d+)", told)
    assert found is not None, told[-2000:]
    return int(found.group(1))
