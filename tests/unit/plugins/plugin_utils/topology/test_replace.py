# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.replace import replace

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)
KEPT = "topology.yml.20261130T210000Z.bak"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_rights_of_any_new_file(tmp_path):
    (tmp_path / "other").touch()
    file = tmp_path / "topology.yml"
    assert replace(file, "new\n", WHEN) is None
    assert file.read_text() == "new\n"
    assert file.stat().st_mode == (tmp_path / "other").stat().st_mode
    assert names(tmp_path) == ["other", "topology.yml"]


def test_the_old_file_is_kept_and_its_rights_go_on(tmp_path):
    file = tmp_path / "topology.yml"
    file.write_text("old\n")
    file.chmod(0o640)
    assert replace(file, "new\n", WHEN) == tmp_path / KEPT
    assert replace(file, "newer\n", WHEN).name == "topology.yml.20261130T210000Z.1.bak"
    assert [(tmp_path / name).read_text() for name in names(tmp_path)] == ["newer\n", "new\n", "old\n"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_the_owner_stays(tmp_path):
    file = tmp_path / "topology.yml"
    file.write_text("old\n")
    os.chown(file, 12345, 12346)
    replace(file, "new\n", WHEN)
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 12346)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "t.yml").write_text("old\n")
    (tmp_path / "topology.yml").symlink_to("real/t.yml")
    replace(tmp_path / "topology.yml", "new\n", WHEN)
    assert (tmp_path / "topology.yml").is_symlink()
    assert (tmp_path / "real" / "t.yml").read_text() == "new\n"


def test_without_hard_links_the_old_file_is_kept_all_the_same(tmp_path, monkeypatch):
    file = tmp_path / "topology.yml"
    file.write_text("old\n")

    def refuse(source, target):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    assert replace(file, "new\n", WHEN).read_text() == "old\n"
    assert replace(file, "newer\n", WHEN).read_text() == "new\n"


@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
def test_an_error_half_way_leaves_the_old_file_and_nothing_unfinished(tmp_path, monkeypatch, step):
    file = tmp_path / "topology.yml"
    file.write_text("old\n")

    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    if step == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    if step == "link":
        monkeypatch.setattr("shutil.copy2", fail)
    with pytest.raises(OSError, match="No space left"):
        replace(file, "new\n", WHEN)
    assert file.read_text() == "old\n"
    assert set(names(tmp_path)) <= {"topology.yml", KEPT}


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_kill_half_way_leaves_the_old_file(tmp_path, step):
    file = tmp_path / "topology.yml"
    file.write_text("old\n")
    program = (
        "import os, signal, sys, datetime, pathlib\n"
        f"os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.replace import replace\n"
        "replace(pathlib.Path(sys.argv[1]), 'new', datetime.datetime.now(datetime.UTC))\n"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == -signal.SIGKILL
    assert file.read_text() == "old\n"
    # What is left has a name that Ansible does not read as an inventory.
    assert all(name.startswith(".") for name in names(tmp_path) if name != "topology.yml")
