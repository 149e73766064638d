# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""peermem on all nodes of a deployment where one needs it: NCCL_DMABUF_ENABLE=0 is for a job, not for a node."""

from __future__ import annotations

from collections import Counter

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    NOT_APPLICABLE,
    SKIPPED,
    UNKNOWN,
    WARN,
    Evidence,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import (
    Answer,
    Scope,
    Spec,
    named,
    nodes,
    not_applicable,
    not_known,
    passed,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Member, Survey, Unread

CHECK = "gpudirect.peermem"


def peermem(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer a deployment."""
    return [_answer(spec, scope, members) for scope, members in survey.deployments]


def _answer(spec: Spec, scope: Scope, members: list[Member]) -> Answer:
    needing = [member for member in members if _needs(member) is True]
    observed = {"needed_by": len(needing), **Counter(_word(bound(member)) for member in members)}
    if not needing:
        unsure = [member for member in members if _needs(member) is None]
        if not unsure:
            return not_applicable(spec, scope, members, f"no node of {scope.words} needs peermem")
        reason = f"Whether a node of {scope.words} needs peermem is not known. {_not_known(unsure)}."
        return Answer(spec, scope, members, UNKNOWN, reason, unsure, observed, blocking=_blocking(members))
    without = [member for member in members if bound(member) is False]
    unread = [member for member in members if isinstance(bound(member), Unread)]
    need = f"{named((member.host for member in needing), 3)} of {scope.words} cannot do without peermem"
    blocking = _blocking(needing)
    if without:
        reason = (
            f"{need}, and it is not bound on {named((member.host for member in without), 4)}: NCCL_DMABUF_ENABLE=0 is "
            f"set for a job, so all {nodes(len(members))} need it."
        )
        evidence = [Evidence(f"{member.host}: {CHECK}", _why(member)) for member in without]
        return Answer(
            spec,
            scope,
            members,
            FAIL if blocking else WARN,
            f"{reason} {_not_known(unread)}." if unread else reason,
            without,
            observed,
            evidence,
            blocking=blocking,
        )
    if unread:
        reason = f"{need}, and whether it is bound on all {nodes(len(members))} is not known. {_not_known(unread)}."
        return Answer(spec, scope, members, UNKNOWN, reason, unread, observed, blocking=blocking)
    return passed(spec, scope, members, f"peermem is bound on all {nodes(len(members))} of {scope.words}.", observed)


def bound(member: Member) -> bool | Unread:
    """Whether nvidia_peermem is bound to ib_core; also where the node's own check does not ask for it."""
    value = member.fact("gpudirect", "peermem", "bound")
    return value if isinstance(value, (bool, Unread)) else Unread("its answer does not tell whether peermem is bound")


def _needs(member: Member) -> bool | None:
    """Whether the node's contract needs it there (C24, C25, C27): its check then has something required.

    None where that is not known: the node was not probed, its check is unknown, or somebody chose not to look.
    """
    check = member.checks.get(CHECK)
    if check is None or (check["status"] in (UNKNOWN, SKIPPED) and check["required"] is not None):
        return None
    return check["status"] != NOT_APPLICABLE and check["required"] is not None


def _blocking(members: list[Member]) -> bool:
    """Whether RDMA matters to any of them; one that was not probed is held against its neighbours."""
    return any(member.checks[CHECK]["blocking"] is True for member in members if CHECK in member.checks)


def _word(state: bool | Unread) -> str:
    return "not_known" if isinstance(state, Unread) else "bound" if state else "not_bound"


def _not_known(members: list[Member]) -> str:
    return not_known((member, _why(member)) for member in members)


def _why(member: Member) -> str:
    if CHECK in member.checks:
        return str(member.checks[CHECK]["reason"])
    asked = member.fact("gpudirect")
    return asked.why if isinstance(asked, Unread) else f"its answer has no check {CHECK}"
