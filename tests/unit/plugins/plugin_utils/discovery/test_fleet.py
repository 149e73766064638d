# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Many hosts side by side: whatever one of them does, the others are told."""

from __future__ import annotations

import threading
import time

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import HostError, last_words
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.fleet import discover, questions
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.proxy import through_command
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Address, Limits, _text

JWT = "eyJhbGciOiJSUzI1NiJ9." + "SECRETPART" * 60


def addresses(*names):
    return {name: Address(name, 22, "root", None, name, password="hidden") for name in names}


def test_errors_of_one_host_are_told_and_cost_no_other():
    def ask(address, _limits):
        if address.host == "bad":
            raise HostError("unreachable")
        if address.host == "broken":
            raise RuntimeError("token=abcdefghijkl")
        return {"gpu_count": 4}

    found = discover(addresses("a", "bad", "broken", "b"), ask, Limits(), 2, 60)
    assert list(found) == ["a", "bad", "broken", "b"]
    assert found["a"] == found["b"] == {"observed": {"gpu_count": 4}}
    assert found["bad"] == {"error": "unreachable"}
    assert found["broken"]["error"].startswith("reading it failed: RuntimeError: ")
    assert "abcdefghijkl" not in found["broken"]["error"]


def test_the_whole_discovery_ends_in_its_time_and_says_who_was_not_read():
    release = threading.Event()

    def ask(address, limits):
        if address.host != "quick":
            release.wait(60)
        return {"session": limits.session}

    began = time.monotonic()
    found = discover(addresses("quick", "hung", "waiting"), ask, Limits(session=60), 2, 2)
    release.set()
    assert found["quick"]["observed"]["session"] <= 2
    assert set(found) == {"quick", "hung", "waiting"}
    assert all("the whole discovery" in found[name]["error"] for name in ("hung", "waiting"))
    # A minute is what the hung one would have taken.
    assert time.monotonic() - began < 30


def test_no_more_hosts_than_asked_for_are_asked_at_once():
    running, most, guard = set(), [0], threading.Lock()

    def ask(address, _limits):
        with guard:
            running.add(address.host)
            most[0] = max(most[0], len(running))
        time.sleep(0.02)
        with guard:
            running.discard(address.host)
        return {}

    discover(addresses(*map(str, range(20))), ask, Limits(), 3, 60)
    assert most[0] <= 3


def test_questions_tell_hosts_and_users_apart_and_hold_no_secret():
    one = addresses("a")
    assert questions(one) == questions(addresses("a"))
    assert questions(one) != questions(addresses("b"))
    assert questions(one) != questions({"a": Address("a", 22, "operator", None, "a")})


def test_a_command_stands_for_a_connection():
    with through_command("cat") as near:
        near.sendall(b"hello")
        assert near.recv(5) == b"hello"
    with through_command("true") as near:
        assert near.recv(1) == b""


def test_what_the_command_complains_of_is_told_with_the_error():
    def fail():
        with through_command("sh -c 'echo no route >&2; echo done; exec sleep 60'") as near:
            assert near.recv(4) == b"done"
            raise HostError("no server")

    with pytest.raises(HostError, match="no server; its ProxyCommand said: no route"):
        fail()


def test_what_a_node_says_leaves_without_secrets_and_control_characters():
    why = "`nvidia-smi -q -x` ended with 9 and said: \x1b[2J \x1b]0;pwned\x07 HF_TOKEN=hf_abcdefghijkl"
    told = {"gpu_count": 4, "k3_rdma_hcas": ["mlx5_0"], "unknown": {"k3_nvlink_domain": why}}
    observed = discover(addresses("a"), lambda _address, _limits: told, Limits(), 1, 60)["a"]["observed"]
    assert observed["unknown"]["k3_nvlink_domain"].endswith("said: ?[2J ?]0;pwned? HF_TOKEN=********")
    assert {**observed, "unknown": {}} == {**told, "unknown": {}}


def test_an_error_is_redacted_before_it_is_cut():
    def ask(_address, _limits):
        raise RuntimeError("x" * 180 + f" {JWT}")

    assert "eyJ" not in discover(addresses("a"), ask, Limits(), 1, 60)["a"]["error"]


def test_an_error_of_the_library_is_redacted_before_it_is_cut():
    assert _text(ValueError("x" * 190 + f" {JWT}")).endswith("x ********")


@pytest.mark.parametrize("filler", ["", "word " * 3000, "x" * 9000 + " "])
def test_the_end_of_what_was_said_shows_no_end_of_a_secret(filler):
    said = last_words(f"{filler}Authorization: Bearer {JWT}\n\x1b[2Jbye".encode(), 160)
    assert said.endswith("Authorization: Bearer ******** ?[2Jbye")
    assert "SECRETPART" not in last_words(f"{filler}{JWT}".encode(), 160)
    assert last_words(b"x" * 100_000, 160) == ""


def test_what_the_proxy_complains_of_shows_no_end_of_a_secret():
    def fail():
        with through_command(f"sh -c 'echo token refused: {JWT} >&2; echo done; exec sleep 60'") as near:
            assert near.recv(4) == b"done"
            raise HostError("no server")

    with pytest.raises(HostError, match=r"its ProxyCommand said: token refused: \*{8}$"):
        fail()
