# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The table of many nodes, and what it says of the fleet."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.terminal import table
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import RACK_A, check, dead, row

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)
SCREEN = 160


def remedy(action, **others):
    names = ("command", "role", "entry_point", "playbook", "tag")
    return {"action": action, "disruptive": "none", **dict.fromkeys(names), **others}


def failing(host, cause="driver.branch", action="Upgrade the driver.", also=(), **others):
    """A node with one root cause, and further failing checks beside it."""
    cure = remedy(action, **others)
    node = {
        **row(host, verdict="not_ready"),
        "root_cause": cause,
        "reason": f"{cause} fails on {host}.",
        "remedy": cure,
    }
    node["checks"] = [{**check(name, "fail"), "remedy": cure} for name in (cause, *also)]
    return node


def degraded(host, cause="host.uptime"):
    node = row(host, verdict="degraded")
    node["checks"] = [{**check(cause, "warn"), "remedy": remedy("Reboot soon.")}]
    return node


def shown(rows, declared=None):
    return table(document(rows, "probe", WHEN, "0.2.0", declared))


def test_no_node_is_one_line():
    assert shown([]).splitlines() == [
        "Kimi K3 readiness of 0: 0 ready, 0 degraded, 0 not ready",
        "NODE  VERDICT    ROOT CAUSE  FAILING CHECKS",
    ]


@pytest.mark.parametrize("count", [1, 20])
def test_as_many_as_fit_are_told_in_full(count):
    text = shown([failing(f"n{number:02}") for number in range(count)])
    assert text.count("Upgrade the driver.") == count
    assert text.splitlines()[1].startswith("NODE ")
    assert "Not listed" not in text


def test_more_are_counted_by_cause_first_each_cure_told_once():
    rows = [failing(f"n{number:02}") for number in range(12)]
    rows += [failing(f"m{number}", "gpu.ecc", "Replace the GPU.", command="nvidia-smi -r") for number in range(3)]
    rows += [degraded("d"), *(dead(f"x{number}") for number in range(5))]
    text = shown(rows)
    lines = text.splitlines()
    assert lines[1].split() == ["CAUSE", "VERDICT", "NODES", "FOR", "EXAMPLE"]
    assert [" ".join(line.split()) for line in lines[2:] if " and " in line or line.startswith(("gpu", "host"))][
        :4
    ] == [
        "driver.branch NOT READY 12 n00, n01, n02 and 9 more",
        "unreachable NOT READY 5 x0, x1, x2 and 2 more",
        "gpu.ecc NOT READY 3 m0, m1, m2",
        "host.uptime (warn) degraded 1 d",
    ]
    for cure in ("Upgrade the driver.", "Replace the GPU.", "Make the node answer", "nvidia-smi -r"):
        assert text.count(cure) == 1, cure


def test_the_worst_come_first_and_the_rest_is_counted():
    rows = [failing(f"n{number:04}") for number in range(100)] + [dead(f"x{number:04}") for number in range(100)]
    rows += [row(f"r{number:04}") for number in range(1799)]
    rows.append(failing("worst", also=("gpu.ecc", "gpu.count")))
    lines = shown(rows).splitlines()
    assert len(lines) < SCREEN
    assert "The worst 20 of 201 nodes that are not ready or degraded" in lines
    table_of_nodes = lines[lines.index("The worst 20 of 201 nodes that are not ready or degraded") + 2 :]
    hosts = [line.split()[0] for line in table_of_nodes if "NOT READY" in line]
    assert hosts == ["worst", *(f"n{number:04}" for number in range(19))]
    assert lines[-1] == "Not listed: 181 not ready, 1799 ready. readiness.html and readiness.json hold every node."


def test_many_nodes_that_are_all_ready_are_few_lines():
    assert shown([row(f"n{number}") for number in range(21)]).splitlines() == [
        "Kimi K3 readiness of 21: 21 ready, 0 degraded, 0 not ready",
        "Not listed: 21 ready. readiness.html and readiness.json hold every node.",
    ]


def test_nodes_of_one_cause_that_need_another_cure_say_so():
    rows = [failing(f"n{number:02}") for number in range(20)] + [failing("z", action="Ask the vendor.")]
    text = shown(rows)
    assert "another one for 1 of them" in text


def test_a_cure_that_was_told_does_not_hide_what_is_run_for_one_node():
    playbook = "gpufleet.kimi_k3.site"
    text = shown([failing(f"n{number:02}", playbook=playbook) for number in range(21)])
    assert text.count("Upgrade the driver.") == 1
    assert text.count(f"ansible-playbook {playbook} --limit n") == 20


def test_a_fleet_check_names_its_nodes_why_and_the_cure():
    rows = [row(f"tray-{number:02}", domain=RACK_A) for number in range(17)]
    rows.append(row("tray-17", domain=RACK_A, driver="580.159.04"))
    declared = {item["host"]: {"nvlink_domain": "rack-a", "deployment": "k3"} for item in rows}
    lines = shown(rows, declared).splitlines()
    assert lines[1].startswith("Fleet checks: 1 fail, ")
    assert lines[3].split() == ["fleet.driver", "FAIL", "domain", "rack-a", "tray-17"]
    assert "580.159.04 on tray-17, while 17 of 18 nodes have 580.126.20" in " ".join(
        lines[4].split() + lines[5].split()
    )
    assert any(line.strip().startswith("cure") and "whole rack" in line for line in lines)


def test_fleet_checks_that_pass_are_a_count_and_the_cure_of_many_is_told_once():
    rows = [row(f"n{number}", mtu=1500 if number % 2 else 9000) for number in range(8)]
    declared = {item["host"]: {"deployment": f"k3-{number // 2}"} for number, item in enumerate(rows)}
    text = shown(rows, declared)
    assert "Fleet checks: 4 warn, 16 pass" in text
    assert text.count("Set one MTU on the data interfaces") == 1
    passing = {item["host"]: {"deployment": "k3"} for item in rows[::2]}
    assert "Fleet checks: 5 pass" in shown(rows[::2], passing)
    assert "FLEET CHECK" not in shown(rows[::2], passing)


def test_many_fleet_checks_are_a_few_of_each_and_a_count():
    rows = [row(f"n{number:03}", gpus=("b200",) * (4 + number % 2), mtu=9000 + number) for number in range(200)]
    declared = {item["host"]: {"deployment": f"k3-{number // 2}"} for number, item in enumerate(rows)}
    lines = shown(rows, declared).splitlines()
    assert [sum(line.startswith(name) for line in lines) for name in ("fleet.gpus ", "fleet.mtu ")] == [3, 3]
    assert "and 194 more fleet checks that do not pass: see readiness.html" in lines
    assert len(lines) < SCREEN


def test_what_is_unknown_only_because_nodes_did_not_answer_is_one_line():
    text = shown([row("a"), dead("b"), row("c", mtu=None)], {host: {"deployment": "k3"} for host in "abc"})
    assert "5 unknown only because nodes were not probed (b): cure those, then probe again." in text
    assert "fleet.mtu" in text
    assert "fleet.gpus" not in text


@pytest.mark.parametrize("others", [0, 30])
def test_hostile_names_and_words_are_harmless(others):
    evil = "\x1b[2Jevil\n<b>"
    rows = [failing(evil, action=f"Do {evil}."), row("a", domain=RACK_A), row(evil + "2", domain=RACK_A, driver=evil)]
    rows += [failing(f"n{number}", action=evil) for number in range(others)]
    text = shown(rows, {item["host"]: {"deployment": "k3", "nvlink_domain": evil} for item in rows})
    assert text.replace("\n", "").isprintable()
    assert all(not line.startswith("<b>") for line in text.splitlines())
