# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from datetime import UTC, datetime

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import Seen, compare
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.terminal import LINES_MAX, difference, table

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)


def shown(*rows, conflicts=(), width=110):
    return table(document(list(rows), list(conflicts), WHEN, "0.2.0"), width)


def node(host, declared=None, values=None, **seen):
    return compare(host, declared or {}, Seen(**{"by": "probe", "values": values or {}, **seen}))


def test_what_is_equal_on_many_nodes_is_one_line_and_differences_come_first():
    fleet = [node(f"gb-{n}", {}, {"k3_data_interface": "eth0"}) for n in range(1, 19)]
    fleet.append(node("gb-19", {"k3_nvlink_partition": "1"}, {"k3_nvlink_partition": "2"}))
    lines = shown(*fleet).splitlines()
    assert lines[0] == "Topology of 19, declared and found: 1 DIFFERS, 18 undeclared, 76 not there"
    assert lines[1:] == [
        "DIFFERS       k3_nvlink_partition: declared 1, found 2",
        "              on gb-19",
        "undeclared    k3_data_interface: found eth0",
        "              on gb-1, gb-2, gb-3, gb-4 and 14 more",
    ]


def test_nodes_that_were_not_seen_are_folded_by_reason_and_not_repeated_for_each_variable():
    dead = {"by": "", "reason": "unreachable: no route"}
    text = shown(node("a", **dead), node("b", **dead), node("c", by="", reason="the probe failed"))
    assert text.startswith("Topology of 3, declared and found: nothing to compare; 3 not seen\n")
    assert "not seen      a, b: unreachable: no route" in text
    assert "not seen      c: the probe failed" in text
    assert "k3_" not in text


def test_a_value_that_cannot_be_read_says_why_and_what_is_declared():
    text = shown(node("a", {"k3_nvlink_domain": "x"}, unknown={"k3_nvlink_domain": "nvidia-smi hangs"}))
    assert "not readable  k3_nvlink_domain: declared x; nvidia-smi hangs" in text


def test_a_list_is_told_with_its_length():
    row = node("a", {"k3_rdma_hcas": ["mlx5_0", "mlx5_1"]}, {"k3_rdma_hcas": ["mlx5_0"]})
    assert "declared 2 (mlx5_0, mlx5_1), found 1 (mlx5_0)" in shown(row)


def test_a_choice_that_holds_is_told_with_what_the_node_would_take():
    row = node(
        "a", {"k3_data_interface": "bond0"}, {"k3_data_interface": "eth0"}, holding=frozenset({"k3_data_interface"})
    )
    assert "declared bond0, and it holds there; by itself the node takes eth0" in shown(row)


def test_what_another_place_overrules_is_told_first():
    conflict = {"host": "a", "variable": "k3_data_interface", "file": "bond0", "used": None}
    lines = shown(node("a", {}, {"k3_data_interface": "eth0"}), conflicts=[conflict]).splitlines()
    assert lines[1].startswith("overruled     k3_data_interface of a is bond0 in the topology file, and Ansible uses")


def test_a_fleet_in_which_everything_differs_does_not_flood_the_terminal():
    rows = [node(f"n{n}", {"k3_nvlink_partition": str(n)}, {"k3_nvlink_partition": "x"}) for n in range(200)]
    lines = shown(*rows).splitlines()
    assert len(lines) == LINES_MAX + 2
    assert lines[-1] == "and 340 more lines; topology.json holds everything"


def test_hostile_texts_are_plain_text():
    text = shown(node("a", by="", reason="x\x1b]0;owned\x07\u202e password=hunter2"))
    assert text.isprintable() or set(text) - {"\n"} <= {c for c in text if c.isprintable()}
    assert "hunter2" not in text


def test_the_difference_hides_secrets_and_control_characters():
    text = difference("a\n", "a\nansible_password: hunter2\nx: \x1b[2J\n", "/srv/topology.yml")
    assert "+++ /srv/topology.yml (new)" in text
    assert "hunter2" not in text
    assert "\x1b" not in text
    assert "+ansible_password" in text
