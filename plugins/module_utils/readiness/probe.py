# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs every concern beside the others and makes one report. Never raises: what broke is ``unknown``, with why."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, ownership
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks import TABLES, specs
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import load
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    GPU,
    NVIDIA,
    SCHEMA_VERSION,
    SKIPPED,
    UNKNOWN,
    Check,
    Findings,
    Remedy,
    Spec,
    Unknown,
    to_json,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import AMD_VENDOR, NVIDIA_VENDOR
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact_all
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import pci
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.verdict import root_cause, verdict

SIZE_LIMIT = 64 * 1024
EVIDENCE_PER_CHECK = 8
COMMAND_LIMIT = 2000
COPYABLE = re.compile(r"[A-Za-z0-9_./:=@,+~-]+( (&& )?[A-Za-z0-9_./:=@,+~-]+)*")
# A collector may ask several commands one after the other, and each may cost its whole limit.
LIMITS_PER_PROBE = 3
# Asked on every machine: their answer is what the others depend on.
PRESENCE = "gpu.count"
# What that check observes on a machine without one.
NO_GPU = {"pci": 0}


def check_ids() -> list[str]:
    """Every check id, in the order of causes."""
    return [check_id for check_id, _spec in specs()]


def probe(node: Node, require: dict[str, Any], skip: dict[str, str]) -> dict[str, Any]:
    """The readiness report of one node, as JSON types: schema, verdict, root_cause, checks, facts.

    ``require`` and ``skip`` come from contract.resolve() and contract.resolve_skip().
    """
    node.require = require
    facts = collect(node)
    checks = assess(facts, require)
    for check in checks:
        # A skip says that a check is not to decide. That there is something to decide about is not up to it.
        if check.id in skip and not (check.id == PRESENCE and check.observed == NO_GPU):
            check.status = SKIPPED
            check.reason = "skipped: " + skip[check.id]
            check.remedy = None
    return report(checks, facts)


def collect(node: Node) -> dict[str, Any]:
    """``{concern: its facts}`` with ``machine`` and ``owners`` beside them. A concern that broke or hung is Unknown.

    A concern that has no check for this kind of machine is not read at all.
    """
    deadline = time.monotonic() + LIMITS_PER_PROBE * node.timeout
    facts = _side_by_side(node, {"machine": _machine}, deadline)
    vendors = _vendors(facts["machine"])
    jobs: dict[str, Callable[[Node], Any]] = {"owners": ownership.collect}
    for name, table in TABLES.items():
        reasons = {_does_not_apply(f"{name}.{spec.name}", spec, vendors) for spec in table}
        if "" not in reasons:
            facts[name] = Unknown(" and ".join(sorted(reasons)))
            continue
        try:
            # Loaded here, one after the other, and only read side by side.
            jobs[name] = load(name).collect
        except Exception as exc:  # pylint: disable=broad-exception-caught  # the promise: a bad node is reported
            facts[name] = Unknown(f"the code for this part cannot be loaded: {type(exc).__name__}: {str(exc)[:200]}")
    return {**facts, **_side_by_side(node, jobs, deadline)}


def _side_by_side(node: Node, jobs: dict[str, Callable[[Node], Any]], deadline: float) -> dict[str, Any]:
    """What each job read of the node by the deadline; Unknown where it broke or did not end."""
    facts: dict[str, Any] = {}

    def work(name: str) -> None:
        try:
            facts[name] = jobs[name](node)
        except Exception as exc:  # pylint: disable=broad-exception-caught  # the promise: a bad node is reported
            facts[name] = Unknown(f"reading this part of the node failed: {type(exc).__name__}: {str(exc)[:200]}")

    # Daemon threads: a read that hangs in the kernel must not keep the probe from answering.
    threads = {name: threading.Thread(target=work, args=(name,), daemon=True) for name in jobs}
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    late = Unknown(f"reading this part of the node took longer than {LIMITS_PER_PROBE * node.timeout:g} s")
    # A copy: a late thread must not change what is being judged.
    return {name: facts.get(name, late) for name in jobs}


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Every check answered, in the order of causes."""
    answers: list[Check] = []
    for name, table in TABLES.items():
        facts_of_concern = facts.get(name)
        if isinstance(facts_of_concern, Unknown):
            answers += _all_unknown(name, table, facts_of_concern.reason)
            continue
        try:
            answers += load(name).assess(facts, require)
        except Exception as exc:  # pylint: disable=broad-exception-caught  # see collect()
            why = f"judging this part of the node failed: {type(exc).__name__}: {str(exc)[:200]}"
            answers += _all_unknown(name, table, why)
    by_id = dict(specs())
    answers = [_for_this_machine(check, by_id[check.id], facts.get("machine")) for check in answers]
    owners = facts.get("owners")
    if isinstance(owners, dict):
        ownership.withhold(answers, by_id, owners)
    _order_cures(answers)
    return answers


def _order_cures(checks: list[Check]) -> None:
    """Where one check's cure would fail or do harm before another's, it names the other first."""
    by_id = {check.id: check for check in checks}
    # A reboot would bring up a node without its driver (C05).
    boot, due = by_id["driver.next_boot"], by_id["host.reboot_due"]
    if due.remedy and boot.status in (FAIL, UNKNOWN):
        due.remedy = Remedy(f"Cure driver.next_boot first, then drain and reboot: {boot.reason}", due.remedy.disruptive)
    # The kernel would refuse the module again (C19).
    loaded, secure = by_id["driver.loaded"], by_id["host.secure_boot"]
    if loaded.remedy and secure.status == FAIL and secure.remedy:
        loaded.remedy = replace(secure.remedy, action=f"Cure host.secure_boot first: {secure.remedy.action}")


def report(checks: list[Check], facts: dict[str, Any]) -> dict[str, Any]:
    """The report as JSON types: redacted, and cut to SIZE_LIMIT bytes by dropping facts, then evidence."""
    for check in checks:
        check.evidence = check.evidence[:EVIDENCE_PER_CHECK]
        # Commands are there to be copied, and some carry names that were read on the node.
        if check.remedy and check.remedy.command and not _copyable(check.remedy.command):
            check.remedy = replace(check.remedy, command=None)
    answer = {
        "schema": SCHEMA_VERSION,
        "verdict": verdict(checks),
        "root_cause": root_cause(checks),
        "checks": [_told(check) for check in checks],
        "facts": redact_all(to_json(facts), 600),
    }
    for concern in sorted(answer["facts"], key=lambda name: -_size(answer["facts"][name])):
        if _size(answer) <= SIZE_LIMIT:
            return answer
        answer["facts"][concern] = {"unknown": f"left out: the report would be larger than {SIZE_LIMIT} bytes"}
    for longest in (200, 80, 20):
        if _size(answer) <= SIZE_LIMIT:
            break
        answer["checks"] = [_shortened(check, longest) for check in answer["checks"]]
    return answer


def _told(check: Check) -> dict[str, Any]:
    """A check as it is reported: redacted, its texts cut, but a command whole or not at all."""
    told = redact_all(check.as_dict(), 600)
    if check.remedy and check.remedy.command:
        told["remedy"]["command"] = check.remedy.command
    return told


def _shortened(check: dict[str, Any], longest: int) -> dict[str, Any]:
    """A check with its texts cut, and what was observed and required left out where it is large."""
    short = {
        **redact_all({**check, "evidence": check["evidence"][: 2 if longest > 20 else 0]}, longest),
        "id": check["id"],
    }
    if short["remedy"]:
        short["remedy"]["command"] = None
    for name in ("observed", "required"):
        if _size(short[name]) > 2 * longest:
            short[name] = "left out: too large"
    return short


def _copyable(command: str) -> bool:
    return len(command) <= COMMAND_LIMIT and COPYABLE.fullmatch(command) is not None


def _size(value: Any) -> int:
    return len(json.dumps(value))


def _machine(node: Node) -> dict[str, Any]:
    """Which vendors' GPUs the PCI bus shows: ``{"vendors": [...]}``, or the reason why that is not known."""
    found = pci.gpus(node)
    if isinstance(found, Unknown):
        return {"vendors": found}
    return {"vendors": sorted({device.vendor for device in found})}


def _vendors(machine: Any) -> list[str] | None:
    """The vendors of the GPUs; None where they are not known."""
    vendors = machine.get("vendors") if isinstance(machine, dict) else None
    return vendors if isinstance(vendors, list) else None


def _does_not_apply(check_id: str, spec: Spec, vendors: list[str] | None) -> str:
    """Why a machine with GPUs of these vendors cannot have what the check asks for; empty where it can."""
    if vendors is None or check_id == PRESENCE:
        return ""
    if spec.machines in (GPU, NVIDIA) and not vendors:
        return "this machine has no GPU"
    if spec.machines == NVIDIA and NVIDIA_VENDOR not in vendors and AMD_VENDOR in vendors:
        return "this machine has AMD GPUs"
    return ""


def _for_this_machine(check: Check, spec: Spec, machine: Any) -> Check:
    """``check``, or ``not_applicable`` in its place where this kind of machine cannot have what it asks for."""
    why = _does_not_apply(check.id, spec, _vendors(machine))
    if not why:
        return check
    findings = Findings(check.id.split(".", 1)[0], [spec])
    findings.not_applicable(spec.name, why)
    return findings.checks()[0]


def _all_unknown(concern: str, table: Any, reason: str) -> list[Check]:
    findings = Findings(concern, table)
    for spec in table:
        findings.unknown(spec.name, reason)
    return findings.checks()


def run(require: Any, skip: Any, timeout: float) -> dict[str, Any]:
    """Check the input (contract.ContractError), then probe this machine."""
    resolved = contract.resolve(require)
    skipped = contract.resolve_skip(skip, check_ids())
    return probe(Node(timeout=timeout), resolved, skipped)
