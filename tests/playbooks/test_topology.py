# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""topology.yml on hosts that answer as made-up GPU nodes do, on this machine, which has no GPU, and on dead ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import jsonschema
import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import REQUIRE, healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import MadeNode
from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import DEAD, LOCAL, ROOT, Run

PROBE = "Probe the node"
OPTIONS = "Refuse wrong topology options before any node is contacted"
COMPARE = "Compare what was found with what is declared"
GATE = "Fail where declared and found are not the same"
DOMAIN = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"
TRAY = {
    "k3_nvlink_domain": DOMAIN,
    "k3_nvlink_partition": "2",
    "k3_rdma_hcas": ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"],
    "k3_data_interface": "eth0",
    "k3_gpudirect_path": "dmabuf",
}


@dataclass
class Fleet:
    """An inventory folder and what topology.yml makes of it."""

    folder: Path

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory"

    @property
    def file(self) -> Path:
        return self.inventory / "topology.yml"

    def declare(self, hosts: dict[str, dict[str, Any]]) -> None:
        """Write hosts.yml."""
        self.inventory.mkdir(exist_ok=True)
        (self.inventory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}), encoding="utf-8")

    def run(self, extra: dict[str, Any] | None = None, options: str = "", source: str = "") -> Run:
        """One run of topology.yml; ``source`` in place of the inventory folder."""
        (self.folder / "runner").mkdir(exist_ok=True)
        reports = self.folder / "reports"
        finished = ansible_runner.run(
            private_data_dir=str(self.folder / "runner"),
            project_dir=str(ROOT),
            playbook=str(ROOT / "playbooks" / "topology.yml"),
            inventory=source or str(self.inventory),
            extravars={"node_readiness_report_dir": str(reports), **(extra or {})},
            cmdline=options or None,
            envvars={
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            quiet=True,
        )
        return Run(finished.rc, list(finished.events), reports)

    def as_ansible_reads_it(self) -> dict[str, Any]:
        """`ansible-inventory --list` of the folder."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(self.inventory), "--list"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            cwd=self.folder,
        )
        return json.loads(done.stdout)


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """node(kind): host variables of a double that answers whatever module is sent to it as the probe of such a node.

    Its stand-in is the interpreter: what is under test, from the play's task on, is real.
    """

    def double(kind: str = "gb200") -> dict[str, Any]:
        folder = tmp_path_factory.mktemp(kind)
        report = probe.probe(MadeNode(healthy(kind), folder / "root"), contract.resolve(REQUIRE), {})
        (folder / "answer.json").write_text(json.dumps({"changed": False, "readiness": report}), encoding="utf-8")
        script = folder / "python"
        script.write_text(f"#!/bin/sh\ncat >/dev/null\ncat {folder}/answer.json\n", encoding="utf-8")
        script.chmod(0o755)
        return {**LOCAL, "ansible_python_interpreter": str(script)}

    return double


def comparison(run: Run) -> dict[str, Any]:
    report = json.loads((run.reports / "latest-topology" / "topology.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, json.loads((ROOT / "docs" / "topology.schema.json").read_text(encoding="utf-8")))
    return report


def states(run: Run) -> dict[str, dict[str, str]]:
    return {
        node["host"]: {name: cell["state"] for name, cell in node["variables"].items()}
        for node in comparison(run)["nodes"]
    }


def said(run: Run) -> str:
    return "\n".join(event["stdout"] for event in run.events)


def test_what_is_there_is_compared_with_what_is_declared_and_nothing_is_written(fleet, node):
    fleet.declare(
        {
            "gb-1": node(),
            "gb-2": {**node(), **TRAY},
            "gb-3": {**node(), **TRAY, "k3_nvlink_partition": 32766},
            "dead": DEAD,
        }
    )
    run = fleet.run()
    assert run.rc == 0
    found = states(run)
    assert set(found["gb-1"].values()) == {"undeclared"}
    assert set(found["gb-2"].values()) == {"same"}
    assert found["gb-3"] == {**found["gb-2"], "k3_nvlink_partition": "differs"}
    assert set(found["dead"].values()) == {"unknown"}
    assert "declared 32766, found 2" in said(run)
    assert not fleet.file.exists()
    assert not (run.reports / "latest").exists()


def test_what_was_found_is_written_and_the_second_run_changes_nothing(fleet, node):
    fleet.declare({"gb-1": node(), "gb-2": node(), "dead": DEAD, "here": LOCAL})
    first = fleet.run({"topology_write": True})
    assert (first.rc, first.results(COMPARE)[next(iter(first.results(COMPARE)))]["changed"]) == (0, True)
    text = fleet.file.read_text(encoding="utf-8")
    assert f"+      k3_nvlink_domain: {DOMAIN}" in said(first)
    assert "#   dead: not seen" in text
    inventory = fleet.as_ansible_reads_it()
    for host in ("gb-1", "gb-2"):
        assert {name: inventory["_meta"]["hostvars"][host][name] for name in TRAY} == TRAY
    assert not set(TRAY) & set(inventory["_meta"]["hostvars"]["dead"])
    groups = [name for name in inventory if name.startswith("domain_")]
    assert len(groups) == 1
    assert sorted(inventory[groups[0]]["hosts"]) == ["gb-1", "gb-2"]

    second = fleet.run({"topology_write": True})
    assert [result["changed"] for result in second.results(COMPARE).values()] == [False]
    assert fleet.file.read_text(encoding="utf-8") == text
    assert sorted(path.name for path in fleet.inventory.iterdir()) == ["hosts.yml", "topology.yml"]
    assert {state for host in ("gb-1", "gb-2") for state in states(second)[host].values()} == {"same"}


def test_check_mode_shows_the_difference_and_writes_nothing(fleet, node):
    fleet.declare({"gb-1": node()})
    run = fleet.run({"topology_write": True}, "--check --diff")
    assert run.rc == 0
    assert [result["changed"] for result in run.results(COMPARE).values()] == [True]
    assert said(run).count(f"+      k3_nvlink_domain: {DOMAIN}") == 1
    assert not fleet.file.exists()


def test_a_node_that_is_not_seen_keeps_what_the_file_declares_and_so_does_one_outside_the_limit(fleet, node):
    fleet.declare({"gb-1": node(), "gb-2": node(), "gb-3": node()})
    fleet.run({"topology_write": True})
    fleet.declare({"gb-1": {**node("b200")}, "gb-2": DEAD, "gb-3": node()})
    run = fleet.run({"topology_write": True}, "--limit gb-1,gb-2")
    assert run.rc == 0
    hostvars = fleet.as_ansible_reads_it()["_meta"]["hostvars"]
    assert hostvars["gb-2"]["k3_nvlink_partition"] == hostvars["gb-3"]["k3_nvlink_partition"] == "2"
    # A tray that now is an HGX node: what it has is new, and what it no longer has is for a person to take out.
    assert len(hostvars["gb-1"]["k3_rdma_hcas"]) == 8
    assert hostvars["gb-1"]["k3_nvlink_domain"] == DOMAIN
    assert "gb-1: declared, and not there: k3_nvlink_domain, k3_nvlink_partition" in fleet.file.read_text()
    # The old file is kept, and Ansible does not take it for an inventory.
    assert len(list(fleet.inventory.glob("topology.yml.*.bak"))) == 1


def test_what_is_declared_elsewhere_is_not_written_and_a_place_that_overrules_the_file_is_told(fleet, node):
    fleet.declare({"gb-1": {**node(), "k3_data_interface": "bond0"}})
    fleet.run({"topology_write": True})
    assert "k3_data_interface:" not in fleet.file.read_text(encoding="utf-8")
    (fleet.inventory / "host_vars").mkdir()
    (fleet.inventory / "host_vars" / "gb-1.yml").write_text("k3_nvlink_partition: '7'\n", encoding="utf-8")
    run = fleet.run({"topology_write": True})
    assert comparison(run)["conflicts"] == [
        {"host": "gb-1", "variable": "k3_nvlink_partition", "file": "2", "used": "7"}
    ]
    assert "k3_nvlink_partition of gb-1 is 2 in" in said(run)


def test_a_file_that_ansible_does_not_read_is_told(fleet, node):
    fleet.declare({"gb-1": node()})
    run = fleet.run({"topology_write": True}, source=str(fleet.inventory / "hosts.yml"))
    assert run.rc == 0
    assert fleet.file.exists()
    assert "give it with -i as well" in said(run)


def test_a_node_that_only_the_file_still_names_is_told(fleet, node):
    fleet.declare({"gb-1": node(), "gone.invalid": node()})
    fleet.run({"topology_write": True})
    fleet.declare({"gb-1": node()})
    run = fleet.run()
    rows = {row["host"]: row for row in comparison(run)["nodes"]}
    assert f"take it out of {fleet.file}" in rows["gone.invalid"]["reason"]


@pytest.mark.parametrize(
    ("declared", "rc"),
    [(TRAY, 0), ({**TRAY, "k3_nvlink_partition": "1"}, 2), ({}, 2)],
    ids=["the same", "different", "nothing declared"],
)
def test_the_gate_fails_the_run_after_the_report(fleet, node, declared, rc):
    fleet.declare({"gb-1": {**node(), **declared}})
    run = fleet.run({"topology_gate": True})
    assert run.rc == rc
    assert comparison(run)["summary"]["nodes"] == 1
    assert bool([result for result in run.results(GATE).values() if result["event"] == "runner_on_failed"]) is bool(rc)


def test_the_gate_does_not_take_a_node_that_is_not_seen_for_one_that_is_right(fleet, node):
    fleet.declare({"gb-1": {**node(), **TRAY}, "dead": {**DEAD, **TRAY}})
    run = fleet.run({"topology_gate": True})
    assert run.rc == 2
    assert "could not be read (dead: k3_nvlink_domain" in said(run)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"topology_write": "maybe"}, "topology_write: 'maybe' is not allowed; allowed: true or false"),
        ({"topology_wirte": True}, "did you mean topology_write"),
        ({"topology_write": True, "topology_file": "/"}, "it is a folder"),
        ({"topology_write": True, "topology_file": "HOSTS"}, "was not written by this playbook"),
    ],
)
def test_wrong_input_is_refused_before_any_node_is_contacted(fleet, node, extra, words):
    fleet.declare({"gb-1": node(), "dead": DEAD})
    hosts = fleet.inventory / "hosts.yml"
    before = hosts.read_bytes()
    run = fleet.run({name: str(hosts) if value == "HOSTS" else value for name, value in extra.items()})
    assert run.rc == 2
    assert words in next(iter(run.results(OPTIONS).values()))["msg"]
    assert not run.started(PROBE)
    assert hosts.read_bytes() == before


def test_an_empty_inventory_is_an_error(fleet):
    fleet.declare({})
    run = fleet.run()
    assert run.rc == 2
    assert "holds no host" in run.results("Refuse an inventory without hosts")["localhost"]["msg"]


def test_a_node_without_python_is_a_row_and_its_values_stay_undeclared(fleet, node):
    fleet.declare({"gb-1": node(), "bare": {**LOCAL, "ansible_python_interpreter": "/nowhere/python3"}})
    run = fleet.run({"topology_write": True})
    assert run.rc == 0
    bare = next(row for row in comparison(run)["nodes"] if row["host"] == "bare")
    assert (bare["seen"], {cell["state"] for cell in bare["variables"].values()}) == (None, {"unknown"})
    assert "no usable Python" in bare["reason"]
    assert not set(TRAY) & set(fleet.as_ansible_reads_it()["_meta"]["hostvars"]["bare"])


def test_what_gpu_fabric_told_serves_where_the_probe_cannot_run(fleet, node):
    told = {"k3_nvlink_domain": DOMAIN, "k3_nvlink_partition": "2", "k3_rdma_hcas": ["mlx5_0"]}
    # As the plugin leaves it in the inventory.
    plugin = {**told, "gpu_fabric": {**told, "gpu_count": 4, "unknown": {"k3_data_interface": "not asked"}}}
    fleet.declare({"gb-1": {**node(), **plugin}, "bare": {**DEAD, **plugin}})
    run = fleet.run({"topology_write": True})
    rows = {row["host"]: row for row in comparison(run)["nodes"]}
    assert (rows["gb-1"]["seen"], rows["bare"]["seen"]) == ("probe", "gpu_fabric")
    assert rows["bare"]["variables"]["k3_nvlink_domain"]["state"] == "undeclared"
    file = yaml.safe_load(fleet.file.read_text(encoding="utf-8"))["all"]
    assert file["hosts"] == {"bare": told, "gb-1": TRAY}
    assert set(states(fleet.run())["bare"].values()) == {"same", "unknown", "none"}
