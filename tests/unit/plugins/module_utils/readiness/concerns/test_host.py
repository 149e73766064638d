# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import ownership
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _host_boot, _host_system
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import host as concern
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import boot
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, host
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KERNELS, KINDS, Profile, Reply

B200 = healthy("b200")
GB200 = healthy("gb200")
KERNEL = KERNELS["b200"]
ON, OFF = b"\x06\0\0\0\1", b"\x06\0\0\0\0"
NOT_LOADED = ("/sys/module/nvidia", "/proc/driver/nvidia")
NO_GPU = B200.without("/sys/bus/pci/devices").plus(Profile(folders={"/sys/bus/pci/devices"}))


def with_files(profile, **files):
    """``profile`` with files changed; the keys are looked up in PATHS."""
    return profile.plus(Profile(files={PATHS[name]: content for name, content in files.items()}))


PATHS = {
    "os": "/etc/os-release",
    "arch": "/proc/sys/kernel/arch",
    "kernel": "/proc/sys/kernel/osrelease",
    "cmdline": "/proc/cmdline",
    "cpuinfo": "/proc/cpuinfo",
    "meminfo": "/proc/meminfo",
    "uptime": "/proc/uptime",
    "sb": boot.SECURE_BOOT,
    "selinux": "/sys/fs/selinux/enforce",
    "has_memory": "/sys/devices/system/node/has_memory",
    "has_cpu": "/sys/devices/system/node/has_cpu",
    "grub": "/etc/default/grub",
    "sig": boot.SIG_ENFORCE,
    "balancing": "/proc/sys/kernel/numa_balancing",
}


def answers(checks):
    return {name: check["status"] for name, check in checks.items() if name.startswith("host.")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_host_passes_every_check(ask, kind):
    found = answers(ask(healthy(kind)))
    assert len(found) == 12
    assert set(found.values()) == {"pass"}


def test_a_machine_that_shows_nothing_never_passes_a_check_that_reads(ask):
    found = answers(ask(Profile()))
    assert {name for name, status in found.items() if status == "pass"} <= {
        "host.arch",  # uname and the interpreter answer for every machine
        "host.kernel",
        "host.python",
        "host.managed_by",
        "host.secure_boot",
        "host.selinux",
    }


# ---- managed_by ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "owner", "parts"), ownership.MARKS)
def test_an_owner_is_named_with_its_parts_and_no_cure_is_ours(ask, path, owner, parts):
    checks = ask(B200.plus(Profile(files={path: ""})))
    check = checks["host.managed_by"]
    assert check["status"] == "warn"
    assert owner in check["reason"]
    assert all(part in check["reason"] for part in parts)


@pytest.mark.parametrize(("comm", "name"), ownership.SCHEDULERS)
def test_a_scheduler_has_to_be_asked_first(ask, comm, name):
    check = ask(B200.plus(Profile(files={"/proc/1/comm": "systemd\n", "/proc/77/comm": f"{comm}\n"})))[
        "host.managed_by"
    ]
    assert check["status"] == "warn"
    assert f"Drain the node in {name}" in check["remedy"]["action"]


def test_a_process_that_only_sounds_like_a_scheduler_is_none(ask):
    files = {"/proc/1/comm": "systemd\n", "/proc/77/comm": "kubelet-wait\n", "/proc/78/comm": "k3s\n"}
    assert ask(B200.plus(Profile(files=files)))["host.managed_by"]["status"] == "pass"


def test_hidden_processes_leave_the_scheduler_unknown(ask):
    check = ask(B200.without("/proc/1").plus(Profile(files={"/proc/4711/comm": "python3\n"})))["host.managed_by"]
    assert check["status"] == "unknown"
    assert "hidepid" in check["reason"]
    assert not check["blocking"]


@pytest.mark.parametrize(
    "files", [{}, {"/proc/1/comm": "", "/proc/77/comm": ""}, {"/proc/1/status": "", "/proc/7/comm": "sh"}]
)
def test_a_proc_that_shows_no_process_names_no_scheduler_and_denies_none(ask, files):
    check = ask(B200.without("/proc/1").plus(Profile(files=files)))["host.managed_by"]
    assert check["status"] == "unknown"


# ---- arch, os, python, kernel --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "arch", "status"),
    [(B200, "ppc64le", "fail"), (B200, "aarch64", "pass"), (GB200, "x86_64", "fail"), (GB200, "aarch64", "pass")],
)
def test_the_architecture_fits_image_and_product(ask, profile, arch, status):
    assert ask(with_files(profile, arch=f"{arch}\n"))["host.arch"]["status"] == status


@pytest.mark.parametrize(
    ("identity", "version", "status"),
    [
        ("ubuntu", "22.04", "pass"),
        ("ubuntu", "26.04", "pass"),
        ("ubuntu", "20.04", "warn"),
        ("debian", "13", "pass"),
        ("debian", "", "warn"),
        ("rocky", "9.6", "pass"),
        ("almalinux", "10.1", "pass"),
        ("centos", "9", "pass"),
        ("rhel", "8.10", "fail"),
        ("ol", "7.9", "fail"),
        ("amzn", "2023", "pass"),
        ("amzn", "2", "warn"),
        ("azurelinux", "3.0", "warn"),
        ("sles", "15.6", "warn"),
        ("rhel", "1٢", "warn"),
    ],
)
def test_the_os_table_decides_by_id_and_release(ask, identity, version, status):
    check = ask(with_files(B200, os=f'ID="{identity}"\nVERSION_ID="{version}"\n'))["host.os"]
    assert check["status"] == status


def test_c67_el8_is_refused_and_says_why(ask):
    check = ask(with_files(B200, os='ID="rocky"\nVERSION_ID="8.10"\nPRETTY_NAME="Rocky Linux 8.10"\n'))["host.os"]
    assert check["status"] == "fail"
    assert "dnf" in check["reason"]


def test_dgx_os_is_not_taken_for_plain_ubuntu(ask):
    check = ask(B200.plus(Profile(files={"/etc/dgx-release": 'DGX_NAME="DGX Server"\n'})))["host.os"]
    assert check["status"] == "warn"
    assert "DGX OS" in check["reason"]


@pytest.mark.parametrize("content", [b"\xff\xfe\0\0", b"", b"=\n=\n", b"ID=\n"])
def test_an_unreadable_os_release_is_unknown(ask, content):
    assert ask(with_files(B200, os=content))["host.os"]["status"] == "unknown"


def test_the_second_place_of_os_release_is_read(ask):
    profile = B200.without("/etc/os-release").plus(Profile(files={"/usr/lib/os-release": host.OS_RELEASE}))
    assert ask(profile)["host.os"]["status"] == "pass"


@pytest.mark.parametrize(("version", "status"), [((3, 8, 18), "fail"), ((3, 9, 0), "pass"), ((3, 14, 0), "pass")])
def test_c67_an_old_python_fails(ask, monkeypatch, version, status):
    # Only where the concern looks: the interpreter that runs this test keeps its version.
    monkeypatch.setattr(concern, "sys", SimpleNamespace(version_info=version, executable="/usr/bin/python3"))
    check = ask(B200)["host.python"]
    assert (check["status"], check["observed"]) == (status, ".".join(map(str, version)))


@pytest.mark.parametrize(
    ("release", "require", "status"),
    [
        ("5.15.0-130-generic", {}, "pass"),
        ("5.4.0-216-generic", {}, "warn"),
        ("4.18.0-553.el8_10.x86_64", {}, "pass"),
        ("5.4.17-2136.el8uek.x86_64", {}, "warn"),
        ("5.15.0-130-generic", {"gpudirect_gin": True}, "warn"),
        ("6.8.0-60-generic", {"gpudirect_gin": True}, "pass"),
        ("six", {}, "unknown"),
    ],
)
def test_the_kernel_is_held_against_gpudirect(ask, release, require, status):
    assert ask(with_files(B200, kernel=f"{release}\n"), require)["host.kernel"]["status"] == status


def test_small_pages_on_grace_are_a_note_and_no_warning(ask, make_node, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda _name: 4096)
    check = ask(GB200)["host.kernel"]
    assert check["status"] == "pass"
    assert "64 KiB are recommended" in check["reason"]


# ---- secure_boot ---------------------------------------------------------------------------------------------------

REFUSAL = "[    9.1] Loading of module with unavailable key is rejected"


def secure(content, *without, log=(), modinfo=None):
    profile = with_files(B200.without(*without), sb=content).plus(Profile(kernel_log=list(log)))
    return profile.plus(Profile(commands={driver.MODINFO: modinfo})) if modinfo else profile


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        (secure(OFF), "pass"),
        (secure(ON), "pass"),
        (secure(OFF, *NOT_LOADED), "pass"),
        (secure(ON, *NOT_LOADED, log=[REFUSAL]), "fail"),
        (secure(ON, *NOT_LOADED), "fail"),
        (secure(ON, *NOT_LOADED, log=["modprobe: could not insert 'nvidia': Key was rejected by service"]), "fail"),
        (secure(ON, *NOT_LOADED, log=["insmod: ERROR: could not insert: Required key not available"]), "fail"),
        (secure(b"\x06\0\0\0", *NOT_LOADED), "unknown"),
        (secure(b"", *NOT_LOADED), "unknown"),
        (secure(b"\x06\0\0\0\7", *NOT_LOADED), "unknown"),
        (secure(b"\x06\0\0\0\1\1", *NOT_LOADED), "unknown"),
    ],
)
def test_c19_secure_boot(ask, profile, status):
    assert ask(profile)["host.secure_boot"]["status"] == status


def test_c19_an_accepted_module_outweighs_an_old_refusal(ask):
    assert ask(secure(ON, log=[REFUSAL]))["host.secure_boot"]["status"] == "pass"


def test_c19_the_cure_needs_the_console_and_never_switches_signatures_off(ask):
    remedy = ask(secure(ON, *NOT_LOADED, log=[REFUSAL]))["host.secure_boot"]["remedy"]
    assert "console" in remedy["action"]
    assert remedy["command"] is None


def test_c19_nothing_installed_yet_warns_and_is_not_the_root_cause(ask):
    nothing = secure(ON, *NOT_LOADED, modinfo=driver.NOT_FOUND)
    missing = {("modinfo", name): driver.NOT_FOUND for name in ("nvidia-current", "nvidia-current-open", "nvidia-open")}
    assert ask(nothing.plus(Profile(commands=missing)))["host.secure_boot"]["status"] == "warn"


def test_c19_a_signed_module_that_is_not_loaded_warns(ask):
    signed = Reply(driver.modinfo("580.126.20").stdout + "signer:         Canonical Ltd. Kernel Module Signing\n")
    check = ask(secure(ON, *NOT_LOADED, modinfo=signed))["host.secure_boot"]
    assert check["status"] == "warn"
    assert "Canonical" in check["reason"]


def test_signatures_are_enforced_without_secure_boot_too(ask):
    profile = with_files(B200.without(*NOT_LOADED), sig="Y\n").plus(Profile(kernel_log=[REFUSAL]))
    check = ask(profile)["host.secure_boot"]
    assert check["status"] == "fail"
    assert "sig_enforce" in check["reason"]


def test_uefi_without_its_variable_is_unknown_and_not_off(ask):
    profile = B200.without(*NOT_LOADED).plus(Profile(folders={"/sys/firmware/efi/efivars"}))
    assert ask(profile)["host.secure_boot"]["status"] == "unknown"


def test_secure_boot_on_a_machine_without_nvidia_passes(ask):
    assert ask(with_files(NO_GPU.without(*NOT_LOADED), sb=ON))["host.secure_boot"]["status"] == "pass"


# ---- kernel_args ---------------------------------------------------------------------------------------------------


def iommu(kind):
    bdf = next(path.split("/")[5] for path in B200.files if path.endswith("/vendor") and "10de" in B200.files[path])
    return {f"/sys/bus/pci/devices/{bdf}/iommu_group/type": f"{kind}\n", "/sys/class/iommu/dmar0/version": "1\n"}


@pytest.mark.parametrize(
    ("profile", "arguments", "more", "status"),
    [
        (B200, "iommu=pt", {}, "pass"),
        (B200, "iommu=soft,pt", {"/sys/class/iommu/dmar0/x": ""}, "pass"),
        (B200, "quiet", {"/sys/class/iommu/dmar0/x": ""}, "warn"),
        (B200, "iommu=pt iommu=nopt", {"/sys/class/iommu/dmar0/x": ""}, "warn"),
        (B200, "xiommu=pt", {"/sys/class/iommu/dmar0/x": ""}, "warn"),
        (B200, "intel_iommu=off", {}, "pass"),
        (B200, "quiet", iommu("identity"), "pass"),
        (B200, "iommu=pt", iommu("DMA-FQ"), "warn"),
        (GB200, "iommu=pt init_on_alloc=0 numa_balancing=disable", {"/sys/class/iommu/smmu3/x": ""}, "warn"),
        (GB200, "iommu.passthrough=1 init_on_alloc=0", {}, "warn"),
        (GB200, "iommu.passthrough=1 init_on_alloc=0", {PATHS["balancing"]: "0\n"}, "pass"),
        (GB200, host.ARGUMENTS["gb200"], {PATHS["balancing"]: "1\n"}, "warn"),
        (GB200, "iommu.passthrough=1 init_on_alloc=1 numa_balancing=disable", {}, "warn"),
    ],
)
def test_boot_arguments_are_judged_by_their_effect(ask, profile, arguments, more, status):
    node = with_files(profile, cmdline=host.cmdline("b200", arguments)).plus(Profile(files=more))
    assert ask(node)["host.kernel_args"]["status"] == status


def test_the_iommu_of_a_virtual_machine_is_its_hosts(ask):
    profile = with_files(B200, cmdline=host.cmdline("b200", "quiet"), cpuinfo=host.cpuinfo("b200", " hypervisor")).plus(
        Profile(files={"/sys/class/iommu/dmar0/x": ""})
    )
    assert ask(profile)["host.kernel_args"]["status"] == "pass"


@pytest.mark.parametrize(
    ("vendor", "name", "virtual"),
    [
        ("QEMU", "KVM Virtual Machine", True),
        ("Amazon EC2", "p6e-gb200.36xlarge", True),
        ("Amazon EC2", "p5.metal", False),
        ("Microsoft Corporation", "Virtual Machine", True),
        ("NVIDIA", "GB200 NVL", False),
    ],
)
def test_a_virtual_machine_on_arm_is_told_by_its_firmware(make_node, vendor, name, virtual):
    files = {"/sys/class/dmi/id/sys_vendor": f"{vendor}\n", "/sys/class/dmi/id/product_name": f"{name}\n"}
    assert bool(boot.virtual(make_node(GB200.plus(Profile(files=files))))) is virtual


@pytest.mark.parametrize("content", [b"", b"\0"])
def test_an_empty_command_line_is_unknown(ask, content):
    check = ask(with_files(B200, cmdline=content))["host.kernel_args"]
    assert (check["status"], check["blocking"]) == ("unknown", False)


def test_kernel_arguments_do_not_concern_a_machine_without_gpus(ask):
    assert ask(with_files(NO_GPU, cmdline="quiet\n"))["host.kernel_args"]["status"] == "not_applicable"


# ---- selinux, memory, clock, uptime --------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "status"), [("0", "pass"), ("1", "pass"), ("", "unknown"), ("maybe", "unknown")])
def test_selinux_without_labels_on_containers_is_not_in_the_way(ask, content, status):
    assert ask(with_files(B200, selinux=content))["host.selinux"]["status"] == status


def test_selinux_that_labels_containers_names_the_option(ask):
    podman = Profile(commands={("podman", "--version"): Reply("podman version 5.4.0\n")})
    check = ask(with_files(B200, selinux="1").plus(podman), {"container_engine": "podman"})["host.selinux"]
    assert check["status"] == "warn"
    assert "label=disable" in check["reason"]


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        (with_files(B200, meminfo=host.meminfo(512 << 20)), "pass"),
        (with_files(B200, meminfo=host.meminfo((512 << 20) - 1)), "warn"),
        (with_files(B200, meminfo="MemFree: 1 kB\n"), "unknown"),
        (B200.without("/proc/meminfo"), "unknown"),
        (with_files(GB200, has_memory="0-2,10\n", has_cpu="0-1\n"), "warn"),
        (with_files(GB200, has_memory="0-1\n", has_cpu="0-1\n"), "pass"),
        (with_files(GB200, has_memory="0-x\n", has_cpu="0-1\n"), "unknown"),
        (with_files(B200, has_memory="0-2\n", has_cpu="0-1\n"), "pass"),
    ],
)
def test_memory(ask, profile, status):
    check = ask(profile)["host.memory"]
    assert (check["status"], check["blocking"]) == (status, False)


def test_gpu_memory_among_the_hosts_names_the_nodes_and_the_mode(ask):
    check = ask(with_files(GB200, has_memory="0-1,2,10\n", has_cpu="0-1\n"))["host.memory"]
    assert "2, 10" in check["reason"]
    assert "CoherentGPUMemoryMode" in check["remedy"]["action"]


TRACKING = "Reference ID    : C0000201 (192.0.2.1)\nStratum         : 3\nLeap status     : {}\n"


@pytest.mark.parametrize(
    ("timedate", "chrony", "status"),
    [
        (Reply("NTPSynchronized=no\n"), None, "warn"),
        (Reply("NTPSynchronized=no\n"), Reply(TRACKING.format("Normal")), "pass"),
        (Reply("NTPSynchronized=no\n"), Reply(TRACKING.format("Not synchronised")), "warn"),
        (Reply(rc=1, stderr="Failed to connect to bus"), Reply(TRACKING.format("Normal")), "pass"),
        (Reply(rc=1, stderr="Failed to connect to bus"), Reply(rc=1, stdout="506 Cannot talk to daemon"), "unknown"),
        (Reply(hang=True), None, "unknown"),
        (Reply(""), None, "unknown"),
        (Reply("NTPSynchronized=maybe\n"), None, "unknown"),
    ],
)
def test_the_clock(ask, timedate, chrony, status):
    commands = {host.TIMEDATE: timedate, **({tuple(_host_system.CHRONY): chrony} if chrony else {})}
    assert ask(B200.plus(Profile(commands=commands)))["host.clock"]["status"] == status


@pytest.mark.parametrize(
    ("profile", "days", "status"),
    [(B200, 54, "pass"), (B200, 55, "warn"), (healthy("h100"), 900, "pass"), (GB200, 900, "pass")],
)
def test_uptime_counts_where_peers_saw_nvlink_hang(ask, profile, days, status):
    assert ask(with_files(profile, uptime=f"{days * 86400}.00 1.00\n"))["host.uptime"]["status"] == status


@pytest.mark.parametrize("content", ["", "long", "-5 1", "1e9 1"])
def test_an_unreadable_uptime_is_unknown(ask, content):
    assert ask(with_files(B200, uptime=content))["host.uptime"]["status"] == "unknown"


# ---- reboot_due ----------------------------------------------------------------------------------------------------


def test_c22_the_missing_hint_file_proves_nothing(ask):
    profile = B200.plus(Profile(commands={driver.MODINFO: driver.modinfo("580.178.04")}))
    check = ask(profile)["host.reboot_due"]
    assert check["status"] == "warn"
    assert "580.178.04 is on disk" in check["reason"]


def test_c22_equal_versions_and_no_hint_ask_for_nothing(ask):
    assert ask(B200)["host.reboot_due"]["status"] == "pass"


def test_c22_a_driver_that_is_not_loaded_is_loaded_and_not_rebooted(ask):
    assert ask(B200.without(*NOT_LOADED))["host.reboot_due"]["status"] != "warn"


def test_every_reason_for_a_reboot_is_told_at_once(ask):
    profile = with_files(
        B200,
        cmdline=host.cmdline("b200", "quiet"),
        grub='#GRUB_CMDLINE_LINUX="iommu=off"\nGRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX="quiet iommu=pt"\n',
    ).plus(
        Profile(
            files={
                "/boot/vmlinuz-6.8.0-1100-nvidia": "",
                "/run/reboot-required": "",
                "/run/reboot-required.pkgs": "linux-image-6.8.0-1100-nvidia\nlibc6\n",
                "/sys/class/iommu/dmar0/x": "",
            },
            commands={driver.MODINFO: driver.modinfo("580.178.04")},
        )
    )
    checks = ask(profile)
    check = checks["host.reboot_due"]
    assert check["status"] == "warn"
    assert len(check["observed"]) == 4
    for word in ("6.8.0-1100-nvidia boots next", "580.178.04", "libc6", "iommu=pt"):
        assert word in check["reason"]
    assert check["remedy"]["disruptive"] == "reboot"
    assert "waits for a reboot" in checks["host.kernel_args"]["reason"]


def test_a_commented_argument_is_not_configured(ask):
    check = ask(with_files(B200, cmdline="quiet\n", grub='# GRUB_CMDLINE_LINUX="iommu=pt"\n'))["host.reboot_due"]
    assert check["status"] == "pass"


def test_what_cannot_be_compared_is_unknown_and_only_degrades(ask):
    check = ask(B200.without("/boot", "/lib/modules"))["host.reboot_due"]
    assert (check["status"], check["blocking"]) == ("unknown", False)


@pytest.mark.parametrize("path", [*PATHS.values(), "/run/reboot-required.pkgs"])
@pytest.mark.parametrize("content", [b"\0" * 40, b"\xff\x1b[31m\n" * 9, b"9" * 70000])
def test_hostile_files_never_break_the_host(ask, path, content):
    found = ask(B200.plus(Profile(files={path: content, "/run/reboot-required": ""})))
    assert not [name for name, check in found.items() if name.startswith("host.") and "failed:" in check["reason"]]


def test_wanted_arguments_differ_by_architecture():
    tray = [{"vendor": "10de", "id": "2941", "product": "gb200", "form": "tray"}]
    assert _host_boot.wanted_arguments("x86_64", []) == ["iommu=pt"]
    assert _host_boot.wanted_arguments("aarch64", tray)[0] == "iommu.passthrough=1"
