# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Carries a plan out: finishes what a killed run left, fetches, runs, and compares the node with the plan.

Prediction and run are one: the run makes the plan anew, refuses where it is not the approved one, and hands exactly
its packages and versions to the package manager.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import family as families
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import locks, transaction
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import plan as plans
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import request as requests
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.apt import Apt
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.dnf import Dnf
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.journal import FOLDER, Journal
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import (
    PlanError,
    RunError,
    Simulation,
    shown,
)


def run(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """What the module answers: ``changed``, ``plan``, ``diff`` and, by state, ``files``, ``hold_proof``, ``resumed``.

    Nothing that leaves here holds a password of a repository's address.
    """
    try:
        return shown(_run(params, check_mode))
    except PlanError as exc:
        raise PlanError(shown(str(exc))) from None
    except RunError as exc:
        raise RunError(shown(str(exc)), **shown(exc.facts)) from None


def _run(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    machine = Machine()
    family = families.detect(machine)
    request = requests.parse(params, family)
    if os.geteuid() != 0:
        raise PlanError("package_plan needs root: use become")
    state = "planned" if check_mode and request.state in ("present", "downloaded") else request.state
    if state == "present":
        return _present(machine, request)
    with _temporary() as folder:
        manager = _manager(machine, request, folder)
        unfinished = Journal.unfinished(machine)
        plan, found = plans.make(machine, manager, request, _earlier(machine, unfinished), unfinished is not None)
        if state == "held":
            return {"changed": False, "plan": plan, "diff": [], "hold_proof": _proof(manager, request, plan)}
        _compare_approval(request, plan, _earlier(machine, unfinished))
        if state == "planned":
            return {"changed": plans.changes(plan), "plan": plan, "diff": differences(plan)}
        _refuse_uncertain(plan)
        files = manager.download(found)
        return {"changed": bool(files), "plan": plan, "diff": [], "files": files}


def _manager(machine: Machine, request: requests.Request, folder: str) -> plans.Manager:
    return Apt(machine, request, folder) if families.detect(machine) == "apt" else Dnf(machine, request, folder)


@contextlib.contextmanager
def _temporary() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="gpufleet-package-plan-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _earlier(machine: Machine, unfinished: dict[str, Any] | None) -> dict[str, Any] | None:
    """The plan of our last transaction, whether it came to its end or not."""
    note = unfinished or Journal.read(machine, f"{FOLDER}/last.json")
    return note["plan"] if note else None


def _refuse_uncertain(plan: dict[str, Any]) -> None:
    if not plan["certain"]:
        raise PlanError(f"nothing was changed, because the plan is not certain: {'; '.join(plan['unknown'])}")


def _compare_approval(request: requests.Request, plan: dict[str, Any], earlier: dict[str, Any] | None) -> None:
    """Refuse a plan that is not the approved one, unless it does nothing or is what is left of the approved one."""
    if request.expect is None or request.expect == plan["digest"] or not plans.changes(plan):
        return
    if earlier is not None and earlier["digest"] == request.expect and _is_rest(plan, earlier):
        return
    raise PlanError(
        f"the plan is no longer the approved one (digest {plan['digest'][:12]}, approved {request.expect[:12]}): the "
        "node or the repository changed in between; nothing was changed. Look at the plan anew and approve that"
    )


def _is_rest(plan: dict[str, Any], whole: dict[str, Any]) -> bool:
    targets = {(item["name"], item["arch"]): item["to"] for item in whole["packages"]}
    return all(
        targets.get((item["name"], item["arch"]), item["from"] or "") == item["to"]
        for item in plan["packages"]
        if item["action"] != "keep"
    ) and {file["path"]: file["sha256"] for file in plan["repositories"]} == {
        file["path"]: file["sha256"] for file in whole["repositories"]
    }


# ---- present -------------------------------------------------------------------------------------------------------


def _present(machine: Machine, request: requests.Request) -> dict[str, Any]:
    journal = Journal(machine)
    journal.open()
    try:
        return _in_journal(machine, request, journal)
    finally:
        journal.discard()


def _in_journal(machine: Machine, request: requests.Request, journal: Journal) -> dict[str, Any]:
    unfinished = Journal.unfinished(machine)
    if unfinished is not None:
        # Killed from outside, it may still be at work: nothing is decided before it ended.
        transaction.wait(journal, unfinished["unit"], request.transaction_timeout)
    locks.wait(families.detect(machine), request.lock_timeout)
    manager = _manager(machine, request, journal.workspace())
    earlier = _earlier(machine, unfinished)
    plan, found = plans.make(machine, manager, request, earlier, unfinished is not None)
    _compare_approval(request, plan, earlier)
    _refuse_uncertain(plan)
    result: dict[str, Any] = {"changed": plans.changes(plan), "plan": plan, "diff": differences(plan)}
    result["resumed"] = unfinished["unit"] if unfinished else None
    if result["changed"]:
        manager.download(found)
        manager.check_exact(found)
        _carry_out(machine, request, journal, manager, plan, found)
    _compare_result(manager, request, plan)
    if request.hold:
        result["hold_proof"] = _proof(manager, request, plan)
    journal.finish()
    return result


def _carry_out(
    machine: Machine,
    request: requests.Request,
    journal: Journal,
    manager: plans.Manager,
    plan: dict[str, Any],
    found: Simulation,
) -> None:
    unit = transaction.unit_name(plan["digest"])
    steps = manager.script(found, plan)
    journal.begin(shown(plan), unit, transaction.script(steps, manager.environment()))
    for file in plan["repositories"]:
        if file["action"] == "remove":
            machine.remove(file["path"])
        elif file["action"] != "none":
            machine.write(file["path"], file["after"])
    if any(file["action"] != "none" for file in plan["repositories"]):
        plan["warnings"] += manager.after_files()
    if not steps:
        return
    transaction.start(machine, unit)
    status = transaction.wait(journal, unit, request.transaction_timeout)
    if status != 0:
        log = transaction.tail()
        said = [line[3:] for line in log if line.startswith(("E: ", "Error: "))] or [
            line for line in log if "error" in line
        ]
        how = "was killed" if status is None else f"ended with {status}"
        raise RunError(
            f"the package transaction {how}: {'; '.join(said[-3:]) or 'it gave no reason'}; what was begun is in the "
            "journal, and the same command finishes it",
            log=log,
            plan=plan,
        )


def _compare_result(manager: plans.Manager, request: requests.Request, plan: dict[str, Any]) -> None:
    """Read the node back; RunError where it is not what the plan says."""
    installed = manager.read_again()
    wrong = []
    for item in plan["packages"]:
        full = f"{item['name']}:{item['arch']}"
        package = installed.get(full) or installed.get(item["name"])
        if package is not None and package.arch != item["arch"] and item["arch"] not in ("all", "noarch"):
            package = None
        now = package.version if package else None
        if now != item["to"]:
            wrong.append(f"{item['name']} is {now or 'absent'}, planned {item['to'] or 'absent'}")
    wrong += [f"{text} is not finished" for text in manager.half_done()]
    after = manager.holds({name: package.version for name, package in installed.items()}, [])
    wrong += [f"{name} is not held" for name in after["add"]]
    wrong += [f"the site's hold of {name} is gone" for name in plan["holds"]["foreign"] if name not in after["foreign"]]
    if wrong:
        raise RunError(
            f"after the transaction the node is not what was planned: {'; '.join(wrong[:6])}",
            plan=plan,
            log=transaction.tail(),
        )


def _proof(manager: plans.Manager, request: requests.Request, plan: dict[str, Any]) -> dict[str, Any]:
    """Whether a full upgrade leaves the held set alone; RunError where it does not."""
    names = plans.matching(list(manager.installed), request.hold)
    touched = plans.matching(manager.full_upgrade(), request.hold)
    proof = {"packages": names, "touched": touched, "newer": manager.newer(names)}
    if touched:
        raise RunError(
            f"a full upgrade would change {', '.join(touched[:8])}, which hold names", plan=plan, hold_proof=proof
        )
    return proof


def differences(plan: dict[str, Any]) -> list[dict[str, str]]:
    """The plan in the form that Ansible prints with --diff: each file, then the packages."""
    found = [
        {
            "before_header": file["path"],
            "after_header": file["path"],
            "before": file["before"] or "",
            "after": file["after"] or "",
        }
        for file in plan["repositories"]
        if file["action"] != "none"
    ]
    changed = [item for item in plan["packages"] if item["action"] != "keep"]
    if changed:
        texts = {
            side: "".join(f"{item['name']} {item[key]}\n" for item in changed if item[key])
            for side, key in (("before", "from"), ("after", "to"))
        }
        found.append({"before_header": "packages", "after_header": "packages", **texts})
    if plan["holds"]["add"] or plan["holds"]["release"]:
        holds = plan["holds"]
        lists = {"before": [*holds["keep"], *holds["release"]], "after": [*holds["keep"], *holds["add"]]}
        sides = {side: "".join(f"{name}\n" for name in sorted(names)) for side, names in lists.items()}
        found.append({"before_header": "holds", "after_header": "holds", **sides})
    return found
