# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import kernel_log
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply

WHOLE = "[    0.000000] Linux version 6.8.0-60-generic\n[   12.000000] nvidia: loading\n"
PART = "[500000.000000] audit: something\n"
OTHERS = "[    0.000000] kernel: Linux version 6.8.0\n[  900.000000] kernel: NVRM: Xid (PCI:0000:1b:00): 79\n"


def log(make_node, dmesg=None, journal=None, root=True):
    commands = {("dmesg",): dmesg, tuple(kernel_log.JOURNAL): journal}
    commands = {argv: reply for argv, reply in commands.items() if reply is not None}
    return kernel_log.read(make_node(Profile(commands=commands), machine_is_root=root))


@pytest.mark.parametrize("whole", [WHOLE, "<5>" + WHOLE, "Linux version 6.8\nwithout time stamps\n"])
def test_a_ring_with_its_beginning_is_enough(make_node, whole):
    found = log(make_node, Reply(whole), Reply(OTHERS))
    assert (found.source, found.complete, len(found.lines)) == ("dmesg", True, 2)


def test_a_ring_that_lost_its_beginning_is_replaced_by_the_journal(make_node):
    found = log(make_node, Reply(PART), Reply(OTHERS))
    assert (found.source, found.complete) == ("journalctl -k -b 0", True)


@pytest.mark.parametrize(
    "journal", [None, Reply(""), Reply(rc=1, stderr="no"), Reply(hang=True), Reply("-- No entries\n")]
)
def test_a_part_is_said_to_be_one(make_node, journal):
    found = log(make_node, Reply(PART), journal)
    assert (found.source, found.complete) == ("dmesg", False)


@pytest.mark.parametrize("dmesg", [None, Reply(""), Reply(rc=1, stderr="Operation not permitted"), Reply(hang=True)])
def test_silence_of_both_is_unknown(make_node, dmesg):
    assert isinstance(log(make_node, dmesg, Reply("")), Unknown)
    assert log(make_node, dmesg, Reply(rc=1, stderr="no"), root=False).reason == "needs root"


def test_an_endless_line_is_cut_before_anything_searches_it(make_node):
    found = log(make_node, Reply(WHOLE + "NVRM: Xid (PCI:" * 500000))
    assert max(len(line) for line in found.lines) == kernel_log.LINE_LIMIT


def test_xid_is_unknown_where_the_log_lost_its_beginning(ask):
    profile = healthy("b200")
    profile.kernel_log = [PART.strip()]
    assert ask(profile)["gpu.xid"]["status"] == "unknown"
    profile.kernel_log.append("[500001.000000] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")
    assert ask(profile)["gpu.xid"]["status"] in ("fail", "warn")
