# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""No file of /proc and /sys can lose its meaning and leave a node ready, but for those that nothing hangs on."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, Profile

# A file by its kind, and why a node may be ready without it. N stands for what counts devices, ports and processes.
NOTHING_HANGS_ON = {
    "/proc/N/comm": "a process may have any name",
    "/proc/cmdline": "arguments are judged by their effect, which other files show",
    "/proc/cpuinfo": "without it a machine counts as bare metal, of which more is asked",
    "/proc/driver/nvidia-nvswitch/devices/N": "the product tells that there are switches",
    "/proc/driver/nvidia/params": "only the plan for deepep_v2 asks for options of the module",
    "/proc/sys/kernel/arch": "older kernels have none, and uname tells the same",
    "/sys/bus/pci/devices/N/current_link_width": "nvidia-smi tells it",
    "/sys/bus/pci/devices/N/max_link_width": "nvidia-smi tells it",
    "/sys/bus/pci/devices/N/numa_node": "only the spread of the rails is judged by it, where it is known",
    "/sys/class/infiniband/N/board_id": "shown, not judged",
    "/sys/class/infiniband/N/fw_ver": "shown, not judged on one node",
    "/sys/class/infiniband/N/hca_type": "shown, not judged",
    "/sys/class/infiniband/N/ports/N/hw_counters/out_of_sequence": "congestion is shown, not judged",
    "/sys/class/net/ethN/mtu": "ip tells it",
    "/sys/class/net/ethN/operstate": "ip tells it",
    "/sys/module/ib_core/srcversion": "compared with the one on disk only where both are known",
}
DEVICE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9]|mlx5_[a-z0-9_]+|[0-9]+")


def kinds_of_files(profile):
    """{kind: one file of it}; the middle one, which is a rail's where the kind is an adapter's."""
    kinds = {}
    for path in sorted(path for path in profile.all_files() if path.startswith(("/proc/", "/sys/"))):
        kinds.setdefault(DEVICE.sub("N", path), []).append(path)
    return {name: paths[len(paths) // 2] for name, paths in kinds.items()}


@pytest.mark.parametrize("content", [b"", b"\xff\xfe?!"], ids=["empty", "garbage"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_meaning_leaves_no_node_ready(report_of, kind, content):
    profile = healthy(kind)
    ready = {
        name
        for name, path in kinds_of_files(profile).items()
        if report_of(profile.plus(Profile(files={path: content})))["verdict"] == "ready"
    }
    # Trays talk over NVLink: what their HCAs tell is information.
    informative = {name for name in ready if kind == "gb200" and name.startswith("/sys/class/infiniband/")}
    assert ready - informative - set(NOTHING_HANGS_ON) == set()


def test_every_exception_is_a_file_that_some_node_has():
    known = {name for kind in KINDS for name in kinds_of_files(healthy(kind))}
    assert set(NOTHING_HANGS_ON) - known == set()
