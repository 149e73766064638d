# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a run of a playbook left behind, and hosts to run on."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# This machine, as the user who runs the tests.
LOCAL = {
    "ansible_connection": "local",
    "ansible_become": False,
    "ansible_python_interpreter": sys.executable,
}
# Nothing listens on port 1 of a loopback address that nobody uses.
DEAD = {"ansible_host": "127.9.9.9", "ansible_port": 1}


@dataclass
class Run:
    """One run of a playbook: its exit code, its events, and the folder of its reports."""

    rc: int
    events: list[dict[str, Any]]
    reports: Path

    def results(self, task: str) -> dict[str, dict[str, Any]]:
        """The result of a task by host, whatever became of it."""
        return {
            event["event_data"]["host"]: {"event": event["event"], **event["event_data"]["res"]}
            for event in self.events
            if event["event"].startswith("runner_on_")
            and "res" in event.get("event_data", {})
            and event["event_data"]["task"] == task
        }

    def started(self, task: str) -> bool:
        """Whether any host came to this task."""
        return any(
            event["event"] == "playbook_on_task_start" and event["event_data"]["task"] == task for event in self.events
        )

    def report(self) -> dict[str, Any]:
        """The newest readiness.json."""
        return json.loads((self.reports / "latest" / "readiness.json").read_text(encoding="utf-8"))
