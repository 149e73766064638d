# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The nodes of a run as one: not ready as long as one of them is not, and never without a node."""

from __future__ import annotations

from collections import Counter

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    DEGRADED,
    FAIL,
    NOT_READY,
    READY,
    VERDICTS,
    WARN,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import (
    WHOLE_RUN,
    Answer,
    Spec,
    named,
    nodes,
    passed,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Survey


def own_verdicts(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer for the run."""
    members = survey.members
    counts = Counter(member.row["verdict"] for member in members)
    observed = {verdict: counts[verdict] for verdict in VERDICTS}
    if not members:
        return [Answer(spec, WHOLE_RUN, members, FAIL, "No node was asked, so nothing is ready.", (), observed)]
    for verdict, status, word in ((NOT_READY, FAIL, "not ready"), (DEGRADED, WARN, "degraded")):
        blamed = [member for member in members if member.row["verdict"] == verdict]
        if blamed:
            causes = Counter(member.row.get("root_cause") or verdict for member in blamed).most_common()
            most = named((f"{cause} ({count})" for cause, count in causes), 3) if verdict == NOT_READY else ""
            reason = f"{len(blamed)} of {nodes(len(members))} {'is' if len(blamed) == 1 else 'are'} {word}"
            return [
                Answer(
                    spec, WHOLE_RUN, members, status, f"{reason}: {most}." if most else f"{reason}.", blamed, observed
                )
            ]
    if counts[READY] != len(members):
        strange = [member for member in members if member.row["verdict"] not in VERDICTS]
        return [Answer(spec, WHOLE_RUN, members, FAIL, "Some rows have no known verdict.", strange, observed)]
    return [passed(spec, WHOLE_RUN, members, f"All {nodes(len(members))} are ready.", observed)]
