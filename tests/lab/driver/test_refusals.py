# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What `playbooks/site.yml` refuses on a node, and that it leaves such a node as it was. Needs the lab's engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab import compare
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver import table
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver.site import Site

MIRROR = "/srv/www/cuda/repos/debian12/x86_64"
SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# (what stands in the way, how it is taken away, variables of the site, what the refusal says)
REFUSED: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "runfile": ("touch /usr/bin/nvidia-uninstall", "rm /usr/bin/nvidia-uninstall", {}, "runfile installation"),
    "driver container": (
        "mkdir -p /run/nvidia/validations && touch /run/nvidia/validations/.driver-ctr-ready",
        "rm -r /run/nvidia",
        {},
        # The fabric's part looks first, and it is the same owner's.
        "driver container manages this node's fabric",
    ),
    "busy": (
        "touch /dev/nvidia0; (exec 9</dev/nvidia0; exec sleep 600) >/dev/null 2>&1 & echo $! > /run/busy",
        "kill $(cat /run/busy); rm /dev/nvidia0",
        {},
        "the GPUs are in use by sleep",
    ),
    "no room": (
        "mount -t tmpfs -o size=1m none /boot && touch /boot/vmlinuz-$(uname -r)",
        "umount /boot",
        {},
        "/boot has 1 MiB free",
    ),
    "locked": (
        (
            'python3 -c \'import fcntl,os,time; f=open("/var/lib/dpkg/lock-frontend","w"); fcntl.lockf(f,fcntl.LOCK_EX); '
            "time.sleep(600)' >/dev/null 2>&1 & echo $! > /run/locked; sleep 1"
        ),
        "kill $(cat /run/locked)",
        {"nvidia_driver_lock_timeout": 1},
        "in use",
    ),
    "wrong key": (
        "true",
        "true",
        {"nvidia_driver_key_file": str(table.STUBS / "other.asc")},
        "not signed by the given key",
    ),
    "known bad": (
        "true",
        "true",
        {"nvidia_driver_known_bad": [{"version": "580.126.20", "reason": "our jobs hang"}]},
        "our jobs hang",
    ),
    "no such version": ("true", "true", {"nvidia_driver_version": "580.1.1"}, "580.1.1 is not offered"),
    "headers without files": (
        "rm -r /lib/modules/*/build",
        "mkdir /lib/modules/$(uname -r)/build",
        {},
        "leads nowhere",
    ),
    "no way back": (
        "mv /etc/apt/sources.list.d/cuda-debian12-x86_64.list /root && apt-get -qq update && apt-get clean",
        "mv /root/cuda-debian12-x86_64.list /etc/apt/sources.list.d && apt-get -qq update",
        {},
        "Rollback unavailable",
    ),
    "half done by others": (
        "sed -i '/^Package: nvidia-open$/,/^$/s/^Status: .*/Status: hold ok half-configured/' /var/lib/dpkg/status",
        "sed -i '/^Package: nvidia-open$/,/^$/s/^Status: .*/Status: hold ok installed/' /var/lib/dpkg/status",
        {},
        "left half done, and not by a run of this module",
    ),
    "no mirror": (
        "systemctl stop stub-mirror",
        "systemctl start stub-mirror",
        {"nvidia_driver_version": "580.126.20"},
        "because the plan is not certain: the index cannot be reached",
    ),
    "half a file": (
        f"cd {MIRROR} && cp nvidia-open_580.126.20-1_amd64.deb /run/whole && truncate -s 900 nvidia-open_580.126.20-1_amd64.deb",
        f"cp /run/whole {MIRROR}/nvidia-open_580.126.20-1_amd64.deb",
        {},
        "the packages cannot be fetched",
    ),
    "secure boot": (
        (
            f"mkdir -p /run/efi/efivars && printf '\\6\\0\\0\\0\\1' > /run/efi/efivars/{SECURE_BOOT} && "
            "mount -o remount,rw,bind /sys && mkdir -p /sys/firmware/efi && mount --bind /run/efi /sys/firmware/efi"
        ),
        "umount /sys/firmware/efi && rmdir /sys/firmware/efi && mount -o remount,ro,bind /sys",
        {},
        "Secure Boot is on, and",
    ),
    "other GPUs": (
        (
            "mkdir /run/pci && for v in /sys/bus/pci/devices/*/vendor; do mount -o remount,rw,bind /sys; "
            "cp $v /run/pci/$(basename $(dirname $v)); echo 0x1002 > $v; done"
        ),
        (
            "for v in /sys/bus/pci/devices/*/vendor; do cp /run/pci/$(basename $(dirname $v)) $v; done; "
            "rm -r /run/pci; mount -o remount,ro,bind /sys"
        ),
        {},
        "AMD GPUs, whose driver is not managed from here",
    ),
    **{
        name: (
            f"cp /etc/os-release /run/os-release && printf '{text}' > /etc/os-release",
            "cp /run/os-release /etc/os-release",
            {},
            says,
        )
        for name, (text, says) in {
            "SUSE": ('ID="sles"\\nVERSION_ID="15.7"\\n', "SUSE"),
            "EL 8": ('ID="rocky"\\nVERSION_ID="8.10"\\n', "EL 8 has no dnf bindings"),
            "Azure Linux": ('ID=azurelinux\\nVERSION_ID="3.0"\\n', "Microsoft"),
            "an unknown system": ('ID=plan9\\nVERSION_ID="4"\\n', "is not managed; managed: ubuntu2204"),
        }.items()
    },
    "DGX OS": ("echo DGX_NAME=x > /etc/dgx-release", "rm /etc/dgx-release", {}, "DGX OS has repositories"),
    # The last one: the headers do not come back.
    "no headers": (
        "dpkg --remove linux-headers-$(uname -r)",
        "true",
        {"nvidia_driver_repositories": []},
        "linux-headers-",
    ),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A node that a site has on a held 575."""
    made = Site("gpufleet-lab-driver-refused", "debian12-held-575", tmp_path_factory.mktemp("site"))
    yield made
    made.close()


# Decided by the control node alone, and tried there one by one.
FURTHER = ("other GPUs", "SUSE", "EL 8", "Azure Linux", "an unknown system", "DGX OS")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.soak) if case in FURTHER else case for case in REFUSED]
)
def test_what_is_refused_is_told_and_the_node_stays_as_it_was(site: Site, case: str) -> None:
    way, clear, variables, says = REFUSED[case]
    site.on_node(way)
    try:
        before = site.state()
        status, told = site.run("-e", json.dumps(variables))
        assert status == 2, told[-3000:]
        assert says in told, told[-3000:]
        assert compare.differences(before, site.state()) == []
    finally:
        site.on_node(clear)
