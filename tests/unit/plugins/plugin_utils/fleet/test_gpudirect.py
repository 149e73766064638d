# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import fleet_readiness
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import answers, check, dead, row

REQUIRED = "nvidia_peermem bound to ib_core"


def node(status, bound, required=REQUIRED, blocking=True):
    """What differs of a node whose gpudirect.peermem answers so."""
    return {"bound": bound, "peermem": check("gpudirect.peermem", status, required=required, blocking=blocking)}


BOUND = node("pass", True)
MISSING = node("fail", False)
NOT_NEEDED = node("not_applicable", False, None)
BOUND_UNASKED = node("pass", True, None)
UNREAD = node("unknown", {"unknown": "needs root"})
NEED_UNREAD = node("unknown", False)
SKIPPED = node("skipped", False)
INFORMATIVE = node("warn", False, blocking=False)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([BOUND, BOUND], ("pass", [])),
        ([BOUND], ("pass", [])),
        ([BOUND, BOUND_UNASKED], ("pass", [])),
        ([BOUND, MISSING], ("fail", ["b"])),
        # dma-buf would serve this one, but the variable that turns it off is the job's.
        ([BOUND, NOT_NEEDED, NOT_NEEDED], ("fail", ["b", "c"])),
        ([INFORMATIVE, NOT_NEEDED], ("warn", ["a", "b"])),
        ([NOT_NEEDED, NOT_NEEDED], ("not_applicable", [])),
        ([NOT_NEEDED, BOUND_UNASKED], ("not_applicable", [])),
        ([BOUND, UNREAD], ("unknown", ["b"])),
        ([BOUND, None], ("unknown", ["b"])),
        ([NOT_NEEDED, NEED_UNREAD], ("unknown", ["b"])),
        ([NOT_NEEDED, SKIPPED], ("unknown", ["b"])),
        ([BOUND, SKIPPED], ("fail", ["b"])),
        ([BOUND, MISSING, None], ("fail", ["b"])),
    ],
)
def test_peermem_is_bound_on_all_as_soon_as_one_needs_it(nodes, expected):
    rows = [dead(host) if told is None else row(host, **told) for host, told in zip("abc", nodes, strict=False)]
    fleet = fleet_readiness(rows, {item["host"]: {"deployment": "k3"} for item in rows})
    found = answers(fleet, "fleet.peermem")["deployment", "k3"]
    assert (found["status"], found["outliers"]) == expected
    if found["status"] == "fail":
        assert "NCCL_DMABUF_ENABLE=0" in found["reason"]
        assert "only once it is bound on all" in found["remedy"]["action"]
