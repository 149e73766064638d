# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Answers from a cache: those of discovery count, anything else does not."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.kept import fault

OBSERVED = {
    "gpu_model": "gb300",
    "gpu_count": 4,
    "arch": "aarch64",
    "driver_version": "580.126.20",
    "k3_nvlink_domain": "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b",
    "k3_nvlink_partition": "0",
    "k3_rdma_hcas": ["mlx5_0"],
    "rdma_rate": 400,
    "rdma_link_layer": "InfiniBand",
    "unknown": {"k3_data_interface": "not asked by discovery"},
}
KEPT = {
    "questions": "0123456789abcdef",
    "when": "2026-12-01T00:00:00Z",
    "hosts": {"a": {"observed": OBSERVED}, "b": {"error": "unreachable"}},
}


def answered(answer):
    return {**KEPT, "hosts": {**KEPT["hosts"], "a": answer}}


def test_answers_of_discovery_count():
    assert fault(KEPT, ["b", "a"]) == ""
    assert fault(answered({"observed": {"unknown": {}}}), ["a", "b"]) == ""


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (None, "it is no mapping"),
        (5, "it is no mapping"),
        ([KEPT], "it is no mapping"),
        ({**KEPT, "questions": 5}, "it does not say what was asked"),
        ({name: KEPT[name] for name in ("when", "hosts")}, "it does not say what was asked"),
        ({name: KEPT[name] for name in ("questions", "hosts")}, "it does not say when"),
        ({**KEPT, "when": 5}, "it does not say when"),
        ({**KEPT, "when": "\x1b[2J"}, "it does not say when"),
        ({name: KEPT[name] for name in ("questions", "when")}, "it does not hold an answer of each host"),
        ({**KEPT, "hosts": 5}, "it does not hold an answer of each host"),
        ({**KEPT, "hosts": {"a": {"error": "x"}}}, "it does not hold an answer of each host"),
        ({**KEPT, "hosts": {**KEPT["hosts"], "c": {"error": "x"}}}, "it does not hold an answer of each host"),
    ],
)
def test_another_form_does_not(kept, why):
    assert fault(kept, ["a", "b"]).startswith(why)


@pytest.mark.parametrize(
    "answer",
    [
        5,
        {},
        {"error": 5},
        {"error": "x", "observed": OBSERVED},
        {"observed": 5},
        {"observed": {}},
        {"observed": {"unknown": 5}},
        {"observed": {"unknown": {"gpu_count": 5}}},
        {"observed": {**OBSERVED, "ansible_host": "192.0.2.1"}},
        {"observed": {**OBSERVED, "gpu_count": "4"}},
        {"observed": {**OBSERVED, "gpu_count": True}},
        {"observed": {**OBSERVED, "k3_rdma_hcas": "mlx5_0"}},
        {"observed": {**OBSERVED, "k3_rdma_hcas": [5]}},
        {"observed": {**OBSERVED, "k3_nvlink_domain": []}},
        {"observed": {**OBSERVED, "gpu_model": None}},
    ],
)
def test_an_answer_of_another_form_names_its_host(answer):
    assert fault(answered(answer), ["a", "b"]) == "the answer of a has another form"
