# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.groups import named
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import (
    MARKER,
    TopologyFile,
    TopologyFileError,
    comment,
    nameable,
    natural,
    parse,
    render,
    updated,
)

DOMAIN = "7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b"
OTHER = "0a1b2c3d-9d5f-4e08-b3a6-1c2d3e4f5a6b"
NAMES = {DOMAIN: "domain_a", OTHER: "domain_b"}


def file_of(values, notes=None, old=None):
    return updated(old or TopologyFile(), values, notes or {}, NAMES)


def test_what_was_found_is_an_inventory_in_natural_order_and_can_be_read_back():
    file = file_of(
        {
            "gb-10": {"k3_nvlink_domain": DOMAIN, "k3_nvlink_partition": "32766"},
            "gb-9": {"k3_nvlink_domain": DOMAIN, "k3_rdma_hcas": ["mlx5_0", "mlx5_1:1"]},
        },
        {"gb-11": "not seen"},
    )
    file.changed = "2026-11-30T21:00:00Z"
    text = render(file)
    assert text.startswith(MARKER + "\n")
    assert yaml.safe_load(text) == {
        "all": {
            "hosts": {
                "gb-9": {"k3_nvlink_domain": DOMAIN, "k3_rdma_hcas": ["mlx5_0", "mlx5_1:1"]},
                "gb-10": {"k3_nvlink_domain": DOMAIN, "k3_nvlink_partition": "32766"},
            },
            "children": {"nvlink_domains": {"children": {"domain_a": {"hosts": {"gb-9": {}, "gb-10": {}}}}}},
        }
    }
    assert text.index("gb-9:") < text.index("gb-10:")
    assert "#   gb-11: not seen\n" in text
    again = parse(text)
    assert (render(again), again.notes, again.changed) == (text, {"gb-11": "not seen"}, file.changed)


def test_the_same_list_of_many_hosts_is_written_out_for_each():
    rails = ["mlx5_0", "mlx5_1"]
    text = render(file_of({"a": {"k3_rdma_hcas": rails}, "b": {"k3_rdma_hcas": rails}}))
    assert text.count("k3_rdma_hcas: [mlx5_0, mlx5_1]") == 2


@pytest.mark.parametrize("name", ["on", "1_000", "0x1f", "2026-01-01", "null", "~x", "1e3", "12"])
def test_a_name_that_yaml_could_take_for_something_else_stays_a_name(name):
    text = render(file_of({name: {"k3_data_interface": name}}))
    assert yaml.safe_load(text)["all"]["hosts"] == {name: {"k3_data_interface": name}}


@pytest.mark.parametrize(
    ("name", "right"), [("gb-1", True), ("fe80::1", True), ("a.b.c", True), ("gb-1:22", False), ("gb-[1:3]", False)]
)
def test_a_name_that_ansible_would_read_as_a_port_or_a_range_is_told(name, right):
    assert nameable(name) is right


def test_what_a_person_put_into_the_file_is_kept():
    old = parse(
        f"{MARKER}\n"
        "all:\n"
        "  hosts:\n"
        "    a: {k3_rail_isolated: true, k3_nvlink_domain: " + DOMAIN + "}\n"
        "    gone:\n"
        "  children:\n"
        "    nvlink_domains:\n"
        "      children: {domain_mine: {hosts: {a: {rack_unit: 7}}, vars: {pdu: left}}}\n"
        "      vars: {cooling: liquid}\n"
        "    racks: {children: {domain_mine: {}}}\n"
        "  vars: {site: north}\n"
    )
    data = file_of({"a": {"k3_nvlink_partition": "2"}}, old=old).data
    assert data["all"]["hosts"]["a"] == {
        "k3_rail_isolated": True,
        "k3_nvlink_domain": DOMAIN,
        "k3_nvlink_partition": "2",
    }
    assert "gone" in data["all"]["hosts"]
    assert data["all"]["children"] == {
        "nvlink_domains": {
            "children": {"domain_mine": {"hosts": {"a": {"rack_unit": 7}}, "vars": {"pdu": "left"}}},
            "vars": {"cooling": "liquid"},
        },
        "racks": {"children": {"domain_mine": {}}},
    }
    assert data["all"]["vars"] == {"site": "north"}


def members(file):
    return {name: list(group["hosts"]) for name, group in file.domains.items()}


def test_a_node_that_moved_is_in_its_new_domain_alone_and_the_others_stay():
    first = file_of({name: {"k3_nvlink_domain": DOMAIN} for name in ("a", "b")})
    moved = file_of({"a": {"k3_nvlink_domain": OTHER}}, old=first)
    assert members(moved) == {"domain_a": ["b"], "domain_b": ["a"]}
    both = file_of({name: {"k3_nvlink_domain": OTHER} for name in ("a", "b")}, old=first)
    assert members(both) == {"domain_b": ["a", "b"]}
    gone = updated(first, {}, {})
    assert members(gone) == members(first)


def test_a_host_that_a_person_put_into_a_domain_group_stays_there():
    first = file_of({"a": {"k3_nvlink_domain": DOMAIN}})
    first.domains["domain_a"]["hosts"]["mine"] = {}
    assert members(file_of({"a": {"k3_nvlink_partition": "1"}}, old=first)) == {"domain_a": ["a", "mine"]}


def test_a_name_that_a_domain_has_in_the_file_stays_and_else_its_hosts_give_it_one():
    made = updated(TopologyFile(), {"gb-r07-1": {"k3_nvlink_domain": DOMAIN}}, {})
    assert members(made) == {"domain_gb_r07_7b1e4c2a": ["gb-r07-1"]}
    more = {"x1": {"k3_nvlink_domain": DOMAIN}, "x2": {"k3_nvlink_domain": DOMAIN}, "x3": {"k3_nvlink_domain": OTHER}}
    later = updated(made, more, {}, {DOMAIN: "domain_other"})
    assert members(later) == {"domain_gb_r07_7b1e4c2a": ["gb-r07-1", "x1", "x2"], "domain_x_0a1b2c3d": ["x3"]}


def test_two_domains_are_never_one_group():
    first = file_of({"a": {"k3_nvlink_domain": DOMAIN}})
    both = updated(first, {"b": {"k3_nvlink_domain": OTHER}}, {}, {OTHER: "domain_a"})
    assert members(both) == {"domain_a": ["a"], "domain_b_0a1b2c3d": ["b"]}
    # A rack that was set up anew has another clusterUuid, and keeps its name where it has one.
    anew = updated(first, {"a": {"k3_nvlink_domain": OTHER}}, {}, {OTHER: "domain_a"})
    assert members(anew) == {"domain_a": ["a"]}


@pytest.mark.parametrize("name", ["all", "domain a", "domain_a\n  evil:", "rack", "domain_{{ x }}"])
def test_a_group_name_that_is_no_domains_gives_no_name(name):
    assert named({name: ["a"]}, {"a": DOMAIN}) == {}


def test_a_group_over_several_domains_names_none():
    groups = {"domain_both": ["a", "b"], "domain_a": ["a", "unknown"], "domain_z": ["a"]}
    assert named(groups, {"a": DOMAIN, "b": OTHER, "unknown": None}) == {DOMAIN: "domain_a"}


def test_notes_of_hosts_that_were_not_asked_stay_and_of_the_others_are_new():
    old = TopologyFile(notes={"a": "not seen", "b": "not seen"})
    assert file_of({}, {"a": None, "c": "it has no GPU"}, old).notes == {"b": "not seen", "c": "it has no GPU"}


def test_a_note_cannot_end_its_comment():
    assert comment("x\n  evil: true\r\u2028y\x85z\x1b[2J") == "x evil: true \\u2028y\\x85z?[2J"
    hostile = TopologyFile(notes={"a": "x\n  evil: true\u2028---\n\x1b[2J"})
    assert yaml.safe_load(render(hostile)) == {"all": {"hosts": {}}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("all: {}\n", "not written by this playbook"),
        ("", "not written by this playbook"),
        (f"---\n{MARKER}\n", "not written by this playbook"),
        (f"{MARKER}\n- a\n", "form of an inventory"),
        (f"{MARKER}\nall: [a]\n", "form of an inventory"),
        (f"{MARKER}\nall: {{hosts: [a]}}\n", "form of an inventory"),
        (f"{MARKER}\nall: {{hosts: {{1: {{}}}}}}\n", "form of an inventory"),
        (f"{MARKER}\nall: {{hosts: {{a: 1}}}}\n", "form of an inventory"),
        (f"{MARKER}\nall: {{children: [domain_a]}}\n", "form of an inventory"),
        (f"{MARKER}\nall: {{children: {{nvlink_domains: {{children: {{domain_a: x}}}}}}}}\n", "form of an inventory"),
        (f"{MARKER}\nall: {{children: {{nvlink_domains: {{children: {{d: {{hosts: [a]}}}}}}}}}}\n", "form of an inv"),
        (f"{MARKER}\nall: {{vars: {{x: !vault y}}}}\n", "plain YAML"),
        (f"{MARKER}\nall: {{vars: &a [*a]}}\n", "plain YAML"),
        (f"{MARKER}\nall: {{\n", "plain YAML"),
    ],
)
def test_a_file_that_cannot_be_carried_on_is_refused(text, words):
    with pytest.raises(TopologyFileError, match=words):
        parse(text)


def test_an_empty_body_is_a_file_without_hosts():
    assert parse(f"{MARKER}\n---\n").hosts == {}
    assert parse(f"{MARKER}\nall:\n").hosts == {}


def test_natural_order():
    assert sorted(["gb-10", "gb-9", "a", "gb", "10", "9"], key=natural) == ["9", "10", "a", "gb", "gb-9", "gb-10"]
