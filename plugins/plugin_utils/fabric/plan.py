# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is to be done to a node: the form that the role's tasks carry out, and its lines for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError, is_unknown, why


@dataclass
class Service:
    """What becomes of one unit; None: it stays as it is. ``disturbs``: every tray of the partition."""

    unit: str
    enabled: bool | None = None
    masked: bool | None = None
    state: str | None = None
    disturbs: bool = False

    @property
    def changes(self) -> bool:
        """Whether anything becomes of it."""
        return any(item is not None for item in (self.enabled, self.masked, self.state))

    def line(self) -> str:
        """For people."""
        words = {
            self.masked: {True: "masked", False: "unmasked"},
            self.enabled: {True: "enabled at boot", False: "no longer started at boot"},
        }
        parts = [words[item][item] for item in (self.masked, self.enabled) if item is not None and item in words[item]]
        parts += [self.state] if self.state else []
        disturbs = " (disturbs every tray of the NVLink partition)" if self.disturbs else ""
        return f"service {self.unit}: {', '.join(parts)}{disturbs}"


def not_started(unit: str, up: bool, reboot: bool, reason: str) -> str:
    """The line about a service that stays as it is."""
    again, before = " again" if up else "", " before the reboot" if reboot else ""
    return f"not started{again}{before}: {unit}: {reason}"


@dataclass
class File:
    """A file of the role, whole. ``part``: modules or imex, whose turn it is written in."""

    path: str
    content: str
    there: Any
    part: str = "modules"
    disturbs: bool = False

    @property
    def changes(self) -> bool:
        """Whether it is not so yet.

        Raises:
            FabricError: where what stands there could not be read.
        """
        if is_unknown(self.there):
            raise FabricError(f"what {self.path} holds is not known: {why(self.there)}")
        return bool(self.there != self.content)

    def line(self) -> str:
        """For people."""
        disturbs = " (disturbs every tray of the NVLink partition)" if self.disturbs else ""
        return f"file {self.path}: {'made' if self.there is None else 'changed'}{disturbs}"


@dataclass
class Plan:
    """Everything that is done to one node, in the order of the fields; ``said`` is what is not done, and why.

    ``packages`` are requests to package_plan, one a kernel: ``{"kernel", "install": [{"name"}]}``. ``awaits`` names the
    unit that has to come up, and with it every GPU: manager, imex or none. ``initramfs`` holds by kernel the command
    that writes it anew, ``reboot`` why a reboot is due.
    """

    kind: str
    evidence: str
    driver: Any = None
    packages: list[dict[str, Any]] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    initramfs: dict[str, list[str]] = field(default_factory=dict)
    load: list[str] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    awaits: str = ""
    said: list[str] = field(default_factory=list)
    reboot: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """As the role's tasks take it: only what changes."""
        files = [item for item in self.files if item.changes]
        services = [item for item in self.services if item.changes]
        return {
            "kind": self.kind,
            "packages": self.packages,
            "files": [{"path": item.path, "content": item.content, "part": item.part} for item in files],
            "initramfs": list(self.initramfs.values()),
            "load": self.load,
            "services": [{key: value for key, value in asdict(item).items() if value is not None} for item in services],
            "awaits": self.awaits,
            "disturbs": any(item.disturbs for item in files) or any(item.disturbs for item in services),
            "changes": bool(files or services or self.packages or self.initramfs or self.load),
            "lines": self.lines(),
            "before": {
                **{item.path: item.there for item in files},
                **({"modules": "not loaded"} if self.load else {}),
            },
        }

    def lines(self) -> list[str]:
        """What is done, line by line, before the packages of package_plan are known."""
        if self.kind == "none":
            return [f"fabric: nothing to do ({self.evidence})"]
        driver = f"driver {self.driver} is loaded" if isinstance(self.driver, str) else "no driver is loaded"
        found = [f"fabric: {self.kind} ({self.evidence}), {driver}"]
        found += [item.line() for item in self.files if item.changes]
        found += [f"initramfs of kernel {kernel}: written anew" for kernel in self.initramfs]
        found += [f"module {name}: loaded" for name in self.load]
        found += [item.line() for item in self.services if item.changes]
        found += self.said
        found.append(f"reboot: due, {'; '.join(self.reboot)}" if self.reboot else "reboot: not for this")
        return found
