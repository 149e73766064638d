# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Debian's real 550.163.01, left half done by its own DKMS build (C04), brought to the vendor's set of stubs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab import compare
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver.conftest import MakeSite
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver.site import OURS, changed

VERSION = "580.126.20"
REPAIR = ("-e", "nvidia_driver_repair_packages=true")


@pytest.mark.soak
def test_a_debian_whose_own_driver_does_not_build_gets_the_vendors(make: MakeSite) -> None:
    subprocess.run([str(Path(__file__).with_name("real_debian"))], check=True)
    site = make("debian13-real-550")
    kernel = site.on_node("cat /proc/sys/kernel/osrelease").strip()
    assert "iF" in site.on_node("dpkg-query -W -f '${db:Status-Abbrev}' nvidia-open-kernel-dkms")
    before = site.state()
    status, told = site.run()
    assert status == 2
    assert "left half done, and not by a run of this module" in told, told[-3000:]
    assert compare.differences(before, site.state()) == []
    status, told = site.run("--check", "--diff", *REPAIR)
    assert status == 0, told[-3000:]
    assert compare.differences(before, site.state()) == []
    assert "package nvidia-open-kernel-dkms 550.163.01-2 removed" in told
    assert f"package libcuda1 550.163.01-2 -> {VERSION}-1" in told
    status, told = site.run(*REPAIR)
    assert status == 0, told[-3000:]
    assert site.on_node("dpkg --audit") == ""
    listed = site.on_node("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'")
    assert [line for line in listed.splitlines() if " 550.163.01" in line and not line.endswith("rc ")] == []
    assert site.on_node(f"modinfo -k {kernel} -F version nvidia").strip() == VERSION
    assert "nvidia-open-kernel-dkms_550.163.01-2_amd64.deb" in site.on_node(f"ls {OURS}/rollback/550.163.01")
    status, told = site.run()
    assert (status, changed(told)) == (0, 0), told[-3000:]
