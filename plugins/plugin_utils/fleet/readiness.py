# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From the rows of a report to what the fleet as a whole is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import FAIL, UNKNOWN, Check
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.verdict import blocks, verdict
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import WHOLE_RUN, Answer, not_applicable
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Survey, survey
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.table import FLEET_CHECKS

# What this check blames a node for, its own row says better.
OWN_VERDICTS = "fleet.nodes"


def fleet_readiness(rows: Sequence[Mapping[str, Any]], declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """``{"verdict", "root_cause", "checks"}`` of the ``nodes`` of a report; ``declared`` and errors: see survey()."""
    return judged(survey(rows, declared))


def judged(found: Survey) -> dict[str, Any]:
    """The same of a survey. Every check answers at least once, where nothing applies with not_applicable."""
    answers: list[Answer] = []
    for spec in FLEET_CHECKS:
        answers += spec.judge(spec, found) or [not_applicable(spec, WHOLE_RUN, found.members, spec.without)]
    told = [answer.as_dict() for answer in answers]
    weighed = [Check(check["id"], check["status"], None, None, "", blocking=check["blocking"]) for check in told]
    # The table is in the order of causes; that of a node's concerns does not hold here.
    blocking = {
        status: [check.id for check in weighed if check.status == status and blocks(check)]
        for status in (FAIL, UNKNOWN)
    }
    cause = next(iter(blocking[FAIL] + blocking[UNKNOWN]), None)
    return {"verdict": verdict(weighed), "root_cause": cause, "checks": told}


def blamed(fleet: Mapping[str, Any]) -> dict[str, list[str]]:
    """``{host: [words]}``: the blocking fleet checks that blame a node, each with its scope."""
    found: dict[str, list[str]] = {}
    for check in fleet["checks"]:
        blocks = check["status"] == "fail" or (check["status"] == "unknown" and check["blocking"])
        if blocks and check["id"] != OWN_VERDICTS:
            scope = check["scope"]
            for host in check["outliers"]:
                found.setdefault(host, []).append(f"{check['id']} ({scope['kind']} {scope['name']})")
    return found
