# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import os

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import MARKER
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.preflight import Options, is_loaded, options


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hosts.yml").write_text("all: {hosts: {a: {}}}\n")
    return tmp_path


@pytest.fixture
def ask(folder):
    """ask(variables of all hosts, sources): the options and the faults."""

    def run(variables, sources=None, extra=None):
        given = [str(folder / "hosts.yml")] if sources is None else sources
        return options({"a": variables, "b": variables}, extra or {}, given)

    return run


def test_without_a_word_nothing_is_written_and_the_file_is_beside_the_inventory(ask, folder):
    assert ask({}) == (Options(file=folder / "topology.yml"), [])
    assert ask({}, [str(folder)])[0].file == folder / "topology.yml"


@pytest.mark.parametrize("word", [True, "true", "yes", "1"])
def test_what_is_asked_for_is_answered(ask, word):
    found, faults = ask({"topology_write": word, "topology_gate": word, "topology_overwrite": word})
    assert (found.write, found.gate, found.overwrite, faults) == (True, True, True, [])


@pytest.mark.parametrize("name", ["topology_write", "topology_gate", "topology_overwrite"])
@pytest.mark.parametrize("value", ["maybe", 2, [], {"a": 1}, None, ""])
def test_neither_true_nor_false_is_refused(ask, name, value):
    assert ask({name: value})[1] == [f"{name}: {value!r} is not allowed; allowed: true or false"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("FOLDER", "it is a folder"),
        ("FOLDER/topology.txt", "Ansible reads no other"),
        ("FOLDER/topology", "Ansible reads no other"),
        ("FOLDER/.topology.yml", "does not read this one"),
        ("FOLDER/host_vars/topology.yml", "does not read this one"),
        ("FOLDER/nowhere/topology.yml", "no folder one may write to"),
        ("FOLDER/hosts.yml/topology.yml", "allowed: a file on the control node"),
        ("FOLDER/hosts.yml", "was not written by this playbook"),
        ("FOLDER/pipe.yml", "is no file"),
        ("FOLDER/bytes.yml", "allowed: a file on the control node"),
        ("FOLDER/loop.yml", "allowed: a file on the control node"),
        ("", "allowed: a file on the control node"),
        ("a\nb.yml", "allowed: a file on the control node"),
        (["a.yml"], "allowed: a file on the control node"),
        (None, ""),
    ],
)
def test_a_place_that_cannot_hold_the_file_is_refused(ask, folder, value, words):
    os.mkfifo(folder / "pipe.yml")
    (folder / "bytes.yml").write_bytes(b"\xff\xfe")
    (folder / "loop.yml").symlink_to("loop.yml")
    given = value.replace("FOLDER", str(folder)) if isinstance(value, str) else value
    faults = ask({"topology_write": True, "topology_file": given})[1]
    if words:
        assert len(faults) == 1
        assert faults[0].startswith("topology_file: ")
        assert words in faults[0]
    else:
        assert faults == []


def test_a_foreign_file_is_only_replaced_where_that_is_asked_for(ask, folder):
    variables = {"topology_write": True, "topology_file": str(folder / "hosts.yml")}
    assert "topology_overwrite=true" in ask(variables)[1][0]
    assert ask({**variables, "topology_overwrite": True})[1] == []
    # Where nothing is written, nothing is in the way.
    assert ask({**variables, "topology_write": False})[1] == []


def test_a_file_that_the_playbook_wrote_may_be_written_anew(ask, folder):
    (folder / "topology.yml").write_text(f"{MARKER}\nall: {{hosts: {{a: {{}}}}}}\n")
    assert ask({"topology_write": True})[1] == []


def test_an_inventory_that_is_no_file_has_no_place_for_it(ask):
    assert ask({}, ["a,b"]) == (Options(), [])
    assert ask({"topology_write": True}, ["a,b"])[1][0].startswith("topology_file: it is not set")


def test_one_value_for_all_hosts():
    faults = options({"a": {"topology_write": True}, "b": {"topology_write": False}}, {}, [])[1]
    assert "allowed: one value for all hosts" in faults[0]


@pytest.mark.parametrize(("name", "refused"), [("topology_wirte", True), ("topology_name", False), ("topology", False)])
def test_a_misspelt_variable_is_refused_and_somebody_elses_is_not(ask, name, refused):
    assert bool(ask({name: True})[1]) is refused
    assert bool(ask({}, extra={name: True})[1]) is refused


def test_what_the_playbook_sets_is_not_taken_from_the_command_line(ask):
    assert "the playbook sets it" in ask({}, extra={"topology_preflight": {"write": True}})[1][0]


def test_every_fault_is_told_at_once(ask):
    assert len(ask({"topology_write": "x", "topology_gate": "z", "topology_file": 3})[1]) == 3


def test_whether_ansible_reads_the_file(folder):
    file = folder / "topology.yml"
    assert is_loaded(file, [str(folder)])
    assert is_loaded(file, ["a,", str(file)])
    assert not is_loaded(file, [str(folder / "hosts.yml"), "a,"])
