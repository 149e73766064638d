# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From a request to a plan: what is there, what the package manager would do, and whether that may be done."""

from __future__ import annotations

import fnmatch
import hashlib
from typing import Any, Protocol

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import locks, model
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import (
    Item,
    Package,
    PlanError,
    Simulation,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.request import Request
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.signed import File


class Manager(Protocol):
    """What apt and dnf have in common."""

    family: str
    installed: dict[str, Package]

    def read_again(self) -> dict[str, Package]:
        """Read the installed packages anew."""

    def half_done(self) -> list[str]:
        """What a killed or failed transaction left."""

    def simulate(self, earlier: list[str]) -> Simulation:
        """What would happen. ``earlier``: the holds that an earlier run of ours set."""

    def holds(self, after: dict[str, str], earlier: list[str]) -> dict[str, list[str]]:
        """``add``, ``keep``, ``release`` and ``foreign`` for the packages (name: version) of afterwards."""

    def download(self, found: Simulation) -> list[str]:
        """Fetch and check; the files that came."""

    def check_exact(self, found: Simulation) -> None:
        """Ask once more with everything named exactly."""

    def script(self, found: Simulation, plan: dict[str, Any]) -> list[tuple[str, str, bool]]:
        """The steps of the transaction: name, shell text, whether it runs after a failure too."""

    def environment(self) -> dict[str, str]:
        """What the transaction runs with."""

    def after_files(self) -> list[str]:
        """Bring the node's own lists up to date; warnings."""

    def full_upgrade(self) -> list[str]:
        """What a full upgrade would touch, holds included."""

    def newer(self, names: list[str]) -> dict[str, str]:
        """Which of the packages have a newer version on offer."""


def make(
    machine: Machine, manager: Manager, request: Request, earlier: dict[str, Any] | None, killed: bool
) -> tuple[dict[str, Any], Simulation]:
    """The plan and the simulation it comes from.

    ``earlier`` is the plan of our last transaction; ``killed`` says that it did not come to its end, so that what is
    half done is ours. PlanError where the plan may not be carried out.
    """
    half_done = manager.half_done()
    in_use = locks.holder(manager.family)
    if half_done and not (killed or request.repair or in_use):
        raise PlanError(
            f"the package manager was left half done, and not by a run of this module: {', '.join(half_done[:6])}; "
            "look at why (dpkg --audit, /var/log), then finish it by hand or with repair: true"
        )
    holds_before = [*earlier["holds"]["add"], *earlier["holds"]["keep"]] if earlier else []
    found = manager.simulate(holds_before)
    if in_use:
        found.unknown.append(f"the package manager is in use by {in_use}, so what is installed is about to change")
    _refuse_unasked(found, request)
    plan: dict[str, Any] = {
        "packages": [item.as_dict() for item in sorted(found.items, key=lambda item: (item.name, item.arch))],
        "repositories": files(machine, request),
        "holds": manager.holds(_after(manager.installed, found.items), holds_before),
        "streams": found.streams,
        "available": found.available,
        "half_done": half_done,
        "download_bytes": found.download_bytes,
        "disk_bytes": found.disk_bytes,
        "certain": not found.unknown,
        "unknown": found.unknown,
        "warnings": found.warnings,
    }
    plan["digest"] = model.digest(plan)
    return plan, found


def changes(plan: dict[str, Any]) -> bool:
    """Whether carrying the plan out would change the node."""
    return bool(
        any(item["action"] != "keep" for item in plan["packages"])
        or any(file["action"] != "none" for file in plan["repositories"])
        or plan["holds"]["add"]
        or plan["holds"]["release"]
        or any(stream["action"] != "keep" for stream in plan["streams"])
        or plan["half_done"]
    )


def files(machine: Machine, request: Request) -> list[dict[str, Any]]:
    """Every file of the request, as it is and as it shall be."""
    wanted: list[File] = [file for repository in request.repositories for file in repository.files]
    found = []
    for file in [*wanted, *request.preferences]:
        before = machine.read(file.path)
        if before == file.text:
            action = "none"
        elif file.text is None:
            action = "remove"
        else:
            action = "create" if before is None else "change"
        digest = hashlib.sha256((file.text or "").encode("utf-8", "surrogateescape")).hexdigest()
        found.append({"path": file.path, "action": action, "before": before, "after": file.text, "sha256": digest})
    return found


def matching(names: list[str], patterns: tuple[str, ...]) -> list[str]:
    """The names that one of the patterns names; ``name:arch`` by its name."""
    return sorted(
        name for name in names if any(fnmatch.fnmatchcase(name.split(":", 1)[0], pattern) for pattern in patterns)
    )


def _refuse_unasked(found: Simulation, request: Request) -> None:
    asked = {wanted.name for wanted in request.install}
    gone = sorted(item.name for item in found.items if item.action == "remove")
    fine = (*request.remove, *request.allow_remove)
    unasked = [name for name in gone if name in asked or not matching([name], fine)]
    if unasked:
        raise PlanError(
            f"the plan would remove {', '.join(unasked)}, which nobody asked for; name it in remove or "
            "allow_remove where that is meant, else leave out what does not go with it"
        )
    back = sorted(item.name for item in found.items if item.action == "downgrade")
    if back and not request.allow_downgrade:
        raise PlanError(f"the plan would take {', '.join(back)} back to an older version; allow_downgrade permits that")


def _after(installed: dict[str, Package], items: list[Item]) -> dict[str, str]:
    """name -> version of what is installed once the plan is carried out."""
    after = {name: package.version for name, package in installed.items()}
    for item in items:
        full = f"{item.name}:{item.arch}"
        name = full if full in installed else item.name
        if item.new is None:
            after.pop(name, None)
        else:
            after[name] = item.new
    return after
