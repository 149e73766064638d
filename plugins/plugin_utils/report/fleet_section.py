# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the terminal says of the fleet checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    NOT_APPLICABLE,
    PASS,
    SKIPPED,
    UNKNOWN,
    WARN,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import plain, redact
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import OWN_VERDICTS
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.cells import (
    cure_lines,
    cut,
    examples,
    name_width,
    wrapped,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import PROBED

WORST_FIRST = (FAIL, UNKNOWN, WARN, SKIPPED)
SHOWN = 10
# Answers of one fleet check that are told: the same of a hundred racks must not hide another check.
OF_A_KIND = 3


def fleet_lines(report: Mapping[str, Any], width: int, said: set[str]) -> list[str]:
    """The fleet checks that do not pass, each with the nodes it blames; those that pass as a count.

    What is unknown only because nodes were not probed is one line: it follows from those nodes, and says no more.
    """
    checks = report["fleet"]["checks"]
    unprobed = {node["host"] for node in report["nodes"] if node["state"] != PROBED}
    asked = [check for check in checks if check["id"] != OWN_VERDICTS and check["status"] != NOT_APPLICABLE]
    if not asked:
        return []
    # sorted() is stable: within a status they keep the order of causes.
    open_ = sorted(
        (check for check in asked if check["status"] != PASS),
        key=lambda check: WORST_FIRST.index(check["status"]),
    )
    counts = Counter(check["status"] for check in asked)
    told = ", ".join(f"{counts[status]} {status}" for status in (*WORST_FIRST, PASS) if counts[status])
    lines = [f"Fleet checks: {told}"]
    silent: list[Mapping[str, Any]] = []
    rest: list[Mapping[str, Any]] = []
    for check in open_:
        follows = check["status"] == UNKNOWN and unprobed.issuperset(check["outliers"])
        (silent if follows else rest).append(check)
    if silent:
        hosts = list(dict.fromkeys(host for check in silent for host in check["outliers"]))
        told = f"{len(silent)} unknown only because nodes were not probed ({examples(hosts)})"
        lines += wrapped("    ", f"{told}: cure those, then probe again.", width)
    shown = _few_of_each(rest)
    if not shown:
        return [*lines, ""]
    scopes = [plain(f"{check['scope']['kind']} {check['scope']['name']}") for check in shown]
    id_width = max([len("FLEET CHECK"), *(len(check["id"]) for check in shown)])
    scope_width = name_width("WHERE", scopes)
    row = f"{{:<{id_width}}}  {{:<7}}  {{:<{scope_width}}}  {{}}"
    lines.append(row.format("FLEET CHECK", "STATUS", "WHERE", "NODES IT NAMES"))
    for check, scope in zip(shown, scopes, strict=True):
        mark = check["status"].upper() if check["status"] == FAIL else check["status"]
        lines.append(row.format(check["id"], mark, cut(scope, scope_width), examples(check["outliers"])).rstrip())
        lines += wrapped("    why      ", redact(check["reason"]), width)
        lines += cure_lines(check["remedy"], width, said)
    if len(rest) > len(shown):
        lines.append(f"and {len(rest) - len(shown)} more fleet checks that do not pass: see readiness.html")
    return [*lines, ""]


def _few_of_each(checks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    kinds: Counter[tuple[str, str]] = Counter()
    few = []
    for check in checks:
        kinds[check["id"], check["status"]] += 1
        if kinds[check["id"], check["status"]] <= OF_A_KIND:
            few.append(check)
    return few[:SHOWN]
