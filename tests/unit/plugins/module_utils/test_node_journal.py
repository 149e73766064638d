# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines for the journal, sent to sockets that stand in for it."""

from __future__ import annotations

import socket
import struct

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_journal import native, record

RUN = "20261130T210000Z-1a2b3c4d"


@pytest.fixture
def listening(tmp_path):
    """listening(name): a datagram socket of that name, and its path."""
    opened = []

    def listen(name):
        door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        opened.append(door)
        door.bind(str(tmp_path / name))
        return door, str(tmp_path / name)

    yield listen
    for door in opened:
        door.close()


def fields_of(content):
    """The fields of a message in the journal's own form."""
    found = {}
    while content:
        name, _line, rest = content.partition(b"\n")
        (length,) = struct.unpack("<Q", rest[:8])
        found[name.decode()] = rest[8 : 8 + length].decode()
        assert rest[8 + length : 9 + length] == b"\n"
        content = rest[9 + length :]
    return found


def test_a_line_is_found_by_its_run(listening, tmp_path):
    door, path = listening("journal")
    assert record("lock taken", RUN, path, str(tmp_path / "none")) == ("journal", "")
    fields = fields_of(door.recv(65536))
    assert (fields["MESSAGE"], fields["GPUFLEET_RUN_ID"]) == ("lock taken", RUN)
    assert fields["SYSLOG_IDENTIFIER"] == "gpufleet-kimi-k3"


def test_no_value_passes_for_another_field_and_no_secret_gets_in(listening, tmp_path):
    door, path = listening("journal")
    record("a\nPRIORITY=0\nHF_TOKEN=hf_0123456789 \x1b[31m", RUN, path, str(tmp_path / "none"))
    fields = fields_of(door.recv(65536))
    assert fields["PRIORITY"] == "6"
    assert fields["MESSAGE"] == "a PRIORITY=0 HF_TOKEN=******** ?[31m"


def test_values_keep_their_line_ends_in_the_native_form():
    assert fields_of(native({"A": "1\n2", "B": ""})) == {"A": "1\n2", "B": ""}


def test_where_there_is_no_journal_syslog_has_the_line(listening, tmp_path):
    door, path = listening("log")
    assert record("lock taken", RUN, str(tmp_path / "none"), path) == ("syslog", "")
    assert door.recv(65536) == b"<14>gpufleet-kimi-k3: lock taken"


def test_where_there_is_neither_it_is_said(tmp_path):
    place, fault = record("lock taken", RUN, str(tmp_path / "one"), str(tmp_path / "two"))
    assert place == "none"
    assert str(tmp_path / "one") in fault
    assert str(tmp_path / "two") in fault


def test_the_longest_line_still_is_one_datagram(listening, tmp_path):
    door, path = listening("journal")
    assert record("\u00fc" * 100_000, RUN, path, str(tmp_path / "none"))[0] == "journal"
    assert len(fields_of(door.recv(65536))["MESSAGE"]) <= 4000
