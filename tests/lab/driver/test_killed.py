# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`playbooks/site.yml` killed in the middle of the transaction: the same command finishes."""

from __future__ import annotations

import os
import re
import signal
import subprocess

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab.driver.conftest import MakeSite
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver.site import OURS, Site, changed

VERSION = "580.126.20"
# apt, dpkg, the script of the package, and what that waits for.
PACKAGE_MANAGER = ("apt-get", "/usr/bin/dpkg", "postinst", "'sleep 60'")


def is_finished(site: Site) -> None:
    """One version, all of it held, nothing half done, the module there, and the packages of before kept."""
    there = site.on_node("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' '*nvidia*' libcuda1")
    rows = [line.split() for line in there.splitlines() if line.split()[-1] not in ("un", "rc")]
    assert {row[1].split("-")[0] for row in rows} == {VERSION}
    assert {row[2] for row in rows} == {"hi"}
    assert site.on_node("dpkg --audit") == ""
    assert site.on_node("modinfo -F version nvidia").strip() == VERSION
    kept = site.on_node(f"ls {OURS}/rollback/*").split()
    assert "record.json" in kept
    assert any(name.startswith("nvidia-open_575.57.08") for name in kept)
    assert not any(VERSION in name for name in kept)


def begun(site: Site) -> subprocess.Popen[str]:
    """A run that is in the middle of its transaction."""
    site.on_node("mkdir -p /run/stubs && echo 60 > /run/stubs/slow")
    process = site.start()
    site.until_it_installs("nvidia-kernel-open-dkms")
    return process


def test_the_same_command_finishes_after_apt_and_dpkg_were_killed(make: MakeSite) -> None:
    site = make("debian12-held-575")
    process = begun(site)
    site.kill(*PACKAGE_MANAGER)
    told, _none = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "the same command finishes it" in " ".join(told.split())
    site.on_node("rm /run/stubs/slow")
    status, told = site.run()
    assert status == 0, told[-3000:]
    is_finished(site)
    status, told = site.run()
    assert (status, changed(told)) == (0, 0), told[-3000:]


def test_a_run_that_was_killed_with_all_that_it_started_goes_on_under_its_id(make: MakeSite) -> None:
    site = make("debian12-held-575")
    process = begun(site)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    site.kill("AnsiballZ", "run.sh", *PACKAGE_MANAGER)
    site.on_node("rm /run/stubs/slow")
    # The lock of the killed run is there: nobody takes it over blindly, and the refusal says how to go on.
    status, told = site.run()
    assert status == 2
    found = re.search(r"k3_run_id=([0-9TZa-f-]+)", told)
    assert found is not None, told[-3000:]
    status, told = site.run("-e", found.group(0))
    assert status == 0, told[-3000:]
    is_finished(site)
    status, told = site.run()
    assert (status, changed(told)) == (0, 0), told[-3000:]


@pytest.mark.soak
def test_the_transaction_outlives_who_started_it(make: MakeSite) -> None:
    """Ansible alone is killed: the transaction goes on, and the next run waits for it and finishes."""
    site = make("debian12-held-575")
    site.on_node("mkdir -p /run/stubs && echo 12 > /run/stubs/slow")
    process = site.start()
    site.until_it_installs("nvidia-kernel-open-dkms")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    site.kill("AnsiballZ")
    status, told = site.run()
    found = re.search(r"k3_run_id=([0-9TZa-f-]+)", told)
    assert status == 2
    assert found is not None, told[-3000:]
    status, told = site.run("-e", found.group(0))
    assert status == 0, told[-3000:]
    is_finished(site)
