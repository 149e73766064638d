# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Measures the probe on many nodes of one machine: whole processes, interleaved, as ratios inside one run.

The machine plays controller and nodes at once, so seconds say little about a fleet, and ratios do. A bench informs:
it ends with 0 whatever the figures are, and with another code only where it could not measure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "collections"))

import reads  # noqa: E402  # needs the path above
from nodes import Nodes  # noqa: E402
from processes import cpu_seconds, descendants, machine_busy_seconds, proportional_memory  # noqa: E402

# What is expected, and of what. Source: the project's own targets; they inform and fail nothing.
AT_MOST_OF_PING = 1.5
AT_LEAST_FASTER = 8.0
AT_MOST_GROWTH = 3.7
MIB = 1 << 20


@dataclass
class Cost:
    """What one whole process cost: seconds of wall time, and of CPU on the controller's and on the nodes' side."""

    wall: float
    controller: float
    nodes: float
    others: float


@dataclass
class Subject:
    """A command that is measured again and again."""

    name: str
    argv: list[str]
    check: Callable[[str], None] = lambda _output: None
    costs: list[Cost] = field(default_factory=list)

    def median(self, what: str = "wall") -> float:
        """The median of one kind of cost."""
        return statistics.median(getattr(cost, what) for cost in self.costs)


class Bench:
    """Runs commands against the nodes and keeps account."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        """``folder``: private, for whatever Ansible keeps."""
        self.nodes = nodes
        self.folder = folder
        settings = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
        self.environment = {
            **settings,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_HOME": str(folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
            # Compiled code is kept as usual, but here and not in the clone.
            "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
            "PATH": f"{ROOT}/.venv/bin:{os.environ.get('PATH', '')}",
        }

    def measure(self, subject: Subject) -> Cost:
        """One run of the subject's command; raises SystemExit with its output when it did not do its work."""
        before, busy, start = self._sides(), machine_busy_seconds(), time.monotonic()
        process, usage, output = self._run(subject)
        wall = time.monotonic() - start
        after = self._sides()
        if process.returncode != 0:
            raise SystemExit(f"{subject.name} ended with {process.returncode}:\n{output[-4000:]}")
        subject.check(output)
        controller = usage.ru_utime + usage.ru_stime + after[0] - before[0]
        node_side = after[1] - before[1]
        others = max(0.0, machine_busy_seconds() - busy - controller - node_side)
        cost = Cost(wall, controller, node_side, others)
        subject.costs.append(cost)
        print(f"  {subject.name}: {wall:.2f} s", file=sys.stderr, flush=True)
        return cost

    def memory(self, subject: Subject) -> int:
        """Bytes: the highest sum of PSS of the subject's command and all its processes, sampled while it runs.

        Looking costs time of its own, so what this run takes is not kept.
        """
        highest = 0
        start = time.monotonic()

        def sample(pid: int) -> None:
            nonlocal highest
            highest = max(highest, proportional_memory([pid, *descendants(pid)]))

        process, _usage, output = self._run(subject, sample)
        if process.returncode != 0:
            raise SystemExit(f"{subject.name} ended with {process.returncode}:\n{output[-4000:]}")
        print(f"  {subject.name}: {highest / MIB:.0f} MiB, {time.monotonic() - start:.1f} s", file=sys.stderr)
        return highest

    def _sides(self) -> tuple[float, float]:
        """CPU seconds so far of the clients that hold connections, and of the nodes."""
        server = self.nodes.server
        return cpu_seconds(self.nodes.clients()), cpu_seconds(descendants(server.pid)) if server else 0.0

    def _run(self, subject: Subject, sample: Callable[[int], None] | None = None) -> tuple[Any, Any, str]:
        log = self.folder / "output"
        with log.open("wb") as output:
            process = subprocess.Popen(
                subject.argv,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                while sample and os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                    sample(process.pid)
                    time.sleep(0.2)
                _pid, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise
        return process, usage, log.read_text(encoding="utf-8", errors="replace")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=30, help="nodes in the comparisons (30)")
    parser.add_argument("--grown", type=int, default=100, help="nodes in the measure of growth (100)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (3)")
    parser.add_argument("--seconds", type=float, default=450, help="how long it may take, about (450)")
    parser.add_argument("--all-reads", action="store_true", help="a task for every read, however long it takes")
    parser.add_argument("--no-reads", action="store_true", help="leave the reads as one task each out")
    parser.add_argument("--interpreter", help="the nodes' Python (what ansible.cfg says: found on each node)")
    return parser.parse_args()


def main() -> None:
    """Set up, measure, print."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    options = arguments()
    # Sockets of ssh live in it, and their paths may have 108 bytes only.
    folder = Path(tempfile.mkdtemp(prefix="probe-bench-", dir="/tmp"))
    try:
        with Nodes(folder, max(options.nodes, options.grown), options.interpreter) as nodes:
            print_results(*run(options, Bench(nodes, folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(options: argparse.Namespace, bench: Bench) -> tuple[Any, ...]:
    """Warm up, choose how many reads there is time for, then measure in rounds."""
    end = time.monotonic() + options.seconds
    few, many = bench.nodes.inventory(options.nodes), bench.nodes.inventory(options.grown)
    ping = ping_subject(few, options.nodes)
    probe = probe_subject(bench, few, options.nodes)
    grown = probe_subject(bench, many, options.grown)
    nothing = playbook_subject(bench, few, f"a play without a task, {options.nodes} nodes", [])

    # The first run also connects and fills the caches; looking at memory would spoil a measurement anyway.
    print("connecting, warming up, looking at memory", file=sys.stderr)
    memory = {subject.name: bench.memory(subject) for subject in (grown, probe, ping)}
    for subject in (ping, probe):
        bench.measure(subject)

    asked = reads.recorded()
    round_without_tasks = ping.median() + probe.median() * (1 + options.grown / options.nodes) + 2
    # A task costs nearly what a ping costs: so many of them prove the ratio without an extrapolation ...
    wanted = math.ceil(AT_LEAST_FASTER * probe.median() / (0.55 * ping.median()))
    # ... where there is time for them.
    affordable = int(((end - time.monotonic()) / options.repeats - round_without_tasks) / ping.median())
    count = len(asked) if options.all_reads else max(3, min(len(asked), wanted, affordable))
    tasks = playbook_subject(
        bench,
        few,
        f"{count} of its {len(asked)} reads as one task each, {options.nodes} nodes",
        reads.spread(asked, count),
    )
    subjects = [ping, probe, nothing, tasks, grown]
    if options.no_reads:
        subjects = [ping, probe, grown]
    for subject in subjects:
        subject.costs.clear()
    for number in range(options.repeats):
        if number and time.monotonic() > end + 60:
            print("out of time: the machine is too busy for another round", file=sys.stderr)
            break
        print(f"round {number + 1} of {options.repeats}", file=sys.stderr)
        # Turned round every second time, so that a machine that slows down favours none.
        for subject in subjects if number % 2 == 0 else reversed(subjects):
            bench.measure(subject)
    return options, subjects, memory, count, len(asked)


def ping_subject(inventory: Path, count: int) -> Subject:
    """What every other cost is compared with: the cheapest useful call of a module."""
    return Subject(f"ping, {count} nodes", ["ansible", "-i", str(inventory), "all", "-m", "ansible.builtin.ping"])


def probe_subject(bench: Bench, inventory: Path, count: int) -> Subject:
    """The probe as people run it, with a look at whether it really probed ``count`` nodes."""
    reports = bench.folder / "reports"

    def check(output: str) -> None:
        report = json.loads((reports / "latest" / "readiness.json").read_text(encoding="utf-8"))
        probed = sum(node["state"] == "probed" for node in report["nodes"])
        if probed != count:
            raise SystemExit(f"{probed} of {count} nodes were probed:\n{output[-4000:]}")

    argv = ["ansible-playbook", "-i", str(inventory), str(ROOT / "playbooks" / "probe.yml")]
    return Subject(f"probe, {count} nodes", [*argv, "-e", f"node_readiness_report_dir={reports}"], check)


def playbook_subject(bench: Bench, inventory: Path, name: str, asked: list[tuple[str, Any]]) -> Subject:
    """A play with one task for each of the reads; with none, what a play costs before its first task."""
    file = bench.folder / f"{len(asked)}_reads.json"
    play = reads.playbook(asked)
    if not asked:
        play[0]["tasks"] = [{"name": "Nothing", "ansible.builtin.meta": "noop"}]
    file.write_text(json.dumps(play), encoding="utf-8")
    return Subject(name, ["ansible-playbook", "-i", str(inventory), str(file)])


def print_results(
    options: argparse.Namespace, subjects: list[Subject], memory: dict[str, int], count: int, asked: int
) -> None:
    """The figures, then one line for each expectation."""
    everything = [cost for subject in subjects for cost in subject.costs]
    others = sum(cost.others for cost in everything) / sum(cost.wall for cost in everything) / (os.cpu_count() or 1)
    print(f"\nMedians of {len(subjects[0].costs)} rounds in seconds; {os.cpu_count()} cores play controller and nodes.")
    print(f"Other work took {others:.0%} of the machine meanwhile.\n")
    print(f"{'':58}{'wall':>8}{'CPU, controller':>18}{'CPU, nodes':>13}")
    for subject in subjects:
        figures = [subject.median(what) for what in ("wall", "controller", "nodes")]
        print("{:58}{:8.2f}{:18.2f}{:13.2f}".format(subject.name, *figures))
    ping, probe, *rest = subjects
    print(
        "\nMemory of the controller: highest sum of PSS of the command, its workers and their ssh, in a run of its own"
    )
    for subject in (ping, probe, rest[-1]):
        print(f"{subject.name:58}{memory[subject.name] / MIB:8.0f} MiB")
    print()
    grown = rest[-1]
    cpu = [sum(subject.median(side) for side in ("controller", "nodes")) for subject in (probe, ping)]
    note = f"; CPU time of both sides {cpu[0] / cpu[1]:.2f}"
    wanted = f"at most {AT_MOST_OF_PING}"
    expect("probe / ping", ratios(probe, ping), wanted, lambda value: value <= AT_MOST_OF_PING, note)
    if len(rest) > 1:
        nothing, tasks = rest[:2]
        faster = ratios(tasks, probe)
        note = ""
        if count < asked:
            begin = nothing.median()
            scaled = (begin + (tasks.median() - begin) * asked / count) / probe.median()
            note = f"; {count} of {asked} reads alone cost this, all of them about {scaled:.0f} x"
            if statistics.median(faster) < AT_LEAST_FASTER <= scaled:
                # There was no time for enough of them: the estimate decides, and is called one.
                alone = statistics.median(faster)
                faster, note = [scaled], f"; estimated from {count} of {asked} reads, which alone cost {alone:.1f} x"
        expect(
            "one task each / probe",
            faster,
            f"at least {AT_LEAST_FASTER:g}",
            lambda value: value >= AT_LEAST_FASTER,
            note,
        )
    expect(
        f"probe of {options.grown} / of {options.nodes} nodes",
        ratios(grown, probe),
        f"at most {AT_MOST_GROWTH}",
        lambda value: value <= AT_MOST_GROWTH,
    )


def ratios(above: Subject, below: Subject) -> list[float]:
    """The ratio of wall times in each round, where both met the same machine."""
    return [one.wall / other.wall for one, other in zip(above.costs, below.costs, strict=True)]


def expect(name: str, values: list[float], wanted: str, holds: Callable[[float], bool], note: str = "") -> None:
    """One line: the median, what was expected, whether it holds, and how the rounds differ."""
    middle = statistics.median(values)
    answer = "holds" if holds(middle) else "does not hold"
    rounds = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else "one value"
    print(f"{name:28}{middle:8.2f}   {wanted:14}{answer} ({rounds}{note})")


if __name__ == "__main__":
    main()
