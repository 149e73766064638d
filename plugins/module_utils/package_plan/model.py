# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The words of a plan: what it refuses with, its items, and the digest by which it is approved."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact


class PlanError(Exception):
    """A refusal, as one sentence for a person on call; nothing was changed by what raised it."""


class RunError(Exception):
    """The transaction was started and did not end as planned; ``facts`` says how far it came."""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.facts = facts


@dataclass(frozen=True)
class Package:
    """One installed package. ``state`` is dpkg's word (``installed``, ``half-configured`` …); rpm: always the first."""

    name: str
    arch: str
    version: str
    state: str = "installed"
    held: bool = False
    size: int = 0


@dataclass(frozen=True)
class Item:
    """What happens to one package. Versions are full: epoch and revision included."""

    name: str
    arch: str
    old: str | None
    new: str | None
    action: str
    origin: str | None = None

    @property
    def text(self) -> str:
        """As a person reads it: ``nvidia-open 575.57.08-1 -> 580.126.20-1``."""
        return f"{self.name} {self.old or 'absent'} -> {self.new or 'absent'}"

    def as_dict(self) -> dict[str, Any]:
        """The form of the module's result."""
        return {
            "name": self.name,
            "arch": self.arch,
            "from": self.old,
            "to": self.new,
            "action": self.action,
            "origin": self.origin,
        }


@dataclass
class Simulation:
    """What the package manager would do, and how sure that is."""

    items: list[Item] = field(default_factory=list)
    streams: list[dict[str, Any]] = field(default_factory=list)
    # name -> versions offered, newest first.
    available: dict[str, list[str]] = field(default_factory=dict)
    download_bytes: int | None = None
    disk_bytes: int | None = None
    unknown: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def changes(self) -> list[Item]:
        """The items that change something."""
        return [item for item in self.items if item.action != "keep"]


def digest(plan: dict[str, Any]) -> str:
    """What an approval names: the packages, repository files, holds and streams of a plan, whenever it was made."""
    decided = {
        "packages": [[item["name"], item["arch"], item["from"], item["to"]] for item in plan["packages"]],
        "repositories": [[file["path"], file["action"], file["sha256"]] for file in plan["repositories"]],
        "holds": [plan["holds"]["add"], plan["holds"]["keep"], plan["holds"]["release"]],
        "streams": [[stream["name"], stream["to"]] for stream in plan["streams"]],
    }
    text = json.dumps(decided, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def shown(value: Any) -> Any:
    """A value without secrets, line by line."""
    if isinstance(value, str):
        return "".join(redact(line.rstrip("\n")) + line[len(line.rstrip("\n")) :] for line in value.splitlines(True))
    if isinstance(value, list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return value
