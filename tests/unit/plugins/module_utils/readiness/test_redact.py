# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import plain, redact, redact_all

SECRET = "s3cretValue-0123456789"


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve --api-key {} --port 8000",
        "vllm serve --api-key={}",
        "HF_TOKEN={} vllm",
        '{{"password": "{}"}}',
        "password: '{}'",
        "Authorization: Bearer {}",
        "curl -H 'authorization: basic {}'",
        "https://user:{}@mirror/x",
        "http://:{}@mirror",
        "AWS_SECRET_ACCESS_KEY={}",
        "token hf_{}",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n",
        "NGC_API_KEY: {}",
        "registry_password={}",
        "?access_token={}&x=1",
        "x-api-key: {}",
        '{{"auth": "{}"}}',
        "https://{}@mirror.example/x",
        "http://user:p@ss:{}@proxy:3128",
        "MYSQL_PWD={}",
        "machine mirror login me password {}",
        "docker login -u me -p {} mirror",
        "AKIA0123456789ABCDEF{}",
        "eyJhbGciOiJIUzI1NiJ9.{}.c2lnbmF0dXJl",
        "ghs_{}",
        "npm_{}",
        "rd.luks.pass={} quiet",
        "AccountKey={};x",
        "https://store/x?sv=1&sig={}",
    ],
)
def test_a_secret_does_not_leave_the_node(text):
    told = redact(text.format(SECRET))
    assert SECRET not in told
    assert "****" in told


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  Release Build",
        "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
        "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64",
        "Max locked memory         8388608              8388608              bytes",
    ],
)
def test_evidence_stays_readable(text):
    assert redact(text) == text


def test_control_characters_never_reach_a_terminal():
    told = redact("a\x1b[31mred\x07\r\x00 \u202e\x9b31m\ud800")
    assert told.isprintable()
    assert "\x1b" not in told


def test_a_value_is_cut_after_redaction_never_through_a_secret():
    told = redact_all({"line": "x" * 90 + " --api-key " + SECRET}, 110)
    assert SECRET[:6] not in told["line"]
    assert len(told["line"]) <= 111


def test_structures_are_redacted_at_every_depth():
    assert SECRET not in str(redact_all([{"a": ["--token " + SECRET]}, {"--token " + SECRET: 1}, 5, None, True]))


@pytest.mark.parametrize("text", ["a" * 4000000, "key" * 1000000, "--" * 2000000, "://" * 1000000, "a.key-" * 500000])
def test_a_huge_text_is_cut_before_it_is_searched(text):
    # Searched whole, one of these takes minutes.
    assert len(redact_all(text, 600)) <= 601


@pytest.mark.parametrize("length", range(8150, 8200, 7))
def test_a_huge_text_is_not_cut_through_a_secret(length):
    masked = "--token " + "m" * length
    assert SECRET[:8] not in redact_all(f"{masked} --api-key {SECRET} and more of it " + "z" * 9000, 600)


def test_a_text_of_another_kind_is_never_given_in_the_place_of_a_plain_one():
    class Tagged(str):
        """Equal to a plain text, and yet another thing: templates trust some of Ansible's."""

        __slots__ = ()

    assert redact(Tagged("a word nobody said before")).__class__ is Tagged
    assert redact("a word nobody said before").__class__ is str


def test_a_number_that_json_does_not_have_is_told_as_a_text():
    found = redact_all({"a": [float("nan"), float("inf"), 1.5]})
    assert found == {"a": ["nan", "inf", 1.5]}


def test_a_name_that_looks_like_a_token_stays_a_name():
    assert plain("sk-bratislava-gpu01\x1b[2J") == "sk-bratislava-gpu01?[2J"
