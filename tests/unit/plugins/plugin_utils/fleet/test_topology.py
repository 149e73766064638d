# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import fleet_readiness
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import RACK_A, RACK_B, answers, dead, row


def fleet_of(nodes):
    """``nodes``: {host: (declared domain, observed domain, declared partition, observed partition)}, "dead" observed."""
    rows, declared = [], {}
    for host, (name, seen, part, clique) in nodes.items():
        rows.append(dead(host) if seen == "dead" else row(host, domain=seen, partition=clique))
        declared[host] = {"nvlink_domain": name, "nvlink_partition": part}
    return fleet_readiness(rows, declared)


def domains(nodes):
    """{name: (status, outliers)} of fleet.domain; ``nodes``: {host: (declared, observed)}."""
    found = answers(fleet_of({host: (*both, None, "0") for host, both in nodes.items()}), "fleet.domain")
    return {name: (check["status"], check["outliers"]) for (_kind, name), check in found.items()}


def partitions(nodes):
    """(status, outliers) of fleet.partition in one rack; ``nodes``: {host: (declared, observed)}."""
    fleet = fleet_of({host: (None, RACK_A, *both) for host, both in nodes.items()})
    check = answers(fleet, "fleet.partition")["domain", RACK_A]
    return check["status"], check["outliers"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ({"a": ("r", RACK_A), "b": ("r", RACK_A)}, {"r": ("pass", [])}),
        ({"a": ("r", RACK_A)}, {"r": ("pass", [])}),
        ({"a": (RACK_A.upper(), RACK_A), "b": (RACK_A, RACK_A)}, {RACK_A: ("pass", [])}),
        ({"a": (None, RACK_A), "b": ("", RACK_A)}, {RACK_A: ("not_applicable", [])}),
        # Two that declare one domain and observe two.
        ({"a": ("r", RACK_A), "b": ("r", RACK_B)}, {"r": ("fail", ["a"]), RACK_B: ("fail", ["b"])}),
        (
            {"a": ("r", RACK_A), "b": ("r", RACK_A), "c": ("r", RACK_B)},
            {"r": ("pass", []), RACK_B: ("fail", ["c"])},
        ),
        # One that is declared under two names.
        ({"a": ("r", RACK_A), "b": ("s", RACK_A)}, {"r": ("fail", ["a", "b"])}),
        ({"a": ("r", RACK_A), "b": ("r", RACK_A), "c": ("s", RACK_A)}, {"r": ("fail", ["c"])}),
        # A tray that moved: both racks know its place, and only the tray is blamed.
        (
            {"a": ("r", RACK_A), "b": ("r", RACK_A), "c": ("s", RACK_B), "d": ("s", RACK_B), "moved": ("r", RACK_B)},
            {"r": ("pass", []), "s": ("fail", ["moved"])},
        ),
        # A clusterUuid means itself, also where only one node declares it.
        ({"a": (RACK_B, RACK_A)}, {RACK_A: ("fail", ["a"])}),
        ({"a": (RACK_B, RACK_A), "b": (None, RACK_B)}, {RACK_A: ("fail", ["a"]), RACK_B: ("not_applicable", [])}),
        ({"a": ("r", RACK_A), "b": (None, RACK_A)}, {"r": ("warn", ["b"])}),
        ({"a": ("r", RACK_A), "b": ("r", "dead")}, {"r": ("unknown", ["b"])}),
        ({"a": ("r", "dead")}, {"r": ("unknown", ["a"])}),
        ({"a": ("r", {"unknown": "needs root"})}, {"r": ("unknown", ["a"])}),
        ({"a": ("r", None)}, {"r": ("fail", ["a"])}),
        ({"a": ("r", "not a uuid")}, {"r": ("unknown", ["a"])}),
    ],
)
def test_a_domain_is_declared_as_it_is_observed(nodes, expected):
    assert domains(nodes) == expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # 0 is a cliqueId and a declaration, also as the number that YAML makes of it.
        ({"a": (0, "0"), "b": ("0", "0")}, ("pass", [])),
        ({"a": (0, "0"), "b": (None, "0")}, ("warn", ["b"])),
        ({"a": (0, "1"), "b": (1, "1")}, ("fail", ["a"])),
        ({"a": (1, "0")}, ("fail", ["a"])),
        ({"a": (1, "1"), "b": (2, "2")}, ("pass", [])),
        ({"a": (None, "0"), "b": (None, "1")}, ("not_applicable", [])),
        ({"a": ("p", "0"), "b": ("p", "1"), "c": ("p", "1")}, ("fail", ["a"])),
        ({"a": ("p", "0"), "b": ("q", "0")}, ("fail", ["a", "b"])),
        ({"a": (0, {"unknown": "needs root"}), "b": (0, "0")}, ("unknown", ["a"])),
    ],
)
def test_a_partition_is_declared_as_it_is_observed(nodes, expected):
    assert partitions(nodes) == expected


def test_one_that_is_silent_is_held_to_the_rack_it_declares():
    fleet = fleet_of({"a": ("r", RACK_A, 0, "0"), "b": ("r", "dead", 0, None)})
    for check_id in ("fleet.domain", "fleet.partition", "fleet.driver"):
        check = answers(fleet, check_id)["domain", "r"]
        assert (check["status"], check["outliers"], check["hosts"]) == ("unknown", ["b"], ["a", "b"])


def test_the_reason_tells_who_declares_what_and_sees_what():
    fleet = fleet_of({"a": ("r", RACK_A, None, "0"), "b": ("r", RACK_A, None, "0"), "c": ("r", RACK_B, None, "0")})
    check = answers(fleet, "fleet.domain")["domain", RACK_B]
    assert check["reason"].startswith(f"k3_nvlink_domain r is declared by c, which observe clusterUuid {RACK_B}")
    assert check["evidence"][0] == {"source": "c: nvidia-smi -q -x", "line": f"declared r, observed {RACK_B}"}
