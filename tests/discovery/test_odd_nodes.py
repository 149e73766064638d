# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts that hang, break off, answer something else or have no GPU: each is told, none costs the others."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.discovery import fleet
from ansible_collections.gpufleet.kimi_k3.tests.discovery.conftest import configure, listed, odd_address, plain

GOOD = "gb-r00-01"
LIMITS = {
    "connect_timeout": 3,
    "banner_timeout": 2,
    "auth_timeout": 3,
    "command_timeout": 2,
    "session_timeout": 6,
}
# What is wrong with the hosts that could not be read; each is kept, in group undiscovered.
NOT_READ = {
    "mute": "port {mute} is open, but no SSH server answered within 2 s",
    "closing": "port {closing} is open, but no SSH server answered within 2 s",
    "dead": "unreachable: no connection to 127.99.0.1 port ",
    "nameless": "unreachable: the name nameless.invalid cannot be resolved",
    "hung": "after login it gave no answer: the session's 6 s were over",
    "cut": "its answer stops in the middle, after file /sys/bus/pci/devices/",
    "garbage": "the script did not start",
    "flood": "it says more than 16 MiB",
    "menu": "what would you like to do",
}
# nvidia-smi fails on these, in its own way; what the kernel told stands.
NO_FABRIC = {
    "nosmi": "nvidia-smi is not installed",
    "hungsmi": "`nvidia-smi -q -x` gave no answer within 2 s",
    "oldsmi": "`nvidia-smi -q -x` ended with 18 and said: Failed to initialize NVML: Driver/library version mismatch",
    "hostilesmi": "`nvidia-smi -q -x` ended with 9 and said: ?[2J?]0;hostile? HF_TOKEN=********",
    "garbagesmi": "the answer of `nvidia-smi -q -x` is not XML",
    "notimeout": "not read: the session's 6 s were over",
}


@pytest.fixture(scope="module")
def mute():
    """Ports of two servers that are none: one accepts and says nothing, one accepts and closes."""
    with socket.socket() as silent, socket.socket() as closing:
        for listener in (silent, closing):
            listener.bind(("127.0.0.1", 0))
            listener.listen()

        def close_each():
            while True:
                try:
                    closing.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=close_each, daemon=True).start()
        yield {"mute": silent.getsockname()[1], "closing": closing.getsockname()[1]}
        closing.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def found(servers, mute, tmp_path_factory):
    """All of them in one run; what it took is among what it answered."""
    folder = tmp_path_factory.mktemp("odd")
    hosts = {GOOD: "127.77.0.1", **{name: odd_address(name) for name in fleet.odd_nodes()}}
    hosts.update(mute="127.0.0.1", closing="127.0.0.1", dead="127.99.0.1", nameless="nameless.invalid")
    ports = {"mute": mute["mute"], "closing": mute["closing"], "dead": 1}
    names = [f"{name}:{ports[name]}" if name in ports else name for name in hosts]
    began = time.monotonic()
    answer = listed(configure(folder, servers, hosts, {**LIMITS, "hosts": names}))
    answer.inventory["took"] = time.monotonic() - began
    return answer


def test_the_run_ends_well_within_the_limits_of_one_host(found):
    assert found.rc == 0
    # Three limits follow each other at most; beside each other they would make more than forty seconds.
    assert found.inventory["took"] < 30
    assert found.hosts("undiscovered") == sorted(NOT_READ)


@pytest.mark.parametrize(("host", "why"), NOT_READ.items())
def test_a_host_that_cannot_be_read_is_kept_and_told(found, mute, host, why):
    told = plain(found.variables(host))
    assert why.format(**mute) in told["gpu_fabric_error"]
    assert not set(told) & {"gpu_count", "gpu_fabric", "k3_nvlink_domain", "arch"}
    assert f"gpu_fabric: {host}: " in found.said


@pytest.mark.parametrize(("host", "why"), NO_FABRIC.items())
def test_without_an_answer_of_nvidia_smi_the_domain_is_unknown_and_the_rest_stands(found, host, why):
    told = plain(found.variables(host))
    assert told["gpu_model"] == "gb200"
    assert told["gpu_count"] == 4
    assert told["k3_rdma_hcas"] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]
    assert "k3_nvlink_domain" not in told
    assert "gpu_fabric_error" not in told
    for name in ("k3_nvlink_domain", "k3_nvlink_partition"):
        assert told["gpu_fabric"]["unknown"][name].startswith(why)
    assert f"gpu_fabric: {host}: not known: k3_nvlink_domain, k3_nvlink_partition ({why}" in found.said
    assert host in found.hosts("hw_gb200")


def test_a_host_without_a_gpu_is_no_gpu_node(found):
    told = plain(found.variables("cpu"))
    assert told["gpu_count"] == 0
    assert "gpu_model" not in told
    assert found.hosts("ungrouped") == ["cpu"]
    assert "gpu_fabric: cpu:" not in found.said


def test_what_a_host_says_reaches_no_terminal_as_it_is(found):
    assert GOOD in found.hosts("gpu_nodes")
    told = f"{found.said}{plain(found.inventory)}"
    assert not [letter for letter in found.said if not letter.isprintable()]
    assert "\\x1b" not in told
    assert "abcdefghijkl" not in told
