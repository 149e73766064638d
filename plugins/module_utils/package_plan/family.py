# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which package manager a node has; PlanError where it is none of the two that are known."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError

_DEB = ("debian", "ubuntu")
_RPM = ("rhel", "fedora", "centos", "amzn", "rocky", "almalinux", "ol")


def detect(machine: Machine) -> str:
    """``apt`` or ``dnf``, from what the system says it is: either tool may also be there as a mere program."""
    text = machine.read("/etc/os-release") or machine.read("/usr/lib/os-release") or ""
    fields = dict(re.findall(r"(?m)^(ID|ID_LIKE|PRETTY_NAME)=[\"']?([^\"'\n]*)", text))
    ids = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    shown = fields.get("PRETTY_NAME") or fields.get("ID") or "this system"
    if any(name in _DEB for name in ids):
        if machine.find("apt-get") and machine.find("dpkg-query"):
            return "apt"
        raise PlanError(f"{shown} has no apt-get and dpkg-query, so no package can be planned")
    if any(name in _RPM for name in ids):
        if machine.find("dnf-3") and machine.find("rpm"):
            return "dnf"
        if machine.find("dnf5"):
            raise PlanError(f"{shown} has dnf 5, which package_plan does not know; it knows apt and dnf 4")
        raise PlanError(f"{shown} has no dnf 4 and rpm, so no package can be planned")
    raise PlanError(f"{shown} has neither apt nor dnf 4, the package managers that package_plan knows")
