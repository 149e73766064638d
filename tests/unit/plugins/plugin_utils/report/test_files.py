# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import files, prometheus
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.hostile import hostile_report

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)
NAMES = {"readiness.json", "readiness.junit.xml", "readiness.prom", "readiness.html"}


def report(*verdicts):
    return document([row(f"n{number}", verdict=verdict) for number, verdict in enumerate(verdicts)], "probe", WHEN, "1")


def embedded(folder):
    """What the page tells of the difference: the groups, and what it says where there is none."""
    text = (folder / "latest" / "readiness.html").read_text(encoding="utf-8")
    data = json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    return [group["text"] for group in data["groups"]], text


def test_a_report_is_four_files_in_a_folder_of_its_own(tmp_path):
    made = report("ready")
    file = files.write(made, tmp_path, "probe", WHEN)
    assert file == tmp_path / "20261130T210000Z-probe" / "readiness.json"
    assert {path.name for path in file.parent.iterdir()} == NAMES
    assert json.loads(file.read_text(encoding="utf-8")) == made
    assert (tmp_path / "latest").readlink().name == file.parent.name


def test_the_difference_is_to_the_report_latest_pointed_to_whatever_wrote_it(tmp_path):
    files.write(report("not_ready", "ready"), tmp_path, "site", WHEN)
    files.write(report("ready", "ready"), tmp_path, "probe", WHEN)
    assert embedded(tmp_path)[0] == ["became ready"]
    files.write(report("ready", "ready"), tmp_path, "probe", WHEN)
    assert embedded(tmp_path)[0] == []


def test_an_earlier_report_that_never_ends_is_not_read(tmp_path):
    earlier = files.write(report("ready"), tmp_path, "site", WHEN)
    earlier.unlink()
    os.mkfifo(earlier)
    files.write(report("ready"), tmp_path, "probe", WHEN)
    assert "is no file of at most" in embedded(tmp_path)[1]


def test_the_first_report_says_that_there_is_none_to_compare_with(tmp_path):
    files.write(report("ready"), tmp_path, "probe", WHEN)
    assert "This is the first report in its folder" in embedded(tmp_path)[1]


@pytest.mark.parametrize("content", [None, "{", "[" * 100_000, "[]", '{"nodes": 1}', b"\xff\xfe"])
def test_an_earlier_report_that_cannot_be_read_is_named_and_stops_nothing(tmp_path, content):
    earlier = files.write(report("ready"), tmp_path, "site", WHEN)
    earlier.unlink()
    if content is not None:
        earlier.write_bytes(content if isinstance(content, bytes) else content.encode())
    files.write(report("ready"), tmp_path, "probe", WHEN)
    groups, text = embedded(tmp_path)
    assert groups == []
    assert "The earlier report, 20261130T210000Z-site, " in text


def test_a_run_that_dies_half_way_leaves_latest_as_it_was(tmp_path, monkeypatch):
    first = files.write(report("ready"), tmp_path, "probe", WHEN)

    def full(_report):
        yield "# the disk is full after this line\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(prometheus, "chunks", full)
    with pytest.raises(OSError, match="No space"):
        files.write(report("not_ready"), tmp_path, "probe", WHEN)
    assert (tmp_path / "latest").resolve() == first.parent
    assert json.loads((tmp_path / "latest" / "readiness.json").read_text(encoding="utf-8")) == report("ready")


def test_hostile_texts_can_be_written(tmp_path):
    file = files.write(hostile_report(), tmp_path, "probe", WHEN)
    for name in NAMES:
        (file.parent / name).read_text(encoding="utf-8")
