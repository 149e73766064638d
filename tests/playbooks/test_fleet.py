# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Report and gate of nodes that are ready each by itself, and not together."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import REQUIRE, healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import MadeNode
from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import LOCAL, ROOT

GATE = "Fail the node that a fleet check blames"
OWN_GATE = "Fail the node that is not ready"
ROLE = "gpufleet.kimi_k3.node_readiness"


def part(name):
    return {"ansible.builtin.import_role": {"name": ROLE, "tasks_from": name, "rolespec_validate": False}}


@pytest.fixture
def after_the_probe(play, tmp_path):
    """after_the_probe(hosts, answers, extra): probe.yml from its report on; ``answers`` stand for the probe's."""

    def run(hosts, answers, extra=None, tasks=()):
        (tmp_path / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
        answer = f"(lookup('ansible.builtin.file', '{tmp_path}/answers.json') | from_json)[inventory_hostname]"
        steps = [
            {"name": "Answer", "ansible.builtin.set_fact": {"node_readiness_result": "{{ " + answer + " }}"}},
            part("preflight"),
            {**part("report"), "vars": {"node_readiness_playbook_name": "probe"}},
            *tasks,
            part("gate"),
        ]
        playbook = [{"name": "After the probe", "hosts": "all", "gather_facts": False, "tasks": steps}]
        (tmp_path / "after.yml").write_text(yaml.safe_dump(playbook), encoding="utf-8")
        return play(str(tmp_path / "after"), hosts, extra)

    return run


@pytest.fixture(scope="module")
def tray(tmp_path_factory):
    """What the probe answers of a healthy tray."""
    node = MadeNode(healthy("gb200"), tmp_path_factory.mktemp("tray") / "root")
    return {"readiness": probe.probe(node, contract.resolve(REQUIRE), {}), "changed": False}


def mixed(tray):
    """Three trays of one rack, of which the last has loaded another driver."""
    answers = {f"tray-{number}": copy.deepcopy(tray) for number in range(3)}
    answers["tray-2"]["readiness"]["facts"]["driver"]["loaded"]["version"] = "580.65.06"
    rack = {**LOCAL, "rack": "a", "k3_nvlink_domain": "rack-{{ rack }}", "k3_deployment": "k3-a"}
    return dict.fromkeys(answers, rack), answers


def failed(run, task):
    return {host for host, result in run.results(task).items() if result["event"] == "runner_on_failed"}


def test_the_gate_fails_the_tray_that_a_fleet_check_blames_and_no_other(after_the_probe, tray):
    hosts, answers = mixed(tray)
    run = after_the_probe(hosts, answers, {"node_readiness_gate": True})
    assert run.rc == 2
    assert failed(run, OWN_GATE) == set()
    assert failed(run, GATE) == {"tray-2"}
    assert "fleet.driver (domain rack-a)" in run.results(GATE)["tray-2"]["msg"]
    report = run.report()
    jsonschema.validate(report, json.loads((ROOT / "docs" / "readiness.schema.json").read_text(encoding="utf-8")))
    assert {node["verdict"] for node in report["nodes"]} == {"ready"}
    assert (report["fleet"]["verdict"], report["fleet"]["root_cause"]) == ("not_ready", "fleet.driver")
    assert {node["place"]["domain"] for node in report["nodes"]} == {"rack-a"}


def test_without_the_gate_nobody_fails(after_the_probe, tray):
    run = after_the_probe(*mixed(tray))
    assert (run.rc, run.report()["fleet"]["verdict"]) == (0, "not_ready")


def test_a_sound_fleet_passes_the_gate(after_the_probe, tray):
    hosts, answers = mixed(tray)
    del hosts["tray-2"]
    run = after_the_probe(hosts, answers, {"node_readiness_gate": True})
    assert (run.rc, run.report()["fleet"]["verdict"]) == (0, "ready")


def test_the_filter_answers_a_playbook_as_the_report_does(after_the_probe, tray):
    hosts, answers = mixed(tray)
    declared = {host: {"deployment": "k3-a", "nvlink_domain": "rack-a"} for host in hosts}
    rows = "(lookup('ansible.builtin.file', node_readiness_report.report) | from_json).nodes"
    show = {
        "name": "Show the fleet",
        "ansible.builtin.debug": {"msg": f"{{{{ {rows} | gpufleet.kimi_k3.fleet_readiness(declared) }}}}"},
        "vars": {"declared": declared},
        "run_once": True,
    }
    run = after_the_probe(hosts, answers, tasks=[show])
    assert next(iter(run.results("Show the fleet").values()))["msg"] == run.report()["fleet"]
