# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The packages of before, kept for a rollback. A double of the node answers for dpkg, apt and dnf."""

from __future__ import annotations

import json
import os
import shlex

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.driver_node import rollback
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Result

OLD = {"name": "nvidia-open", "arch": "amd64", "version": "575.57.08-1"}
LIBRARY = {"name": "libcuda1", "arch": "amd64", "version": "575.57.08-1"}


class Double(Machine):
    """A test double: apt offers ``offers`` (name -> version), and dpkg-deb reads a file's text as what it says."""

    def __init__(self, offers):
        super().__init__()
        self.offers = offers
        self.asked = []

    def run(self, argv, timeout=0.0, env=None):
        self.asked.append(argv)
        if argv[0] == "dpkg-deb":
            with open(argv[2], encoding="utf-8") as handle:
                return Result(tuple(argv), 0, handle.read())
        if argv[0] == "apt-cache":
            name = argv[-1]
            return Result(tuple(argv), 0, f" {name} | {self.offers[name]} | http://x\n" if name in self.offers else "")
        if argv[0] == "sh":
            words = shlex.split(argv[2])
            wanted, _equals, version = words[-1].partition("=")
            name, arch = wanted.split(":")
            if self.offers.get(name) != version:
                return Result(tuple(argv), 100, "", f"E: Version '{version}' for '{name}' was not found")
            path = f"{words[1]}/{name}_{version.replace(':', '%3a')}_{arch}.deb"
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(f"Package: {name}\nVersion: {version}\n")
            return Result(tuple(argv))
        return Result(tuple(argv), 0, "nvidia-open\n")


def keep(folder, machine, packages, check=False):
    return rollback.keep(machine, "apt", str(folder / "575"), packages, {"to": "580.126.20"}, check)


def test_every_package_is_kept_with_a_record_that_only_root_reads(tmp_path):
    machine = Double({"nvidia-open": OLD["version"], "libcuda1": LIBRARY["version"]})
    answer = keep(tmp_path, machine, [OLD, LIBRARY])
    assert (answer["changed"], answer["complete"], answer["missing"], len(answer["files"])) == (True, True, [], 2)
    folder = tmp_path / "575"
    record = json.loads((folder / "record.json").read_text())
    assert (record["packages"], record["holds"], record["to"]) == ([OLD, LIBRARY], ["nvidia-open"], "580.126.20")
    assert (os.stat(folder).st_mode & 0o777, os.stat(folder / "record.json").st_mode & 0o777) == (0o700, 0o600)
    assert keep(tmp_path, machine, [OLD, LIBRARY])["changed"] is False


def test_a_run_that_finishes_an_interrupted_one_does_not_write_over_what_was_before(tmp_path):
    machine = Double({"nvidia-open": OLD["version"], "libcuda1": LIBRARY["version"]})
    keep(tmp_path, machine, [OLD, LIBRARY])
    assert keep(tmp_path, machine, [LIBRARY])["changed"] is False
    assert json.loads((tmp_path / "575" / "record.json").read_text())["packages"] == [OLD, LIBRARY]


def test_what_is_offered_nowhere_is_named(tmp_path):
    answer = keep(tmp_path, Double({"libcuda1": LIBRARY["version"]}), [OLD, LIBRARY])
    assert answer["complete"] is False
    assert len(answer["missing"]) == 1
    assert answer["missing"][0].startswith("nvidia-open 575.57.08-1: ")
    assert "was not found" in answer["missing"][0]


def test_a_file_that_is_another_package_does_not_count(tmp_path):
    folder = tmp_path / "575"
    folder.mkdir()
    (folder / "nvidia-open_575.57.08-1_amd64.deb").write_text("Package: nvidia-open\nVersion: 570.1\n")
    assert keep(tmp_path, Double({}), [OLD], check=True)["missing"] == [
        "nvidia-open 575.57.08-1 is offered nowhere any more"
    ]


def test_a_dry_run_fetches_nothing(tmp_path):
    machine = Double({"nvidia-open": OLD["version"]})
    answer = keep(tmp_path, machine, [OLD], check=True)
    assert (answer["changed"], answer["missing"], answer["files"]) == (True, [], [])
    assert not (tmp_path / "575").exists()
    assert not any(argv[0] == "sh" for argv in machine.asked)


def test_a_dry_run_asks_dnf_with_folders_of_its_own(tmp_path):
    class Dnf(Double):
        def run(self, argv, timeout=0.0, env=None):
            self.asked.append(argv)
            return Result(tuple(argv), 0, "3:580.95.05-1.el9\n")

    machine = Dnf({})
    package = {"name": "nvidia-open", "arch": "x86_64", "version": "3:580.95.05-1.el9"}
    assert rollback.keep(machine, "dnf", str(tmp_path / "580"), [package], {}, True)["missing"] == []
    (asked,) = machine.asked
    own = [word.split("=", 2)[1] for word in asked if word.startswith("--setopt=")]
    assert own == ["cachedir", "persistdir", "logdir"]
    assert not any("/var/" in word for word in asked)


@pytest.mark.parametrize("field", ["name", "version", "arch"])
def test_what_could_not_be_a_package_is_refused(field):
    assert rollback.valid([OLD]) == ""
    assert rollback.valid([{**OLD, field: "x; reboot"}])
