# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the control node does once the nodes have answered: fleet checks, table and report files, for more and more nodes.

The nodes are copies of what the probe really answers of made-up ones (tests/fixtures/nodes), in racks and deployments,
some of them unreachable and some of another driver version. Each size has a process of its own, so that its peak of
memory is its own; of several rounds the quickest counts. It ends with 1 where time or memory of a node grows with
their number by more than AT_MOST.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import fleet_readiness
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import difference, html, junit, prometheus
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import node_row
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.terminal import table
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import REQUIRE, healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import MadeNode

MIB = 1 << 20
# Two thirds are trays of racks, as in a fleet of GB200; the others are nodes of eight GPUs.
KINDS = ("gb200", "gb200", "b200")
TRAYS = 18
WHEN = datetime(2026, 11, 30, 21, tzinfo=UTC)
# Linear is 1; the rest is for a machine that does other work.
AT_MOST = 1.3


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 1000, 2000], help="sizes (500 1000 2000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the quickest counts (3)")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def answers() -> dict[str, str]:
    """What the probe answers of one healthy node of each kind, as JSON."""
    found = {}
    for kind in sorted(set(KINDS)):
        with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
            node = MadeNode(healthy(kind), Path(folder) / "root")
            found[kind] = json.dumps(probe.probe(node, contract.resolve(REQUIRE), {}))
    return found


def results(count: int) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Results of probe tasks as Ansible registers them, and what the inventory declares, both by host."""
    told = answers()
    found, declared = {}, {}
    for number in range(count):
        kind, rack = KINDS[number // TRAYS % len(KINDS)], number // TRAYS
        host = f"node-{number:05}"
        declared[host] = {"deployment": f"k3-{rack // 4}"}
        if number % 20 == 7:
            found[host] = {"unreachable": True, "msg": "Failed to connect to the host via ssh: no route to host"}
            continue
        readiness = json.loads(told[kind])
        facts = readiness["facts"]
        if kind == "gb200":
            facts["fabric"]["domain"] = declared[host]["nvlink_domain"] = f"{rack:08x}-9d5f-4e08-b3a6-1c2d3e4f5a6b"
        if number % 50 == 11:
            facts["driver"]["loaded"]["version"] = "580.159.04"
        found[host] = {"readiness": readiness, "changed": False}
    return found, declared


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Seconds of each stage, peak of memory in MiB, and how much of it the nodes' answers take themselves."""
    before = _peak()
    found, declared = results(count)
    held = _peak() - before
    rows: list[dict[str, Any]] = []
    report: dict[str, Any] = {}

    def make_rows() -> None:
        rows[:] = [node_row(host, result) for host, result in found.items()]

    def make_report() -> None:
        report.update(document(rows, "bench", WHEN, "0.0.0", declared))

    stages: dict[str, Callable[[], Any]] = {
        "rows": make_rows,
        "filter": lambda: fleet_readiness(rows, declared),
        "document": make_report,
        "table": lambda: table(report),
        "json": lambda: len(json.dumps(report, indent=1)),
        "junit": lambda: _spent(junit.chunks(report)),
        "prometheus": lambda: _spent(prometheus.chunks(report)),
        "difference": lambda: difference.difference(report, report),
        "html": lambda: _spent(html.chunks(report, None, "")),
    }
    seconds = {}
    for name, stage in stages.items():
        costs = []
        for _ in range(rounds):
            start = time.perf_counter()
            stage()
            costs.append(time.perf_counter() - start)
        seconds[name] = min(costs)
    return {
        "nodes": count,
        "seconds": seconds,
        "answers": held,
        "peak": _peak(),
        "lines": table(report).count("\n") + 1,
    }


def _spent(chunks: Iterable[str]) -> int:
    """The length of a file that is written piece by piece and never held whole."""
    return sum(len(chunk) for chunk in chunks)


def _peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(count: int, rounds: int) -> dict[str, Any]:
    """measure() in a process of its own."""
    argv = [sys.executable, __file__, "--alone", str(count), "--rounds", str(rounds)]
    told: dict[str, Any] = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return told


def main() -> int:
    """Print the figures; 1 where a node costs more the more of them there are."""
    options = arguments()
    if options.alone:
        print(json.dumps(measure(options.alone, options.rounds)))
        return 0
    found = [in_a_process(count, options.rounds) for count in sorted(options.nodes)]
    first, last = found[0], found[-1]
    grown = last["nodes"] / first["nodes"]
    print(
        f"Seconds, the quickest of {options.rounds} rounds; per node: how a node's share grows to the largest size.\n"
    )
    print(f"{'nodes':14}" + "".join(f"{size['nodes']:10}" for size in found) + f"{'per node':>12}")
    bad = []
    for name in first["seconds"]:
        ratio = last["seconds"][name] / first["seconds"][name] / grown
        print(f"{name:14}" + "".join(f"{size['seconds'][name]:10.3f}" for size in found) + f"{ratio:12.2f}")
        # What takes a moment only is measured too roughly to be held against anything.
        if ratio > AT_MOST and last["seconds"][name] > 0.2:
            bad.append(name)
    total = [sum(size["seconds"].values()) for size in found]
    print(f"{'all':14}" + "".join(f"{value:10.3f}" for value in total) + f"{total[-1] / total[0] / grown:12.2f}")
    for key, name in (("answers", "answers, MiB"), ("peak", "peak, MiB")):
        ratio = last[key] / first[key] / grown
        print(f"{name:14}" + "".join(f"{size[key]:10.0f}" for size in found) + f"{ratio:12.2f}")
        if ratio > AT_MOST:
            bad.append(name)
    print(f"{'table, lines':14}" + "".join(f"{size['lines']:10}" for size in found))
    print(f"\nLinear, at most {AT_MOST} per node: " + ("does not hold for " + ", ".join(bad) if bad else "holds"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
