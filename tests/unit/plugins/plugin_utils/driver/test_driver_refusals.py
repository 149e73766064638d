# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What keeps the role off a node, and what forbids a change."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.refusals import of_change, of_headers, of_node
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.request import request
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.driver_wishes import facts, item, now, plan, table, wish

TABLE = table()
UNKNOWN = {"unknown": "needs root"}
CHANGE = plan(item("nvidia-open", None, "580.126.20-1"))


def change(node=None, today=None, planned=None, **wishes):
    wanted = wish(**{"version": "580.126.20", **wishes})
    node = node or facts()
    return of_change(node, wanted, today or now(), request(node, wanted, TABLE), planned or CHANGE, TABLE)


def test_a_healthy_idle_node_is_refused_nothing():
    assert of_node(facts(), wish(), now()) == []
    assert change() == []


@pytest.mark.parametrize("owner", ["the GPU operator's driver container", "the vendor image (Azure HPC)", UNKNOWN])
def test_a_driver_that_somebody_else_manages_is_left_alone(owner):
    node = facts()
    node["owners"]["driver"] = owner
    (said,) = of_node(node, wish(), now())
    assert said.startswith("who manages") is (owner is UNKNOWN)


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("marks", {"/usr/bin/nvidia-uninstall": True}, "runfile"),
        ("marks", {"/usr/bin/nvidia-uninstall": UNKNOWN}, "needs root"),
        ("unowned", ["/usr/lib/x86_64-linux-gnu/libcuda.so.570.124.04"], "libcuda.so.570.124.04"),
        ("unread", UNKNOWN, "package database"),
    ],
)
def test_what_no_package_owns_is_cleared_away_first(part, value, says):
    node = facts()
    node["driver"]["packages"][part] = value
    assert any(says in said for said in of_node(node, wish(), now()))


@pytest.mark.parametrize("volatile", ["it is a tmpfs", UNKNOWN])
def test_a_root_that_is_not_kept_is_refused(volatile):
    assert len(of_node(facts(), wish(), now(volatile=volatile))) == 1


@pytest.mark.parametrize(
    ("boot", "source", "refused"),
    [
        ({"secure_boot": True, "signatures_enforced": False}, "vendor", True),
        ({"secure_boot": False, "signatures_enforced": True}, "vendor", True),
        ({"secure_boot": UNKNOWN, "signatures_enforced": False}, "vendor", True),
        ({"secure_boot": None, "signatures_enforced": False}, "vendor", False),
        # Signed by Canonical: no key has to be enrolled (C19).
        ({"secure_boot": True, "signatures_enforced": False}, "distribution", False),
    ],
)
def test_secure_boot_forbids_a_module_that_is_built_on_the_node(boot, source, refused):
    node = facts()
    node["host"]["boot"] = boot
    assert bool(change(node, source=source)) is refused


def test_a_version_on_the_list_of_bad_ones_is_refused_unless_forced():
    node = facts(kernels={"running": "6.17.9-1-generic", "boot": "6.17.9-1-generic", "installed": [], "how": ""})
    (said,) = change(node, version="580.119.02")
    assert "6.17.9" in said
    assert change(node, version="580.119.02", force_version=True) == []
    assert change(version="580.119.02") == []
    mine = [{"version": "580.126.20", "reason": "our jobs hang"}]
    assert "our jobs hang" in change(known_bad=mine)[0]


def test_who_works_on_the_gpus_is_named_and_daemons_do_not_count():
    idle = [{"pid": 5, "name": "nv-fabricmanage", "unit": ""}, {"pid": 6, "name": "nvidia-persiste", "unit": ""}]
    working = {"pid": 4242, "name": "python3", "unit": "docker-0123.scope"}
    assert change(today=now(holders=idle)) == []
    (said,) = change(today=now(holders=[*idle, working]))
    assert "python3 (4242 of docker-0123.scope)" in said
    assert change(today=now(holders=[working]), idle_holders=["python3"]) == []
    assert "needs root" in change(today=now(holders=UNKNOWN))[0]


def test_a_converged_node_at_work_is_refused_nothing():
    kept = plan(item("nvidia-open", "580.126.20-1", "580.126.20-1"))
    node = facts()
    node["host"]["boot"]["secure_boot"] = True
    busy = now(holders=[{"pid": 1, "name": "vllm", "unit": ""}], room={})
    assert change(node, busy, kept) == []


def test_room_is_asked_for_where_it_is_used():
    assert [said.split()[0] for said in change(today=now(room={
        "/": {"free": 100 << 30, "mount": "/"}, "/var": UNKNOWN, "/boot": {"free": 1 << 20, "mount": "/boot"}}))] == [
        "how", "/boot"]  # fmt: skip
    small = {path: {"free": 5 << 30, "mount": path} for path in ("/", "/var", "/boot")}
    assert change(today=now(room=small)) == []
    large = plan(item("nvidia-open", None, "1"), download_bytes=6 << 30, disk_bytes=9 << 30)
    assert [said.split()[0] for said in change(today=now(room=small), planned=large)] == ["/", "/var"]


def test_headers_whose_package_is_there_without_its_files_are_not_waited_for():
    wanted = [{"kernel": "6.8.0-85-generic", "install": [{"name": "linux-headers-6.8.0-85-generic"}]}]
    assert of_headers(wanted, [plan(item("linux-headers-6.8.0-85-generic", None, "1"))]) == []
    assert "leads nowhere" in of_headers(wanted, [plan(item("linux-headers-6.8.0-85-generic", "1", "1"))])[0]
