# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import itertools

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import STATUSES, Check
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.verdict import (
    CAUSE_ORDER,
    root_cause,
    verdict,
)


def check(status, blocking=True, check_id="driver.branch"):
    return Check(check_id, status, None, None, "why", blocking=blocking)


EXPECTED = {
    ("pass", True): "ready",
    ("pass", False): "ready",
    ("not_applicable", True): "ready",
    ("not_applicable", False): "ready",
    ("warn", True): "degraded",
    ("warn", False): "degraded",
    ("skipped", True): "degraded",
    ("skipped", False): "degraded",
    ("unknown", True): "not_ready",
    ("unknown", False): "degraded",
    ("fail", True): "not_ready",
    ("fail", False): "not_ready",
}
ORDER = ("ready", "degraded", "not_ready")


@pytest.mark.parametrize(("kind", "expected"), EXPECTED.items())
def test_each_status_alone(kind, expected):
    assert verdict([check(*kind)]) == expected


@pytest.mark.parametrize("pair", list(itertools.combinations(EXPECTED, 2)))
def test_the_worst_wins(pair):
    worst = max((EXPECTED[kind] for kind in pair), key=ORDER.index)
    assert verdict([check(*kind) for kind in pair]) == worst


def test_nothing_checked_is_not_ready():
    assert verdict([]) == "not_ready"


def test_every_status_has_an_expectation():
    assert {status for status, _blocking in EXPECTED} == set(STATUSES)


def test_the_root_cause_is_the_first_failure_in_the_order_of_causes():
    checks = [
        check("fail", check_id="container.engine"),
        check("fail", check_id="driver.loaded"),
        check("fail", check_id="driver.branch"),
        check("unknown", check_id="host.arch"),
    ]
    assert root_cause(checks) == "driver.loaded"


def test_without_a_failure_the_first_blocking_unknown_is_the_cause():
    checks = [check("unknown", check_id="gpu.count"), check("unknown", blocking=False, check_id="host.clock")]
    assert root_cause(checks) == "gpu.count"


def test_warnings_have_no_root_cause():
    assert root_cause([check("warn"), check("skipped"), check("pass")]) is None


def test_the_order_of_causes_is_the_environment_first():
    order = ["host", "driver", "gpu", "fabric", "gpudirect", "rdma", "container", "network", "storage"]
    assert list(CAUSE_ORDER) == order
