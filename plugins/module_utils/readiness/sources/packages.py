# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The package database: dpkg on Debian's kin, rpm on Red Hat's. Asked once, for everything."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

DPKG = ["dpkg-query", "-W", "-f", "${Package}\t${Architecture}\t${db:Status-Abbrev}\t${Version}\n"]
RPM = ["rpm", "-qa", "--qf", "%{NAME}\t%{ARCH}\tii \t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n"]


@dataclass(frozen=True)
class Package:
    """One installed package; ``state`` is dpkg's: ``ii`` installed, ``iF`` half configured, ``hi`` held."""

    name: str
    architecture: str
    state: str
    version: str

    @property
    def upstream(self) -> str:
        """Without epoch and revision: 580.126.20 for ``3:580.126.20-1.el9`` and ``580.126.20-1ubuntu1``."""
        return self.version.split(":", 1)[-1].split("-", 1)[0]


@dataclass(frozen=True)
class Packages:
    """Installed packages by name, and the tool that listed them (``dpkg`` or ``rpm``)."""

    tool: str
    by_name: dict[str, Package]

    @property
    def source(self) -> str:
        """The command as evidence."""
        return "dpkg-query -W" if self.tool == "dpkg" else "rpm -qa"


def installed(node: Node) -> Packages | Unknown:
    """What is installed (removed packages whose configuration stayed are left out); Unknown without dpkg and rpm."""

    def load() -> Packages | Unknown:
        for tool, argv in (("dpkg", DPKG), ("rpm", RPM)):
            result = node.run(argv)
            if result.error == "missing":
                continue
            if not result.ok:
                return result.unknown()
            packages = {}
            for line in result.stdout.splitlines():
                parts = line.split("\t")
                # A second architecture of the same name never hides the first that is installed.
                if len(parts) == 4 and parts[2][1:2] not in ("n", "c") and parts[0] not in packages:
                    packages[parts[0]] = Package(parts[0], parts[1], parts[2].strip(), parts[3])
            # rpm may be installed as a tool on a Debian system, with an empty database, and the other way round.
            if packages:
                return Packages(tool, packages)
        return Unknown("neither dpkg-query nor rpm lists a package on this node", "dpkg-query, rpm")

    return node.once("packages", load)
