# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Equal GPUs, rails, firmware and MTU in a deployment."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import fleet_readiness
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import answers, check, dead, row

IB, SLOW, ETH = (400.0, "InfiniBand"), (200.0, "InfiniBand"), (400.0, "Ethernet")
NO_RDMA = check("rdma.ports", "not_applicable")
OPTIONAL = check("rdma.ports", observed={"rails": ["mlx5_0"]}, blocking=False)
CHOSEN = check("rdma.ports", observed={"rails": ["mlx5_0:1"]})
DOWN = check("rdma.ports", "unknown", observed={"rails": []})


def answer(check_id, nodes):
    """(status, blocking, outliers) in one deployment; ``nodes``: what differs of each from a healthy one."""
    rows = [dead(host) if told is None else row(host, **told) for host, told in zip("abcdef", nodes, strict=False)]
    fleet = fleet_readiness(rows, {item["host"]: {"deployment": "k3"} for item in rows})
    found = answers(fleet, check_id)["deployment", "k3"]
    return found["status"], found["blocking"], found["outliers"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([{}, {}], ("pass", True, [])),
        ([{}], ("pass", True, [])),
        ([{}, {}, {"gpus": ("b200",) * 7}], ("fail", True, ["c"])),
        ([{}, {}, {"gpus": ("b300",) * 8}], ("fail", True, ["c"])),
        ([{"gpus": ()}, {}, {}], ("fail", True, ["a"])),
        ([{}, {"gpus": ("h100",) * 8}], ("fail", True, ["a", "b"])),
        ([{}, {}, None], ("unknown", True, ["c"])),
        ([None], ("unknown", True, ["a"])),
    ],
)
def test_gpus(nodes, expected):
    assert answer("fleet.gpus", nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([{}, {}], ("pass", True, [])),
        ([{}, {}, {"rails": (IB,) * 7}], ("warn", True, ["c"])),
        ([{}, {}, {"rails": (SLOW,) * 8}], ("warn", True, ["c"])),
        # InfiniBand and Ethernet cannot talk to each other, where they have to.
        ([{}, {}, {"rails": (ETH,) * 8}], ("fail", True, ["c"])),
        (
            [{"ports": OPTIONAL}, {"ports": OPTIONAL}, {"ports": OPTIONAL, "rails": (ETH,)}],
            ("warn", False, ["c"]),
        ),
        # The rails are those that the node's own check chose, not every port there is.
        ([{"ports": OPTIONAL}], ("pass", False, [])),
        ([{"ports": CHOSEN, "rails": (IB, SLOW)}, {"ports": CHOSEN, "rails": (IB,)}], ("pass", True, [])),
        ([{"ports": NO_RDMA}, {"ports": NO_RDMA}], ("not_applicable", True, [])),
        ([{}, {}, {"ports": NO_RDMA}], ("warn", True, ["c"])),
        ([{}, {"ports": DOWN}], ("unknown", True, ["b"])),
        ([{}, None], ("unknown", True, ["b"])),
    ],
)
def test_rails(nodes, expected):
    assert answer("fleet.rails", nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([{}, {}], ("pass", False, [])),
        ([{}, {}, {"vbios": "97.00.00.00.01"}], ("warn", False, ["c"])),
        ([{}, {}, {"hca_firmware": "28.39.1002"}], ("warn", False, ["c"])),
        ([{}, {"hca_firmware": "28.39.1002"}], ("warn", False, ["a", "b"])),
        # A kind that only one node has is compared with nothing.
        ([{}, {"gpus": (), "rails": ()}], ("pass", False, [])),
        ([{"gpus": (), "rails": ()}], ("not_applicable", False, [])),
        ([{}, {"vbios": "N/A"}], ("unknown", False, ["b"])),
        ([{}, {"hca_firmware": None}], ("unknown", False, ["b"])),
        ([{}, None], ("unknown", False, ["b"])),
    ],
)
def test_firmware(nodes, expected):
    assert answer("fleet.firmware", nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([{}, {}], ("pass", False, [])),
        ([{}, {}, {"mtu": 1500}], ("warn", False, ["c"])),
        ([{}, {"mtu": 1500}], ("warn", False, ["a", "b"])),
        ([{}, {"mtu": None}], ("unknown", False, ["b"])),
        ([{}, None], ("unknown", False, ["b"])),
    ],
)
def test_mtu(nodes, expected):
    assert answer("fleet.mtu", nodes) == expected


def test_deployments_may_differ_from_each_other():
    rows = [row("a"), row("b", gpus=("b300",) * 8, mtu=1500, rails=(ETH,))]
    fleet = fleet_readiness(rows, {"a": {"deployment": "one"}, "b": {"deployment": "two"}})
    assert fleet["verdict"] == "ready"
