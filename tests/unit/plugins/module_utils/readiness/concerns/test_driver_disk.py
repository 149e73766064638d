# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""C04, C05: the module on disk, for the running kernel and for the next."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.captures import capture
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.drivers import (
    B200,
    KERNEL,
    LIBRARIES,
    MAKE_LOG,
    NEXT,
    dpkg,
    first_failure,
    not_loaded,
    statuses,
    with_commands,
    with_files,
    with_next_kernel,
    without_module,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Reply

HEAD = f"DKMS make.log for nvidia-580.126.20 for kernel {KERNEL} (x86_64)\n"
COMPILER_LOG = HEAD + (
    "warning: the compiler differs from the one used to build the kernel\n"
    "  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0\n"
    "  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
)


def broken_build(log):
    """DKMS could not build for the running kernel, and dpkg stopped over it."""
    profile = without_module(not_loaded(B200.without(f"{driver.dkms('b200')}/{KERNEL}", "/var/lib/dkms/nvidia")))
    return with_files({MAKE_LOG: log}, profile)


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (COMPILER_LOG + "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\n", "gcc-12"),
        (
            COMPILER_LOG + "cc: error: unrecognized command-line option \u2018-ftrivial-auto-var-init=zero\u2019\n",
            "gcc-12",
        ),
        (HEAD + "/bin/sh: 1: x86_64-linux-gnu-gcc-12: not found\n", "gcc-12"),
        # The warning alone stands in every such log; what broke this build is the source.
        (
            COMPILER_LOG + "nvidia/nv-pci.c:237:9: error: too few arguments to function \u2018f\u2019\n",
            "does not fit this kernel",
        ),
        (
            HEAD + "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'\n",
            "does not fit this kernel",
        ),
        (
            HEAD + "nv.c:1:2: error: x\ncc1: note: unrecognized command-line option '-Wno-x' may have been intended\n",
            "does not fit this kernel",
        ),
        (HEAD + "fatal: No space left on device\n", "disk or memory"),
        (HEAD + "something else\n", "no cause the probe knows"),
        ("", "no cause the probe knows"),
        (b"\x00\xff" * 5000, "no cause the probe knows"),
    ],
)
def test_c04_a_broken_build_is_told_by_its_cause(ask, log, says):
    checks = ask(broken_build(log))
    assert first_failure(checks) == "installed"
    assert says in checks["driver.installed"]["reason"]
    assert checks["driver.installed"]["evidence"][0]["source"] == MAKE_LOG


def test_c04_the_real_log_is_a_kernel_that_changed(ask):
    log = capture("dkms/make-550.163.01-on-6.12.117.log").read_bytes()
    folder = "/var/lib/dkms/nvidia-current-open/550.163.01"
    kernel = "6.12.117+deb13-amd64"
    profile = with_files({f"{folder}/build/make.log": log, f"/boot/vmlinuz-{kernel}": ""}, without_module(B200, kernel))
    profile = with_files({"/etc/default/grub": "GRUB_DEFAULT=0\n"}, profile)
    profile = with_commands(dpkg("nvidia-open-kernel-dkms iF 550.163.01-2", "libcuda1 ii 550.163.01-2"), profile)
    check = ask(profile)["driver.next_boot"]
    assert check["status"] == "fail"
    assert "does not fit this kernel" in check["reason"]
    assert "pci_resize_resource" in check["evidence"][0]["line"]


def test_c05_headers_missing_is_the_cause_though_the_packages_are_installed(ask):
    profile = without_module(not_loaded(B200.without(f"/lib/modules/{KERNEL}", "/var/lib/dkms/nvidia")))
    profile = with_files({f"{driver.dkms('b200')}/source/dkms.conf": ""}, profile)
    checks = ask(profile)
    installed = checks["driver.installed"]
    assert first_failure(checks) == "installed"
    assert "headers are not installed" in installed["reason"]
    assert f"linux-headers-{KERNEL}" in installed["remedy"]["command"]
    assert installed["remedy"]["disruptive"] == "none"


@pytest.mark.parametrize(("state", "says"), [("added", "only added"), ("built", "as built")])
def test_c05_added_or_built_is_not_installed(ask, state, says):
    profile = without_module(not_loaded(B200.without("/var/lib/dkms/nvidia")))
    path = f"{driver.dkms('b200')}/" + ("source/x" if state == "added" else f"{KERNEL}/x86_64/module/nvidia.ko")
    check = ask(with_files({path: ""}, profile))["driver.installed"]
    assert (check["status"], says in check["reason"]) == ("fail", True)
    assert check["remedy"]["command"].startswith("dkms install")


def test_c05_a_next_kernel_without_a_module_fails_before_the_reboot(ask):
    checks = ask(without_module(with_next_kernel(driver.NOT_FOUND), NEXT))
    assert statuses(checks, "fail") == ["next_boot"]
    assert NEXT in checks["driver.next_boot"]["reason"]


@pytest.mark.parametrize(
    ("module", "status"),
    [
        (driver.modinfo("580.126.20"), "pass"),
        (driver.modinfo("580.95.05"), "fail"),
        (driver.modinfo("580.126.20", licence="NVIDIA"), "fail"),
        (Reply(hang=True), "unknown"),
    ],
)
def test_the_next_kernels_module_is_held_against_libraries_and_flavour(ask, module, status):
    assert ask(with_next_kernel(module))["driver.next_boot"]["status"] == status


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ({"/etc/default/grub": f'GRUB_DEFAULT="Advanced options>Ubuntu, with Linux {KERNEL}"\n'}, "pass"),
        ({"/etc/default/grub": "GRUB_DEFAULT=saved\n", "/boot/grub/grubenv": f"saved_entry=gnulinux-{NEXT}\n"}, "fail"),
        ({"/boot/grub2/grubenv": f"saved_entry=0123-{KERNEL}\n"}, "pass"),
        ({}, "unknown"),
        ({"/etc/default/grub": "GRUB_DEFAULT=3\n"}, "unknown"),
    ],
)
def test_the_next_boots_kernel_is_read_and_not_guessed(ask, files, status):
    profile = without_module(with_files({f"/boot/vmlinuz-{NEXT}": "", **files}), NEXT)
    assert ask(profile)["driver.next_boot"]["status"] == status


@pytest.mark.parametrize("state", ["iF", "iU", "iH"])
def test_a_half_configured_package_is_not_installed(ask, state):
    lines = [f"{name} ii 580.126.20-1ubuntu1" for name in driver.PACKAGES]
    check = ask(
        with_commands(dpkg(*lines, f"nvidia-utils-580 {state} 580.126.20-1ubuntu1", f"nvidia-open {state} 1-1"))
    )
    assert check["driver.installed"]["status"] == "fail"
    assert check["driver.installed"]["remedy"]["command"] == "dpkg --configure -a"


def test_libraries_that_are_not_there_fail(ask):
    profile = with_commands(dpkg("bash ii 5.2"), B200.without(LIBRARIES)).without_command("nvidia-smi")
    assert first_failure(ask(profile)) == "installed"


def test_a_hostile_kernel_name_never_reaches_a_command(ask):
    profile = with_files({"/boot/vmlinuz-$(touch x)": "", "/etc/default/grub": "GRUB_DEFAULT=0\n"})
    check = ask(without_module(profile))["driver.next_boot"]
    assert check["status"] != "pass"
    assert "$(" not in ((check["remedy"] or {}).get("command") or "")
