# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the probe reads on a machine, and a playbook that reads the same with one task each."""

from __future__ import annotations

import re
import shlex
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.probe import probe

# What asks whether a path is there needs no task of its own where another task reads the same path.
PRESENCE = ("exists", "readlink")
# The names of all processes: the probe reads a file each, and one task can ask for all of them.
PROCESS = re.compile(r"/proc/\d+/comm")
PROCESSES = ("command", ("ps", "-e", "-o", "comm="))


class RecordingNode(Node):
    """A node that remembers what it was asked."""

    def __init__(self, timeout: float) -> None:
        super().__init__(timeout=timeout)
        self.asked: dict[tuple[str, Any], None] = {}

    def _note(self, kind: str, what: Any) -> None:
        self.asked[kind, what] = None

    def read(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """As Node.read, recorded."""
        self._note("read", path)
        return super().read(path, *args, **kwargs)

    def read_bytes(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """As Node.read_bytes, recorded as a read."""
        self._note("read", path)
        return super().read_bytes(path, *args, **kwargs)

    def listdir(self, path: str) -> Any:
        """As Node.listdir, recorded."""
        self._note("listdir", path)
        return super().listdir(path)

    def readlink(self, path: str) -> Any:
        """As Node.readlink, recorded."""
        self._note("readlink", path)
        return super().readlink(path)

    def exists(self, path: str) -> Any:
        """As Node.exists, recorded."""
        self._note("exists", path)
        return super().exists(path)

    def execute(self, argv: tuple[str, ...], timeout: float) -> Any:
        """As Node.execute, recorded."""
        self._note("command", tuple(argv))
        return super().execute(argv, timeout)


def recorded(timeout: float = 20.0) -> list[tuple[str, Any]]:
    """What the probe asks of this machine: ``(kind, path or argv)``, each once, in a fixed order."""
    node = RecordingNode(timeout)
    probe(node, contract.resolve({}), {})
    asked = list(
        dict.fromkeys(
            PROCESSES if kind == "read" and PROCESS.fullmatch(what) else (kind, what) for kind, what in node.asked
        )
    )
    read = {what for kind, what in asked if kind in ("read", "listdir")}
    return sorted(
        ((kind, what) for kind, what in asked if kind not in PRESENCE or what not in read),
        key=lambda ask: (ask[0], str(ask[1])),
    )


def spread(reads: list[tuple[str, Any]], count: int) -> list[tuple[str, Any]]:
    """``count`` of the reads, evenly over the list and so of each kind in proportion."""
    return [reads[index * len(reads) // count] for index in range(count)]


def playbook(reads: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """A play with one task a read. What is missing on a node is an answer, as it is to the probe."""
    tasks = [
        {
            "name": _name(kind, what),
            **_task(kind, what),
            "register": f"read_{number}",
            "failed_when": False,
            "changed_when": False,
        }
        for number, (kind, what) in enumerate(reads)
    ]
    return [{"name": "The same reads", "hosts": "all", "gather_facts": False, "become": True, "tasks": tasks}]


def _name(kind: str, what: Any) -> str:
    """One line without braces, which Ansible would read as a template."""
    text = what if isinstance(what, str) else shlex.join(what)
    return f"{kind} {text}".translate(str.maketrans("\n", " ", "{}"))[:100]


def _task(kind: str, what: Any) -> dict[str, Any]:
    """The cheapest module that gives the answer."""
    if kind == "read":
        return {"ansible.builtin.slurp": {"src": what}}
    if kind in PRESENCE:
        options = {"get_checksum": False, "get_mime": False, "get_attributes": False, "follow": kind == "exists"}
        return {"ansible.builtin.stat": {"path": what, **options}}
    argv = [str(word) for word in (what if kind == "command" else ["ls", "-A", what])]
    return {"ansible.builtin.command": {"argv": [_literal(word) for word in argv]}}


def _literal(word: str) -> str:
    """Some commands take format strings in braces; Ansible would read them as a template."""
    return "{% raw %}" + word + "{% endraw %}" if "{{" in word or "{%" in word or "{#" in word else word
