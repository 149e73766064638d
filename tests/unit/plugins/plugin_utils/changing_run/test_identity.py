# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The id of a run, its folder, and whether it is still at work."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.lock import RUN_ID, text_fault
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.changing_run import identity


def begin(reports, run_id="", playbook="site", process=None):
    return identity.begin(reports, playbook, run_id, process or os.getpid(), False)


@pytest.fixture
def over():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_a_run_has_a_folder_of_its_own_that_only_the_user_may_enter(tmp_path):
    run, folder, again = begin(tmp_path / "new" / "reports")
    assert RUN_ID.fullmatch(run.run_id)
    assert re.fullmatch(r"[0-9]{8}T[0-9]{6}Z-site", folder.name)
    assert not again
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "run.json").stat().st_mode) == 0o600
    assert (text_fault(run.user), text_fault(run.controller)) == ("", "")


def test_two_runs_of_one_second_have_two_folders_and_ids(tmp_path):
    runs = [begin(tmp_path) for _number in range(3)]
    assert len({folder for _run, folder, _again in runs}) == 3
    assert len({run.run_id for run, _folder, _again in runs}) == 3


def test_a_run_that_is_over_goes_on_in_its_folder(tmp_path, over):
    first, folder, _again = begin(tmp_path, process=over)
    begin(tmp_path)
    second, same, again = begin(tmp_path, first.run_id)
    assert (second.run_id, same, again) == (first.run_id, folder, True)
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["process"] == os.getpid()


def test_a_run_of_another_control_node_gets_a_folder_here(tmp_path):
    run, folder, again = begin(tmp_path, "20261130T210000Z-1a2b3c4d")
    assert (run.run_id, folder.is_dir(), again) == ("20261130T210000Z-1a2b3c4d", True, False)


def test_a_run_that_is_at_work_is_not_continued(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as busy:
        run, _folder, _again = begin(tmp_path, process=busy.pid)
        assert identity.at_work(tmp_path, {run.run_id}) == {run.run_id: busy.pid}
        with pytest.raises(identity.RunFault, match=f"still at work here as process {busy.pid}"):
            begin(tmp_path, run.run_id)
        busy.communicate()
    assert identity.at_work(tmp_path, {run.run_id}) == {}
    assert begin(tmp_path, run.run_id)[2]


def test_another_process_with_the_number_of_an_old_one_is_not_the_run(tmp_path):
    run, folder, _again = begin(tmp_path)
    file = folder / "run.json"
    kept = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**kept, "process_started": kept["process_started"] - 1}), encoding="utf-8")
    assert identity.at_work(tmp_path, {run.run_id}) == {}


def test_a_run_id_belongs_to_one_playbook(tmp_path, over):
    run, _folder, _again = begin(tmp_path, process=over)
    with pytest.raises(identity.RunFault, match="a run of playbook site, not of upgrade"):
        begin(tmp_path, run.run_id, "upgrade")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"run_id": 7}', "7"])
def test_a_file_that_is_none_of_ours_is_passed_over(tmp_path, text):
    (tmp_path / "20261130T210000Z-site").mkdir()
    (tmp_path / "20261130T210000Z-site" / "run.json").write_text(text, encoding="utf-8")
    assert identity.find(tmp_path, "20261130T210000Z-1a2b3c4d") is None


@pytest.mark.parametrize(
    ("before", "told"), [("", "root"), ("eve", "eve as root"), ("root", "root"), ("e\x1bve", "root")]
)
def test_the_user_is_told_with_who_it_was_before_sudo(monkeypatch, before, told):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", before)
    assert identity.user() == told
