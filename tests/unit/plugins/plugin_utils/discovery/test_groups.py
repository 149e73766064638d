# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Groups, and names of domains that stay."""

from __future__ import annotations

import itertools
import re

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.groups import domain_groups, host_groups
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.placing import WARNINGS_SHOWN, place, warnings

A, B = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b", "90aa13c4-5be2-4f0d-8c77-2f1e6d5c4b3a"
TWIN = "7b1e4c2a-0000-4e08-b3a6-1c2d3e4f5a6b"


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("gb-r07-12.example", "domain_gb_r07_7b1e4c2a"),
        ("gpu01", "domain_gpu_7b1e4c2a"),
        ("10.7.0.12", "domain_10_7_0_7b1e4c2a"),
        ("2001:db8::7:1", "domain_2001_0db8_0000_0000_0000_0000_0007_7b1e4c2a"),
        ("42", "domain_7b1e4c2a"),
        ("GB-R07-12", "domain_gb_r07_7b1e4c2a"),
        ("knoten-süd-1", "domain_knoten_s_d_7b1e4c2a"),
        ("x" * 300 + "1", f"domain_{'x' * 60}7b1e4c2a"),
    ],
)
def test_a_domain_is_named_after_its_hosts_in_the_form_of_a_group(host, name):
    assert domain_groups({A: [host]}) == {A: name}
    assert re.fullmatch("[a-z_][a-z0-9_]{0,99}", name)


def test_the_name_is_the_same_whoever_answers_and_in_whatever_order():
    hosts = [f"gb-r07-{number:02d}" for number in range(1, 19)]
    names = {domain_groups({A: some})[A] for some in itertools.combinations(hosts, 2)}
    names |= {domain_groups({B: ["other-1"], A: [host]})[A] for host in hosts}
    names.add(domain_groups({A: reversed(hosts)})[A])
    assert names == {"domain_gb_r07_7b1e4c2a"}


def test_two_domains_never_share_a_group():
    found = domain_groups({A: ["gpu1"], TWIN: ["gpu2"], B: ["gpu3"]})
    assert len(set(found.values())) == 3
    assert found[B] == "domain_gpu_90aa13c4"
    given = domain_groups({A: ["gpu1"], B: ["gpu2"]}, {B: "gpu_7b1e4c2a"})
    assert given[B] == "domain_gpu_7b1e4c2a" != given[A]


def test_a_site_names_its_domains():
    assert domain_groups({A: ["gpu1"], B: ["gpu2"]}, {A: "rack07"}) == {A: "domain_rack07", B: "domain_gpu_90aa13c4"}


def test_groups_of_a_host():
    found = {"gpu_count": 4, "gpu_model": "rtx-pro-6000", "k3_rdma_hcas": ["mlx5_0"]}
    assert host_groups(found) == ["gpu_nodes", "hw_rtx_pro_6000", "rdma"]
    assert host_groups({"gpu_count": 0}) == []


def test_hosts_are_placed_and_those_that_are_not_known_stay_in_sight():
    rack = {"gpu_count": 4, "gpu_model": "gb300", "k3_nvlink_domain": A, "unknown": {}}
    placed = place(
        {
            "gb1": {"observed": rack},
            "gb2": {"observed": {"unknown": {"gpu_count": "the bus cannot be read"}}},
            "gb3": {"error": "unreachable"},
            "gb4": {},
        },
        {},
    )
    groups = {host: entry.groups for host, entry in placed.entries.items()}
    assert groups == {
        "gb1": ["gpu_nodes", "hw_gb300", "domain_gb_7b1e4c2a"],
        "gb2": ["undiscovered"],
        "gb3": ["undiscovered"],
        "gb4": ["undiscovered"],
    }
    assert placed.parents == {"domain_gb_7b1e4c2a": "nvlink_domains"}
    assert placed.entries["gb1"].variables["gpu_fabric"] == rack
    assert "unknown" not in placed.entries["gb1"].variables
    assert [line.split(": ")[1] for line in warnings(placed, "")] == ["gb2", "gb3", "gb4"]


def test_many_warnings_fold_and_the_worst_come_first():
    half = {"gpu_count": 4, "unknown": {"k3_nvlink_domain": "hung", "k3_data_interface": "not asked by discovery"}}
    answers = {f"half{number}": {"observed": half} for number in range(30)}
    placed = place({**answers, "dead": {"error": "unreachable"}}, {})
    told = warnings(placed, "2026-12-01T00:00:00Z")
    assert len(told) == WARNINGS_SHOWN + 1
    assert told[0] == "gpu_fabric: dead: unreachable (asked at 2026-12-01T00:00:00Z, from the cache)"
    assert told[1].startswith("gpu_fabric: half0: not known: k3_nvlink_domain (hung)")
    assert told[-1].startswith(f"gpu_fabric: {31 - WARNINGS_SHOWN} more hosts")
