# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What stands in the way of a change of the driver, read from a made-up node."""

from __future__ import annotations

import os

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.driver_node import preconditions
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile

ROOT = "25 1 8:1 / / rw,relatime shared:1 - {kind} {source} {options}\n"


@pytest.mark.parametrize(
    ("kind", "source", "options", "says"),
    [
        ("ext4", "/dev/sda1", "rw", ""),
        ("overlay", "overlay", "rw,lowerdir=/a:/b,upperdir=/var/lib/docker/overlay2/x/diff,workdir=/w", ""),
        ("tmpfs", "none", "rw,size=1g", "it is a tmpfs"),
        ("rootfs", "rootfs", "rw", "it is a rootfs"),
        ("overlay", "/cow", "rw,lowerdir=/s,upperdir=/cow/upper,workdir=/cow/work", "it is an overlay over /cow/upper"),
        ("overlay", "LiveOS_rootfs", "rw,lowerdir=/run/rootfsbase,upperdir=/run/overlayfs", "it is an overlay over /run/overlayfs"),
    ],
)  # fmt: skip
def test_a_root_that_is_gone_with_the_power_is_told(make_node, kind, source, options, says):
    text = ROOT.format(kind=kind, source=source, options=options)
    assert preconditions.volatile(make_node(Profile(files={"/proc/self/mountinfo": text}))) == says


@pytest.mark.parametrize("files", [{}, {"/proc/self/mountinfo": "nothing\n"}])
def test_a_root_that_cannot_be_read_is_unknown(make_node, files):
    assert isinstance(preconditions.volatile(make_node(Profile(files=files))), Unknown)


def test_an_initramfs_older_than_the_options_is_stale(make_node):
    conf, old, new = "/etc/modprobe.d/a.conf", "/boot/initrd.img-6.1", "/boot/initramfs-6.8.img"
    node = make_node(Profile(files={conf: "", old: "", new: ""}))
    for path, time in ((conf, 2000), (old, 1000), (new, 3000)):
        os.utime(node.path(path), (time, time))
    found = preconditions.read(node, [], ["6.1", "6.8", "none"], [conf])
    assert found["stale_initramfs"] == ["6.1"]
    assert preconditions.read(node, [], ["6.1"], ["/etc/modprobe.d/absent.conf"])["stale_initramfs"] == []
