# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import run_folder

WHEN = datetime(2026, 11, 1, 12, 30, 5, tzinfo=UTC)


def test_a_folder_that_is_there_is_never_taken_again(tmp_path):
    made = [run_folder.make(tmp_path / "reports", WHEN, "probe", 0o700) for number in range(3)]
    assert [folder.name for folder in made] == [
        "20261101T123005Z-probe",
        "20261101T123005Z-probe.1",
        "20261101T123005Z-probe.2",
    ]
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in made)


def test_the_link_moves_and_nothing_is_left_beside_it(tmp_path):
    for target in ("first", "second"):
        run_folder.point(tmp_path / "latest", target)
        assert (tmp_path / "latest").readlink().name == target
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]


def test_what_is_no_link_is_not_replaced_by_one(tmp_path):
    (tmp_path / "latest").mkdir()
    with pytest.raises(FileExistsError, match="latest is not a link"):
        run_folder.point(tmp_path / "latest", "first")
    assert (tmp_path / "latest").is_dir()
