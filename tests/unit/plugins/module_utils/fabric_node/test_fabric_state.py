# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What decides how a fabric is set up, read from made-up nodes."""

from __future__ import annotations

import json
import os
import time

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.fabric_node import kernel_modules, module_options, state
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import fabric, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KERNELS, Profile, Reply

ADDRESSES = ("ip", "-j", "addr", "show")
SINCE = ("systemctl", "show", "nvidia-imex.service", "--property=ActiveState,ActiveEnterTimestampMonotonic")
OPTIONS_FILE = "/etc/modprobe.d/gpufleet-nvidia-fabric.conf"


def test_the_progress_is_that_of_every_gpu_and_of_the_unit(make_node):
    now = state.progress(make_node(healthy("b200")), "hgx_nvlink5")
    assert now["driver"] == "580.126.20"
    assert now["gpus"] == [{"bdf": bdf, "state": "Completed", "status": "Success"} for bdf in gpu.BDFS["b200"]]
    assert now["units"]["manager"]["ActiveState"] == "active"
    assert now["units"]["imex"]["LoadState"] == "not-found"
    assert now["unloaded"] == []


@pytest.mark.parametrize(
    ("active", "changes", "settled"),
    [
        ("active", {}, True),
        ("active", {"gpus": {3: {"fabric/state": "In Progress", "fabric/status": "N/A"}}}, False),
        ("active", {"gpus": {3: {"fabric/status": "Unknown Error"}}}, False),
        ("active", {"every": {"fabric/state": None}}, False),
        ("activating", {}, False),
        ("inactive", {}, False),
        # Nothing is left to wait for.
        ("failed", {"every": {"fabric/state": "In Progress"}}, True),
    ],
)
def test_c33_settled_is_completed_and_success_on_every_gpu(make_node, active, changes, settled):
    profile = healthy("h100").plus(gpu.answering("h100", **changes))
    profile.units["nvidia-fabricmanager.service"] = {"ActiveState": active}
    assert state.settled(state.progress(make_node(profile), "hgx"), "manager") is settled


def test_a_driver_that_does_not_answer_and_no_gpu_are_not_settled(make_node):
    for reply in (Reply(stdout="No devices were found\n", rc=6), Reply(hang=True)):
        profile = healthy("h100").plus(Profile(commands={gpu.QUERY: reply}))
        now = state.progress(make_node(profile), "hgx")
        assert isinstance(now["gpus"], Unknown)
        assert not state.settled(now, "manager")
    assert not state.registered([])


def test_addresses_are_those_others_can_reach(make_node):
    links = [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "scope": "host"}]},
        {
            "ifname": "a",
            "addr_info": [{"local": "192.0.2.1", "scope": "global"}, {"local": "fe80::1", "scope": "link"}],
        },
        {"ifname": "b"},
    ]
    node = make_node(healthy("gb200").plus(Profile(commands={ADDRESSES: Reply(json.dumps(links))})))
    assert state.addresses(node) == ["192.0.2.1"]


@pytest.mark.parametrize(
    "reply", [Reply(rc=1, stderr="no"), Reply("{"), Reply("[1]"), Reply('[{"addr_info": [{"scope": "global"}]}]')]
)
def test_addresses_that_are_not_told_are_unknown(make_node, reply):
    node = make_node(healthy("gb200").plus(Profile(commands={ADDRESSES: reply})))
    assert isinstance(state.addresses(node), Unknown)


def read(node, kind="gb200"):
    """All of it, of a tray."""
    return state.read(node, "tray", [KERNELS[kind]], OPTIONS_FILE, [fabric.NODES, OPTIONS_FILE])


def test_files_are_told_whole_or_as_absent(make_node):
    assert read(make_node(healthy("gb200")))["files"] == {fabric.NODES: "192.0.2.10\n192.0.2.11\n", OPTIONS_FILE: None}


def test_an_initramfs_is_stale_where_the_options_are_newer(make_node):
    image = f"/boot/initrd.img-{KERNELS['gb200']}"
    assert read(make_node(healthy("gb200")))["initramfs"] == {}
    node = make_node(healthy("gb200").plus(Profile(files={image: "", OPTIONS_FILE: ""})))
    now = time.time()
    for age, stale in ((10, False), (-10, True)):
        os.utime(node.path(OPTIONS_FILE), (now - age, now - age))
        os.utime(node.path(image), (now, now))
        assert read(node)["initramfs"] == {KERNELS["gb200"]: stale}


@pytest.mark.parametrize(
    ("active", "entered_ago", "newer"), [("active", 100, True), ("active", 1, False), ("inactive", 100, None)]
)
def test_whether_the_nodes_were_written_since_imex_was_started(make_node, active, entered_ago, newer):
    entered = max(1, int((time.clock_gettime(time.CLOCK_MONOTONIC) - entered_ago) * 1e6))
    told = Reply(f"ActiveState={active}\nActiveEnterTimestampMonotonic={entered}\n")
    node = make_node(healthy("gb200").plus(Profile(commands={SINCE: told})))
    written = time.time() - 50
    os.utime(node.path(fabric.NODES), (written, written))
    assert read(node)["nodes_newer"] is newer


def test_a_file_from_the_future_tells_nothing(make_node):
    told = Reply("ActiveState=active\nActiveEnterTimestampMonotonic=1\n")
    node = make_node(healthy("gb200").plus(Profile(commands={SINCE: told})))
    os.utime(node.path(fabric.NODES), (time.time() + 3600, time.time() + 3600))
    assert "lies in the future" in read(node)["nodes_newer"].reason


def test_a_service_that_tells_no_time_is_unknown(make_node):
    told = Reply("ActiveState=active\nActiveEnterTimestampMonotonic=\n")
    assert isinstance(read(make_node(healthy("gb200").plus(Profile(commands={SINCE: told}))))["nodes_newer"], Unknown)


# ---- modules of kernels ------------------------------------------------------------------------------------------------

NAMES = ("ib_umad", "mlx5_ib")


@pytest.mark.parametrize(
    ("listed", "built_in", "missing"),
    [
        ("kernel/a/ib_umad.ko: kernel/b.ko\nkernel/c/mlx5_ib.ko.zst:\n", None, []),
        # A vendor's, with another spelling of the name.
        ("updates/dkms/ib-umad.ko.xz:\nextra/mlx5_ib.ko.gz:\n", None, []),
        ("kernel/a/ib_umad.ko:\n", "kernel/c/mlx5_ib.ko\n", []),
        # Another module depends on it: that is not to have it.
        ("kernel/a/rds.ko: kernel/a/ib_umad.ko\n", None, ["ib_umad", "mlx5_ib"]),
        ("kernel/a/ib_umad_tools.ko:\nkernel/c/xmlx5_ib.ko:\n", "", ["ib_umad", "mlx5_ib"]),
    ],
)
def test_modules_of_a_kernel_by_the_lists_of_depmod(make_node, listed, built_in, missing):
    files = {"/lib/modules/6.8/modules.dep": listed}
    if built_in is not None:
        files["/lib/modules/6.8/modules.builtin"] = built_in
    assert kernel_modules.missing(make_node(Profile(files=files)), "6.8", NAMES) == missing


def test_without_a_list_what_a_kernel_has_is_unknown(make_node):
    found = kernel_modules.missing(make_node(Profile()), "6.8", NAMES)
    assert isinstance(found, Unknown)
    assert "/lib/modules/6.8/modules.dep is not there" in found.reason


# ---- options of the module ---------------------------------------------------------------------------------------------


def options(make_node, files):
    """What is set where, as tuples."""
    node = make_node(Profile(files={"/proc/cmdline": "quiet\n", **files}))
    return [(item["source"], item["option"], item["value"]) for item in module_options.read(node)]


def test_options_are_read_from_every_folder_and_the_boot_arguments(make_node):
    assert options(
        make_node,
        {
            "/etc/modprobe.d/a.conf": '# options nvidia NVreg_A=9\noptions nvidia NVreg_A=1 modeset=1 NVreg_B="x"\n',
            "/usr/lib/modprobe.d/b.conf": "options nvidia-current NVreg_C=2\noptions nvidia_drm NVreg_D=3\n",
            "/lib/modprobe.d/c.conf": "options  nvidia \\\n  NVreg_E=4\n",
            "/etc/modprobe.d/not-read.txt": "options nvidia NVreg_F=5\n",
            "/proc/cmdline": "quiet nvidia.NVreg_G=6 nvidia_drm.modeset=1 nvidia.other=1\n",
        },
    ) == [
        ("/etc/modprobe.d/a.conf", "NVreg_A", "1"),
        ("/etc/modprobe.d/a.conf", "NVreg_B", "x"),
        ("/usr/lib/modprobe.d/b.conf", "NVreg_C", "2"),
        ("/lib/modprobe.d/c.conf", "NVreg_E", "4"),
        ("/proc/cmdline", "NVreg_G", "6"),
    ]


def test_a_file_of_an_earlier_folder_hides_one_of_the_same_name(make_node):
    files = {"/etc/modprobe.d/nvidia.conf": "", "/lib/modprobe.d/nvidia.conf": "options nvidia NVreg_A=1\n"}
    assert options(make_node, files) == []


def test_without_boot_arguments_the_options_are_unknown(make_node):
    assert isinstance(module_options.read(make_node(Profile())), Unknown)
