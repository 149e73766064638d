# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes whose answer is not the module's: the file that Ansible takes for their Python says what it likes."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import LOCAL

DEEP = '{"readiness": {"facts": ' + '{"a":' * 400 + "1" + "}" * 400 + "}}"


@pytest.fixture
def answering(tmp_path):
    """A host whose every module answers with this text."""

    def make(answer: str) -> dict:
        said = tmp_path / "answer.json"
        said.write_text(answer, encoding="utf-8")
        python = tmp_path / "python3"
        python.write_text(f"#!/bin/sh\ncat > /dev/null\ncat {said}\n", encoding="utf-8")
        python.chmod(0o755)
        return {**LOCAL, "ansible_python_interpreter": str(python)}

    return make


def test_a_node_sets_no_variable_by_its_answer(play, answering, tmp_path):
    chosen = {
        "node_readiness_report_dir": str(tmp_path / "elsewhere"),
        "node_readiness_gate": False,
        "k3_deployment": "x",
    }
    evil = answering(json.dumps({"ansible_facts": chosen, "changed": False, "readiness": {}}))
    run = play("probe", {"a-evil": {**evil, "node_readiness_gate": True}, "b-here": LOCAL})
    rows = {node["host"]: node for node in run.report()["nodes"]}
    assert not (tmp_path / "elsewhere").exists()
    assert rows["a-evil"]["state"] == "broken"
    assert rows["a-evil"]["place"]["deployment"] is None
    assert run.rc == 2


def test_an_answer_nested_too_deeply_is_one_broken_row(play, answering):
    run = play("probe", {"a-evil": answering(DEEP), "b-here": LOCAL})
    assert {node["host"]: node["state"] for node in run.report()["nodes"]} == {"a-evil": "broken", "b-here": "probed"}


def test_a_variable_of_a_result_in_the_inventory_breaks_no_report(play):
    run = play("probe", {"here": {**LOCAL, "node_readiness_peer_plan": "x", "node_readiness_peer_end": [1]}})
    assert [node["state"] for node in run.report()["nodes"]] == ["probed"]
