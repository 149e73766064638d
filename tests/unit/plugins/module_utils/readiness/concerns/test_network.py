# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import network as concern
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


LEGACY_DROP = "-P INPUT DROP\n-A INPUT -i lo -j ACCEPT\n"
OPEN = Reply("-P INPUT ACCEPT\n")
WARNING = Reply("-P INPUT ACCEPT\n", "# Warning: iptables-legacy tables present, use iptables-legacy to see them\n")


def filtered(tables, names="ip_tables_names", nft=True, **commands):
    """A node with legacy tables (None: the kernel has no list of them), and what its tools answer to ``-S INPUT``."""
    files = {"/proc/net/if_inet6": ""} if tables is None else {"/proc/net/if_inet6": "", f"/proc/net/{names}": tables}
    replies = {(tool.replace("_", "-"), "-S", "INPUT"): reply for tool, reply in commands.items()}
    return (HEALTHY if nft else HEALTHY.without_command("nft")).plus(Profile(files=files, commands=replies))


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        (filtered("filter\nnat\n", iptables=Reply(LEGACY_DROP)), "warn"),
        (filtered("filter\n", iptables_legacy=Reply(LEGACY_DROP), iptables=OPEN), "warn"),
        (filtered("filter\n", "ip6_tables_names", ip6tables=Reply(LEGACY_DROP)), "warn"),
        (filtered("filter\n", iptables=OPEN), "pass"),
        (filtered("filter\n", iptables=WARNING), "unknown"),
        (filtered("filter\n", iptables=Reply(rc=3, stderr="iptables: no such module")), "unknown"),
        (filtered("filter\n"), "unknown"),
        (filtered("\x00\xff\x1b[2J"), "unknown"),
        (filtered("nat\n"), "pass"),
        (filtered(""), "pass"),
        (filtered(None, nft=False, iptables=Reply(LEGACY_DROP)), "warn"),
        (filtered(None, nft=False, iptables=OPEN, ip6tables=Reply(LEGACY_DROP)), "warn"),
        (filtered("filter\n", nft=False, iptables_legacy=OPEN, iptables=Reply(LEGACY_DROP)), "warn"),
        (filtered("filter\n", nft=False), "unknown"),
        (filtered(None, nft=False), "pass"),
    ],
)
def test_nft_does_not_speak_for_the_legacy_tables(ask, profile, status):
    assert ask(profile)["network.firewall"]["status"] == status


def test_an_unreadable_list_of_legacy_tables_is_unknown(ask):
    profile = HEALTHY.plus(Profile(folders={"/proc/net/ip_tables_names"}))
    assert ask(profile)["network.firewall"]["status"] == "unknown"
    # iptables may be the variant that writes to nft.
    assert (
        ask(profile.plus(Profile(commands={("iptables", "-S", "INPUT"): OPEN})))["network.firewall"]["status"]
        == "unknown"
    )


def test_iptables_is_not_asked_where_no_legacy_table_can_be(make_node):
    node = make_node(filtered(None, iptables=OPEN, ip6tables=OPEN))
    concern.collect(node)
    assert not [argv for argv in node.asked if argv[0].startswith("ip") and argv[0] != "ip"]
