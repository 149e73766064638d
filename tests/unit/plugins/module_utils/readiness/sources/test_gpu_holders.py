# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who has a GPU open, read from a made-up node."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import gpu_holders
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile


def process(pid, comm, *targets, cgroup="0::/system.slice/vllm.service\n"):
    return Profile(
        files={f"/proc/{pid}/comm": f"{comm}\n", f"/proc/{pid}/cgroup": cgroup},
        links={f"/proc/{pid}/fd/{number}": target for number, target in enumerate(targets)},
    )


def test_whoever_has_a_gpu_open_is_named_with_its_unit(make_node):
    node = make_node(
        process(10, "python3", "/dev/null", "/dev/nvidia0", "/dev/nvidia-uvm")
        .plus(process(9, "nvidia-persiste", "/dev/nvidiactl", cgroup=""))
        .plus(process(11, "bash", "/dev/null"))
        .plus(process(12, "nvidia-imex", "/dev/nvidia-caps-imex-channels/channel0"))
    )
    assert gpu_holders.read(node) == [
        {"pid": 9, "name": "nvidia-persiste", "unit": ""},
        {"pid": 10, "name": "python3", "unit": "vllm.service"},
    ]


def test_a_process_cannot_write_to_the_terminal_by_its_name(make_node):
    (holder,) = gpu_holders.read(make_node(process(10, "a\x1b[2Jb; rm -rf", "/dev/nvidia0")))
    assert holder["name"] == "a??2Jb??rm?-rf"


def test_a_crowd_is_cut(make_node):
    crowd = Profile()
    for pid in range(100, 100 + gpu_holders.HOLDERS_MAX + 5):
        crowd = crowd.plus(process(pid, "python3", "/dev/nvidia7"))
    assert len(gpu_holders.read(make_node(crowd))) == gpu_holders.HOLDERS_MAX


def test_without_root_who_uses_the_gpus_is_unknown(make_node):
    found = gpu_holders.read(make_node(process(10, "x", "/dev/nvidia0"), machine_is_root=False))
    assert isinstance(found, Unknown)
