# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A GB200 tray: an Arm server, whose packages stand in the folder sbsa (C13). apt plans for arm64, and installs nothing."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab import compare
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver.conftest import MakeSite

# The package database of an Arm server, and apt told so: dpkg itself keeps saying what the container is.
DATABASE = "sed -i 's/^Architecture: amd64$/Architecture: arm64/' /var/lib/dpkg/status"
ARM = 'APT::Architecture "arm64";\nAPT::Architectures { "arm64"; };\n'
VERSION = ("-e", "nvidia_driver_version=580.126.20")


@pytest.mark.soak
def test_a_tray_takes_its_packages_from_sbsa_and_needs_an_exact_version(make: MakeSite) -> None:
    site = make("ubuntu2404-tray")
    site.on_node(f"{DATABASE} && cat > /etc/apt/apt.conf.d/98arm", ARM)
    before = site.state()
    status, told = site.run("--check")
    assert status == 2
    assert "nvidia_driver_version is empty; gb200 trays need an exact one" in told, told[-3000:]
    status, told = site.run("--check", "--diff", *VERSION)
    assert status == 0, told[-3000:]
    assert "http://127.0.0.1:8000/cuda/repos/ubuntu2404/sbsa/" in told
    assert "repository file /etc/apt/sources.list.d/cuda-ubuntu2404-sbsa.sources: create" in told
    for name in ("nvidia-open", "nvidia-dkms-580-open", "nvidia-imex"):
        assert f"package {name} absent -> 580.126.20-1ubuntu1 (from nvidia-driver)" in told
    assert "package nvidia-fabricmanager" not in told
    assert compare.differences(before, site.state()) == []
