# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the lab's tools share: its folders, how its containers are reached, the hosts on which no probe can run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "lab"


def in_container(name: str, **others: Any) -> dict[str, Any]:
    """Host variables of a node in a container, whose name tells whose it is on an engine that others use as well."""
    return {
        "ansible_connection": "community.docker.docker",
        "ansible_host": f"gpufleet-lab-{name}",
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        **others,
    }


@dataclass(frozen=True)
class Unprobed:
    """A host that is a row of the report although no probe ran there. ``says``: what its reason has to name."""

    state: str
    says: str
    variables: dict[str, Any] = field(default_factory=dict)
    container: bool = False

    @property
    def expected(self) -> dict[str, Any]:
        """As Variant.expected(), and the state."""
        return {
            "state": self.state,
            "verdict": "not_ready",
            "root_cause": self.state,
            "fail": [],
            "unknown": [],
            "warn": [],
        }


CANNOT_BE_PROBED = {
    # A port on which nobody listens.
    "unreachable": Unprobed(
        "unreachable",
        "Connection refused",
        {"ansible_connection": "ansible.builtin.ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
    ),
    "python-too-old": Unprobed(
        "broken",
        "too old",
        in_container("python-too-old", ansible_python_interpreter="/usr/local/bin/python3.8"),
        container=True,
    ),
    "sudo-needs-tty": Unprobed(
        "broken",
        "wants a terminal",
        in_container("sudo-needs-tty", ansible_user="operator-without-tty"),
        container=True,
    ),
}
