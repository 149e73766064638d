# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Probes many nodes of which 5 % are dead and 2 % hang: every node is a row, and the slowest limit bounds the run.

Dead: half refuse the connection, half do not answer at all. Hung: half accept the connection and stay silent, half let
one log in and then do nothing. The nodes that answer are probed alone before, and what the others cost is the difference.
It ends with 1 where a node is missing from the report or stands there in a wrong state.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "bench" / "probe"))

from nodes import Nodes  # noqa: E402  # needs the path above

DEAD, HUNG = 0.05, 0.02
REFUSED, OFF, SILENT, STUCK = "refuses", "does not answer", "accepts and stays silent", "logs in and hangs"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200, help="nodes in all (200)")
    parser.add_argument("--limit", type=float, default=5, help="node_readiness_timeout, seconds (5)")
    return parser.parse_args()


def kinds(count: int) -> dict[int, str]:
    """Which nodes fail, and how: spread over the inventory."""
    dead, hung = max(2, round(count * DEAD)), max(2, round(count * HUNG))
    wanted = [REFUSED, OFF] * (dead // 2) + [REFUSED] * (dead % 2) + [SILENT, STUCK] * (hung // 2)
    return {index * count // len(wanted): kind for index, kind in enumerate(wanted)}


@contextlib.contextmanager
def silent_ports() -> Iterator[tuple[int, int]]:
    """(a port that accepts and never says a word, a port that does not answer: its queue is full)."""
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("", 0), backlog=512))
        off = stack.enter_context(socket.create_server(("", 0), backlog=0))
        # Who is in the queue is never taken out of it; from then on the kernel lets first packets go unanswered.
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", off.getsockname()[1]))
        yield silent.getsockname()[1], off.getsockname()[1]


def main() -> None:
    """Set up, probe, compare, print."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="outage-bench-", dir="/tmp"))
    broken = kinds(options.nodes)
    stuck = [index for index, kind in broken.items() if kind == STUCK]
    try:
        with silent_ports() as (silent, off), Nodes(folder, options.nodes, stuck=stuck) as nodes:
            file = nodes.inventory(options.nodes)
            inventory = json.loads(file.read_text(encoding="utf-8"))
            for index, kind in broken.items():
                host = inventory["all"]["hosts"][f"node{index + 1:04d}"]
                # Port 1 is tcpmux, which nobody runs.
                host.update(
                    {REFUSED: {"ansible_port": 1}, OFF: {"ansible_port": off}, SILENT: {"ansible_port": silent}}.get(
                        kind, {}
                    )
                )
            file.write_text(json.dumps(inventory), encoding="utf-8")
            alone = folder / "alone.json"
            well = {name: host for name, host in inventory["all"]["hosts"].items() if int(name[4:]) - 1 not in broken}
            alone.write_text(json.dumps({"all": {**inventory["all"], "hosts": well}}), encoding="utf-8")
            # Before, so that its connections are warm for both.
            before = min(probe(folder, alone, options.limit) for _ in range(2))
            wall = probe(folder, file, options.limit)
        report = json.loads((folder / "reports" / "latest" / "readiness.json").read_text(encoding="utf-8"))
        print_results(options, broken, report, wall, before)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def probe(folder: Path, inventory: Path, limit: float) -> float:
    """Seconds that one probe of the whole inventory took."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    argv = [str(ROOT / ".venv/bin/ansible-playbook"), "-i", str(inventory), str(ROOT / "playbooks" / "probe.yml")]
    argv += ["-e", f"node_readiness_report_dir={folder}/reports", "-e", f"node_readiness_timeout={limit:g}"]
    start = time.monotonic()
    with (folder / "output").open("wb") as output:
        done = subprocess.run(
            argv,
            env={**settings, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_HOME": str(folder / "home")},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    wall = time.monotonic() - start
    if not (folder / "reports" / "latest").exists():
        raise SystemExit(
            f"the probe ended with {done.returncode} and left no report:\n{(folder / 'output').read_text()[-4000:]}"
        )
    return wall


def print_results(
    options: argparse.Namespace, broken: dict[int, str], report: dict, wall: float, before: float
) -> None:
    """What became of each kind; ends with 1 where a node is missing or in a wrong state."""
    states = {node["host"]: node["state"] for node in report["nodes"]}
    seen = Counter(
        (broken.get(index, "answers"), states.get(f"node{index + 1:04d}", "MISSING")) for index in range(options.nodes)
    )
    task = options.limit * 3 + 60
    print(f"{options.nodes} nodes in {wall:.1f} s, of which those that answer take {before:.1f} s when they are alone.")
    told = "holds" if wall - before <= task else "does not hold"
    print(f"The others cost {wall - before:.1f} s; at most {task:g} s, the limit of the probe's task: {told}.")
    for (kind, state), count in sorted(seen.items()):
        print(f"  {count:5}  {kind:26} {state}")
    wrong = [key for key in seen if (key[0] == "answers") != (key[1] == "probed")]
    if wrong or "MISSING" in {state for _kind, state in seen}:
        raise SystemExit(f"not every node stands in the report as what it is: {wrong}")


if __name__ == "__main__":
    main()
