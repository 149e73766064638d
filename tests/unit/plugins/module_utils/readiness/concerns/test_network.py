# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import network
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply

HEALTHY = network.healthy("b200")
ADDR = ("ip", "-j", "addr", "show")
NFT = ("nft", "list", "ruleset")
DROPPING = """table inet filter {
\tchain input {
\t\ttype filter hook input priority filter; policy drop;
\t\tct state established accept
\t}
}
"""
DOCKER = """table ip filter {
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
"""


def with_command(argv, reply):
    return HEALTHY.plus(Profile(commands={argv: reply}))


def with_interface(**values):
    return with_command(ADDR, Reply(json.dumps([{**network.ADDRESSES[1], **values}])))


def test_a_healthy_network_passes(ask):
    checks = ask(HEALTHY)
    assert {name: checks["network." + name]["status"] for name in ("data_interface", "mtu", "firewall")} == {
        "data_interface": "pass",
        "mtu": "pass",
        "firewall": "pass",
    }
    assert checks["network.data_interface"]["observed"]["name"] == "eth0"


@pytest.mark.parametrize("values", [{"operstate": "DOWN"}, {"addr_info": []}])
def test_an_interface_that_carries_nothing_fails(ask, values):
    assert ask(with_interface(**values))["network.data_interface"]["status"] == "fail"


def test_a_declared_interface_that_is_absent_fails_by_name(ask):
    check = ask(HEALTHY, {"data_interface": "bond0"})["network.data_interface"]
    assert check["status"] == "fail"
    assert "bond0" in check["reason"]


@pytest.mark.parametrize(
    "reply", [Reply("not json"), Reply(rc=1, stderr="denied"), Reply(hang=True), Reply('{"a": 1}')]
)
def test_an_unreadable_answer_is_unknown(ask, reply):
    checks = ask(with_command(ADDR, reply))
    assert checks["network.data_interface"]["status"] == checks["network.mtu"]["status"] == "unknown"


def test_no_default_route_and_nothing_declared_fails(ask):
    profile = with_command(("ip", "-4", "-j", "route", "show", "default"), Reply("[]"))
    assert ask(profile)["network.data_interface"]["status"] == "fail"


@pytest.mark.parametrize(("least", "status"), [(9000, "pass"), (9001, "fail")])
def test_the_mtu_is_held_against_the_contract(ask, least, status):
    assert ask(HEALTHY, {"network_mtu_min": least})["network.mtu"]["status"] == status


@pytest.mark.parametrize(("ruleset", "status"), [(DROPPING, "warn"), (DOCKER, "pass")])
def test_only_input_rules_concern_the_node(ask, ruleset, status):
    assert ask(with_command(NFT, Reply(ruleset)))["network.firewall"]["status"] == status


def test_an_active_front_end_warns(ask):
    assert ask(HEALTHY.plus(Profile(units={"firewalld.service": {}})))["network.firewall"]["status"] == "warn"


def test_rules_that_need_root_are_unknown_without_it(ask):
    profile = with_command(NFT, Reply(rc=1, stderr="Operation not permitted (you must be root)"))
    check = ask(profile, machine_is_root=False)["network.firewall"]
    assert (check["status"], check["reason"]) == ("unknown", "needs root")
