# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""nodes.yml, and where the lab keeps things."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.kimi_k3.tests.lab.lab import CACHE

STUBS = Path(os.environ.get("LAB_STUBS", str(CACHE / "packages")))
# Public keys of the nodes' distributions.
KEYS = STUBS.parent / "driver"
TABLE: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("nodes.yml").read_text(encoding="utf-8"))


HEADERS = re.compile(r"linux-headers-[0-9.]+\+deb[0-9]+-amd64_")


@dataclass(frozen=True)
class Row:
    """A node of the table with its system."""

    name: str
    node: dict[str, Any]
    system: dict[str, Any]

    @property
    def folder(self) -> str:
        """The vendor's name of the system."""
        return str(self.system.get("folder", self.node["system"]))

    @property
    def kernels(self) -> list[str]:
        """The kernels of the node: the running one first, the next boot's last."""
        if "real" in self.system:
            return [re.sub(r"linux-headers-|_.*", "", path.name) for path in self.real if HEADERS.match(path.name)]
        return list(self.node.get("kernels") or self.system.get("kernels") or [os.uname().release])

    @property
    def real(self) -> list[Path]:
        """Packages that are no stubs, fetched by real_debian."""
        return sorted((CACHE / self.system["real"]).glob("*.deb")) if "real" in self.system else []

    @property
    def former(self) -> str:
        """What others installed before, as a shell text; empty where nothing was."""
        text = TABLE["former"][self.node["former"]] if "former" in self.node else ""
        return str(text).replace("{folder}", self.folder).replace("{kernel}", self.kernels[0])


def row(name: str) -> Row:
    """A node of the table by its name."""
    node = TABLE["nodes"][name]
    return Row(name, node, TABLE["systems"][node["system"]])


def rows() -> list[Row]:
    """The nodes that this run has: the further ones where they are asked for."""
    soak = os.environ.get("LAB_SOAK") == "1"
    shared = {name: node for name, node in TABLE["nodes"].items() if not node.get("alone")}
    return [row(name) for name, node in shared.items() if soak or not node.get("soak")]
