# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What stays on the node of a transaction: enough to finish it after a killed run, and no more once it is finished.

``<FOLDER>/current`` is there from just before the first change until the result was compared with the plan:
``journal.json`` (the plan, the unit), ``run.sh``, ``log``, ``status`` (exit status, once the transaction ended), and
the configuration that it runs with. ``last.json`` and ``last.log`` are of the last one that was finished.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError

FOLDER = "/var/lib/gpufleet-kimi-k3/package-plan"
CURRENT = f"{FOLDER}/current"
LOG = f"{CURRENT}/log"


class Journal:
    """The one journal of a node; open it before the package manager is asked to change anything."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._lock: int | None = None

    def open(self) -> None:
        """Make the folder, and be the only run that has it; PlanError names the other's process."""
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        os.chmod(FOLDER, 0o700)
        self._lock = os.open(f"{FOLDER}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            who = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip()
            raise PlanError(
                f"another run of package_plan is at work on this node (process {who or 'unknown'})"
            ) from exc
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    @staticmethod
    def read(machine: Machine, path: str) -> dict[str, Any] | None:
        """A note of ours, None where there is none that can be read."""
        try:
            found = json.loads(machine.read(path) or "")
        except ValueError:
            return None
        return found if isinstance(found, dict) and "plan" in found else None

    @staticmethod
    def unfinished(machine: Machine) -> dict[str, Any] | None:
        """The note of a run of ours that did not come to its end, None where there is none."""
        return Journal.read(machine, f"{CURRENT}/journal.json")

    def status(self) -> int | None:
        """The exit status of the transaction, None while it runs or where it was killed."""
        text = (self.machine.read(f"{CURRENT}/status") or "").strip()
        return int(text) if text.isdigit() else None

    def begin(self, plan: dict[str, Any], unit: str, script: str) -> None:
        """Note what is about to happen. From here on a killed run can be finished."""
        for name in ("status", "log"):
            self.machine.remove(f"{CURRENT}/{name}")
        self.machine.write(f"{CURRENT}/run.sh", script, 0o700)
        note = {"schema": "1.0", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "unit": unit, "plan": plan}
        self.machine.write(f"{CURRENT}/journal.json", json.dumps(note, indent=1, sort_keys=True) + "\n", 0o600)

    def workspace(self) -> str:
        """An empty folder for the configuration of this run, which the transaction outlives the run with."""
        path = f"{CURRENT}/manager"
        self.machine.remove(path)
        os.makedirs(path, mode=0o700)
        os.chmod(CURRENT, 0o700)
        return path

    def finish(self) -> None:
        """The node is what the plan says: keep the last journal and log as a record, and no more."""
        for name, kept in (("journal.json", "last.json"), ("log", "last.log")):
            if os.path.exists(f"{CURRENT}/{name}"):
                os.replace(f"{CURRENT}/{name}", f"{FOLDER}/{kept}")
        self.machine.remove(CURRENT)

    def discard(self) -> None:
        """Nothing was begun: leave no workspace behind. One that a begun transaction may still use stays."""
        if not os.path.exists(f"{CURRENT}/journal.json"):
            self.machine.remove(CURRENT)
