# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What rpm has on record, and whether fetched packages are signed by exactly the key that their repository names."""

from __future__ import annotations

import os

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import Package, PlanError

_FIELDS = "%{NAME}\t%{ARCH}\t%{EPOCHNUM}\t%{VERSION}-%{RELEASE}\t%{SIZE}\n"
# Several versions of these are there at a time on purpose.
_MANY = ("kernel", "gpg-pubkey")


def installed(machine: Machine) -> tuple[dict[str, Package], list[str]]:
    """Packages by name (a further architecture by ``name.arch``), and the names that are there twice."""
    found: dict[str, Package] = {}
    twice = set()
    for line in machine.ask(["rpm", "-qa", "--qf", _FIELDS]).splitlines():
        name, arch, epoch, version, size = line.split("\t")
        package = Package(name, arch, version if epoch == "0" else f"{epoch}:{version}", size=int(size or 0))
        key = name if name not in found or found[name].arch == arch else f"{name}.{arch}"
        if key in found and not name.startswith(_MANY):
            twice.add(name)
        found[key] = package
    return found, sorted(twice)


def check_signatures(machine: Machine, files: list[str], key: str, folder: str) -> None:
    """PlanError where one of the packages is not signed by the key in the file ``key``."""
    database = f"{folder}/rpmdb"
    machine.remove(database)
    os.makedirs(database)
    machine.ask(["rpmkeys", "--dbpath", database, "--import", key])
    for path in files:
        result = machine.run(["rpmkeys", "--dbpath", database, "--checksig", path])
        # "digests OK" alone is what an unsigned package gets, with exit status 0.
        if not result.ok or "signatures OK" not in result.stdout:
            said = (result.stdout + result.stderr).strip().splitlines()
            raise PlanError(
                f"{os.path.basename(path)} is not signed by the key of its repository: "
                + (said[-1].split(": ", 1)[-1] if said else "rpmkeys gave no reason")
            )
