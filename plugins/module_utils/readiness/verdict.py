# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From checks to one verdict and one root cause."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks import TABLES
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    DEGRADED,
    FAIL,
    NOT_READY,
    READY,
    SKIPPED,
    UNKNOWN,
    WARN,
    Check,
)

# Environment first: what stands earlier explains what stands later.
CAUSE_ORDER = tuple(TABLES)


def verdict(checks: Sequence[Check]) -> str:
    """Worst wins: a failure or a blocking unknown is not_ready; a warning, a skip or another unknown degrades.

    No checks at all is not_ready: nothing was proven.
    """
    if not checks or any(blocks(check) for check in checks):
        return NOT_READY
    if any(check.status in (WARN, SKIPPED, UNKNOWN) for check in checks):
        return DEGRADED
    return READY


def blocks(check: Check) -> bool:
    """Whether this answer keeps the node from being ready."""
    return check.status == FAIL or (check.status == UNKNOWN and check.blocking)


def root_cause(checks: Sequence[Check]) -> str | None:
    """The id of the first failure in the order of causes; where nothing failed, of the first blocking unknown."""
    ordered: list[Check] = sorted(checks, key=_rank)
    for status in (FAIL, UNKNOWN):
        for check in ordered:
            if check.status == status and blocks(check):
                return check.id
    return None


def _rank(check: Check) -> int:
    # sorted() is stable, so checks of one concern keep the order of their table.
    concern = check.id.split(".", 1)[0]
    return CAUSE_ORDER.index(concern) if concern in CAUSE_ORDER else len(CAUSE_ORDER)
