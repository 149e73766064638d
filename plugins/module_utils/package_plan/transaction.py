# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs a plan so that it outlives the connection: its own unit of systemd, or where there is none its own session."""

from __future__ import annotations

import os
import shlex
import subprocess
import time

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.journal import CURRENT, LOG, Journal
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import RunError
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import SEARCH_PATH


def script(steps: list[tuple[str, str, bool]], environment: dict[str, str]) -> str:
    """The shell text of a transaction. A step marked `always` runs also after one that failed."""
    lines = [
        "#!/bin/sh",
        "# Written by gpufleet.kimi_k3.package_plan. Runs to its end, whether or not who started it is still there.",
        "cd /",
        f"export PATH={SEARCH_PATH} LC_ALL=C.UTF-8 HOME=/root",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())),
        "status=0",
        # The first failure is the one that is told.
        'failed() { code=$?; [ "$status" -ne 0 ] || status=$code; }',
    ]
    for name, command, always in steps:
        body = f"echo '== {name}'; {command} || failed"
        lines.append(body if always else f'if [ "$status" -eq 0 ]; then {body}; fi')
    lines += [
        f"cd {CURRENT} && echo $status > status.part && sync status.part && mv status.part status",
        "exit $status",
    ]
    return "\n".join(lines) + "\n"


def unit_name(digest: str) -> str:
    """A name that no earlier transaction of the node has."""
    return f"gpufleet-package-plan-{digest[:12]}-{os.getpid()}"


def start(machine: Machine, unit: str) -> None:
    """Start run.sh; its output goes to a file, since a pipe would end it together with its reader."""
    if os.path.isdir("/run/systemd/system") and machine.find("systemd-run"):
        machine.ask(
            [
                *("systemd-run", "--quiet", "--collect", f"--unit={unit}", "--service-type=exec"),
                *("--property=KillMode=process", "--property=SendSIGHUP=no", "--property=TimeoutStopSec=infinity"),
                *(f"--property=StandardOutput=append:{LOG}", f"--property=StandardError=append:{LOG}"),
                *("--description=Package transaction of gpufleet.kimi_k3", "/bin/sh", f"{CURRENT}/run.sh"),
            ]
        )
        return
    with open(LOG, "ab") as log:
        # Not through Machine.run(): this one has to outlive the module.
        subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            ["/bin/sh", f"{CURRENT}/run.sh"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )


def running() -> bool:
    """Whether a run.sh of ours is at work, whoever started it."""
    wanted = f"/bin/sh\0{CURRENT}/run.sh".encode()
    for number in os.listdir("/proc"):
        if number.isdigit():
            try:
                with open(f"/proc/{number}/cmdline", "rb") as handle:
                    if handle.read().rstrip(b"\0") == wanted:
                        return True
            except OSError:
                continue
    return False


def wait(journal: Journal, unit: str, seconds: int) -> int | None:
    """The exit status; None where the transaction was killed. RunError where it goes on after ``seconds``."""
    deadline = time.monotonic() + seconds
    missed = 0
    # Not seen once is not ended: for a moment after its start a process still shows the words of who started it.
    while missed < 5 and journal.status() is None:
        if running():
            missed = 0
        else:
            missed += 1
        if time.monotonic() >= deadline:
            raise RunError(
                f"the package transaction still runs after {seconds} s and is left to its end (unit {unit}, log "
                f"{LOG}); the same command waits for it and finishes",
                log=tail(),
            )
        time.sleep(0.2)
    return journal.status()


def tail(lines: int = 40) -> list[str]:
    """The last lines of the transaction's output."""
    try:
        with open(LOG, encoding="utf-8", errors="replace") as handle:
            return handle.read().splitlines()[-lines:]
    except OSError:
        return []
