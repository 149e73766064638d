# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lines of the audit record, and the file they are added to."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from datetime import UTC, datetime

import pytest
from ansible.parsing.vault import VaultHelper

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit import log
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit.entry import Deed, Run, clean, entry, sentence

RUN = Run("20261130T210000Z-1a2b3c4d", "site", "ops", "ctrl-1", "/srv/reports/x")
SECRET = "s3cretValue-0123456789"


def test_a_line_says_who_what_when_before_and_after():
    deed = Deed("install the driver set", "changed", "gpu-01", {"nvidia": "575"}, {"nvidia": "580"}, become_user="root")
    line = entry(RUN, deed, datetime(2026, 11, 30, 21, 0, 0, 7000, tzinfo=UTC))
    assert line == {
        "schema": 1,
        "time": "2026-11-30T21:00:00.007Z",
        "run_id": RUN.run_id,
        "playbook": "site",
        "user": "ops",
        "controller": "ctrl-1",
        "become_user": "root",
        "node": "gpu-01",
        "role": None,
        "tags": [],
        "what": "install the driver set",
        "before": {"nvidia": "575"},
        "after": {"nvidia": "580"},
        "result": "changed",
        "check": False,
    }
    told = sentence(line)
    for words in ("install the driver set: changed", RUN.run_id, "ops on ctrl-1 as root", 'after: {"nvidia": "580"}'):
        assert words in told


@pytest.mark.parametrize(
    "value",
    [
        f"HF_TOKEN={SECRET}",
        {"password": SECRET},
        {"registry": {"auth": {"user": "x", "value": SECRET}}},
        ["vllm", "--api-key", SECRET],
        [f"--api-key={SECRET}"],
        ({"env": [f"NGC_API_KEY: {SECRET}"]},),
        {f"https://u:{SECRET}@mirror/": 1},
    ],
)
def test_a_secret_does_not_get_in(value):
    told = json.dumps(entry(RUN, Deed("change", "changed", "a", before=value, after=value)))
    assert SECRET not in told
    assert "****" in told


def test_what_came_out_of_a_vault_does_not_get_in(monkeypatch):
    monkeypatch.setattr(VaultHelper, "get_ciphertext", lambda value, with_tags: "x" if value == "plain" else None)
    assert clean({"motd": "plain", "other": "words"}) == {"motd": "********", "other": "words"}


def test_a_task_with_no_log_shows_neither_before_nor_after():
    line = entry(RUN, Deed("change", "changed", "a", before={"x": 1}, after=None, no_log=True))
    assert (line["before"], line["after"]) == ("(no_log)", "(no_log)")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (0.5, 0.5),
        (float("nan"), "nan"),
        ("a\x1b[31m", "a?[31m"),
        (b"raw", "b'raw'"),
        ({"b", "a"}, ["a", "b"]),
        ({1: ("x",)}, {"1": ["x"]}),
        ({"author": "me", "tokens": 5, "password": ""}, {"author": "me", "tokens": 5, "password": ""}),
        ({"-p": "8000"}, {"-p": "8000"}),
    ],
)
def test_values_are_told_as_they_are(value, told):
    assert clean(value) == told


def test_lines_are_added_and_only_the_user_may_read_them(tmp_path):
    for number in range(3):
        log.append(tmp_path, [{"number": number}])
    assert log.read(tmp_path) == ([{"number": 0}, {"number": 1}, {"number": 2}], 0)
    assert stat.S_IMODE((tmp_path / log.NAME).stat().st_mode) == 0o600


def add_many(folder, writer):
    """One of several writers."""
    for number in range(50):
        log.append(folder, [{"writer": writer, "number": number, "text": "x" * 5000}])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_many_writers_lose_no_line_and_tear_none(tmp_path):
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=add_many, args=(tmp_path, writer)) for writer in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines, torn = log.read(tmp_path)
    assert torn == 0
    for writer in range(8):
        assert [line["number"] for line in lines if line["writer"] == writer] == list(range(50))


def test_a_torn_line_stays_by_itself(tmp_path):
    log.append(tmp_path, [{"number": 0}])
    with (tmp_path / log.NAME).open("a", encoding="ascii") as file:
        file.write('{"number": 1, "wh')
    log.append(tmp_path, [{"number": 2}])
    assert log.read(tmp_path) == ([{"number": 0}, {"number": 2}], 1)


def test_a_link_in_the_place_of_the_record_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("", encoding="ascii")
    (tmp_path / log.NAME).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=log.NAME):
        log.append(tmp_path, [{"number": 0}])
    assert (tmp_path / "precious").read_text(encoding="ascii") == ""


def test_a_pipe_in_the_place_of_the_record_is_refused(tmp_path):
    os.mkfifo(tmp_path / log.NAME)
    with pytest.raises(OSError, match="no file"):
        log.append(tmp_path, [{"number": 0}])


@pytest.mark.parametrize("variables", [{}, {"changing_run_begun": {"failed": True}}, {"changing_run_begun": None}])
def test_nothing_is_recorded_where_no_run_has_begun(variables):
    with pytest.raises(ValueError, match="tasks_from: begin"):
        Run.begun(variables)
