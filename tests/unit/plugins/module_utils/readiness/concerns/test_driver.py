# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import driver as concern
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import packages
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KERNELS, KINDS, Profile, Reply

B200 = healthy("b200")
H100 = healthy("h100")
KERNEL = KERNELS["b200"]
NEXT = "6.8.0-1041-nvidia"
LIBRARIES = driver.libraries("b200")
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124\n"
NAMES = [spec.name for spec in concern.CHECKS]
CAPTURES = Path(__file__).resolve().parents[6].parent / "shared" / "captures"
DPKG_S = ("dpkg-query", "-S")


def with_files(files, base=B200):
    return base.plus(Profile(files=files))


def with_commands(commands, base=B200):
    return base.plus(Profile(commands=commands))


def versions(loaded, disk, libraries, base=B200):
    """A node with these three versions; None takes a part away."""
    profile = base.without(LIBRARIES, "/proc/driver/nvidia/version", "/sys/module/nvidia")
    if loaded:
        profile = profile.plus(driver.loaded(loaded))
    else:
        profile.modules.pop("nvidia")
    profile = with_commands({driver.MODINFO: driver.modinfo(disk) if disk else driver.NOT_FOUND}, profile)
    if libraries:
        profile = profile.plus(driver.userland("b200", libraries))
        profile.packages.update(dict.fromkeys(driver.PACKAGES, f"{libraries}-1ubuntu1"))
    return profile


def without_module(profile, kernel=KERNEL):
    """No module on disk for a kernel, whatever name it is asked under."""
    argv = ("modinfo",) if kernel == KERNEL else ("modinfo", "-k", kernel)
    names = ("nvidia", "nvidia-current", "nvidia-current-open", "nvidia-open")
    return with_commands({(*argv, name): driver.NOT_FOUND for name in names}, profile)


def not_loaded(profile):
    """Nothing loaded and nothing bound."""
    profile = profile.without("/proc/driver/nvidia", "/sys/module/nvidia")
    profile.modules = {}
    profile.links = {path: link for path, link in profile.links.items() if not path.endswith("/driver")}
    return profile


def held_by(name):
    profile = not_loaded(B200)
    profile.links.update({f"/sys/bus/pci/devices/{bdf}/driver": f"x/{name}" for bdf in gpu.BDFS["b200"]})
    return profile


def dpkg(*lines):
    """dpkg's list, each line "name state version"."""
    rows = ["\t".join((name, "amd64", f"{state} ", version)) for name, state, version in map(str.split, lines)]
    return {tuple(packages.DPKG): Reply("\n".join(rows) + "\n")}


def with_next_kernel(module, base=B200):
    """A second, newer kernel that grub boots next."""
    profile = with_files({f"/boot/vmlinuz-{NEXT}": "", "/etc/default/grub": "GRUB_DEFAULT=0\n"}, base)
    return with_commands({("modinfo", "-k", NEXT, "nvidia"): module}, profile)


def statuses(checks, status):
    return [name for name in NAMES if checks["driver." + name]["status"] == status]


def first_failure(checks):
    return next((name for name in NAMES if checks["driver." + name]["status"] == "fail"), None)


# ---- the whole -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_driver_passes_every_check(ask, kind):
    assert statuses(ask(healthy(kind)), "pass") == NAMES


def test_a_node_without_any_driver_has_one_failure(ask):
    profile = without_module(not_loaded(B200.without(LIBRARIES, "/var/lib/dkms"))).without_command("nvidia-smi")
    profile.packages = {"bash": "5.2"}
    checks = ask(profile)
    assert statuses(checks, "fail") == ["installed"]
    assert "No NVIDIA driver" in checks["driver.installed"]["reason"]


def test_without_an_nvidia_gpu_nothing_is_asked_of_the_driver(ask):
    checks = ask(B200.without("/sys/bus/pci/devices").plus(Profile(folders={"/sys/bus/pci/devices"})))
    assert statuses(checks, "not_applicable") == NAMES


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (path, content)
        for path in ("/proc/driver/nvidia/version", "/sys/module/nvidia/version")
        for content in (b"", b"\x00\xff\xfe", b"580\n", b"NVRM version: NVIDIA UNIX\n", b"x" * 70000, b"580.126.21\n")
    ],
)
def test_a_damaged_version_file_is_never_ready(ask, path, content):
    checks = ask(with_files({path: content}))
    assert "loaded" not in statuses(checks, "pass")
    assert "consistent" not in statuses(checks, "pass")


# ---- C01, C02, C11, C22: the three versions -------------------------------------------------------------------------


def test_c01_new_userland_over_the_old_module_wants_a_reboot_and_no_reinstall(ask):
    profile = with_commands({gpu.QUERY: Reply(MISMATCH, rc=18)}, versions("580.95.05", "580.126.20", "580.126.20"))
    checks = ask(profile)
    consistent = checks["driver.consistent"]
    assert first_failure(checks) == "consistent"
    assert consistent["observed"]["loaded"] == "580.95.05"
    assert consistent["observed"]["disk"] == "580.126.20"
    assert consistent["remedy"]["disruptive"] == "reboot"
    assert "do not reinstall" in consistent["remedy"]["action"]
    assert checks["driver.next_boot"]["status"] == "pass"


def test_c01_c22_an_old_branch_that_waits_for_a_reboot_is_not_called_too_old_to_serve(ask):
    checks = ask(versions("570.86.15", "580.126.20", "580.126.20"))
    assert first_failure(checks) == "consistent"
    assert checks["driver.branch"]["status"] == "fail"
    assert "580.126.20 on disk waits for a reboot" in checks["driver.branch"]["reason"]
    assert "reboot" in checks["driver.branch"]["remedy"]["action"]


def test_c02_the_lines_of_an_api_mismatch_are_joined_and_persistence_is_a_consequence(ask):
    profile = versions("580.95.05", "580.126.20", "580.126.20").plus(
        Profile(
            kernel_log=[
                "[  41.001] NVRM: API mismatch: the client has the version 580.126.20, but",
                "           NVRM: this kernel module has the version 580.95.05.  Please",
                "           NVRM: make sure that this kernel module and all NVIDIA driver",
                "           NVRM: components have the same version.",
            ],
            units={"nvidia-persistenced.service": {"ActiveState": "failed"}},
        )
    )
    checks = ask(profile)
    mismatch = checks["driver.consistent"]["observed"]["api_mismatch"]
    assert (mismatch["client"], mismatch["kernel"]) == ("580.126.20", "580.95.05")
    persistence = checks["driver.persistence"]
    assert persistence["status"] == "warn"
    assert "consequence" in persistence["reason"]
    assert "restart" not in (persistence["remedy"]["command"] or "")


@pytest.mark.parametrize(
    "lines",
    [
        [
            "[1.0] NVRM: API mismatch: the client 'dcgm' (pid 12)",
            "[1.0] NVRM: has the version 580.1.02, but",
            "[1.0] NVRM: this kernel module has the version 580.126.20.",
        ],
        [
            "kernel: NVRM: API mismatch: the client 'x' has the version 580.1.02,",
            "kernel: NVRM: but this kernel module has the version 580.126.20",
        ],
    ],
)
def test_c02_a_foreign_client_is_a_warning_where_the_host_agrees_with_itself(ask, lines):
    check = ask(B200.plus(Profile(kernel_log=lines)))["driver.consistent"]
    assert check["status"] == "warn"
    assert "580.1.02" in check["reason"]


def test_c02_a_mismatch_of_a_module_that_is_gone_is_history(ask):
    lines = [
        "NVRM: API mismatch: the client has the version 580.126.20, but",
        "NVRM: this kernel module has the version 570.1.02.",
    ]
    assert ask(B200.plus(Profile(kernel_log=lines)))["driver.consistent"]["status"] == "pass"


@pytest.mark.parametrize(
    ("loaded", "disk", "libraries", "status", "says"),
    [
        ("580.126.20", "580.126.20", "580.126.20", "pass", "all 580.126.20"),
        ("570.86.15", "580.126.20", "580.126.20", "fail", "waits for a reboot"),
        ("580.126.20", "580.126.20", "580.126.09", "fail", "The libraries are 580.126.09"),
        ("580.95.05", "580.126.20", "580.173.02", "fail", "on disk 580.126.20"),
        (None, "580.126.20", "580.126.20", "not_applicable", "agree on 580.126.20"),
        (None, "580.126.20", "580.126.09", "fail", "Nothing is loaded"),
    ],
)
def test_c22_the_table_of_versions(ask, loaded, disk, libraries, status, says):
    check = ask(versions(loaded, disk, libraries))["driver.consistent"]
    assert (check["status"], says in check["reason"]) == (status, True)


def test_a_reboot_is_not_offered_where_it_cures_nothing(ask):
    remedy = ask(versions("580.126.20", "580.126.20", "580.126.09"))["driver.consistent"]["remedy"]
    assert "a reboot alone does not cure it" in remedy["action"]


def test_two_versions_of_the_two_libraries_fail(ask):
    profile = B200.plus(
        Profile(
            files={f"{LIBRARIES}/libcuda.so.570.1.02": ""}, links={f"{LIBRARIES}/libcuda.so.1": "libcuda.so.570.1.02"}
        )
    )
    assert ask(profile)["driver.consistent"]["status"] == "fail"


def test_nvidia_smi_that_finds_foreign_libraries_is_believed(ask):
    check = ask(with_commands({gpu.QUERY: Reply(MISMATCH, rc=18)}))["driver.consistent"]
    assert (check["status"], "570.124" in check["reason"]) == ("fail", True)


@pytest.mark.parametrize(
    "profile",
    [with_commands({driver.MODINFO: Reply(hang=True)}), with_commands({driver.MODINFO: Reply("version: abc\n")})],
)
def test_an_unread_module_on_disk_is_unknown(ask, profile):
    checks = ask(profile)
    assert statuses(checks, "unknown")[:2] == ["consistent", "next_boot"]


def test_c11_packages_of_two_branches_are_the_cause_and_not_the_mismatch(ask):
    profile = versions("580.126.20", "580.126.20", "550.90.07")
    profile.packages["nvidia-kernel-common-580"] = "580.126.20-1ubuntu1"
    checks = ask(profile)
    assert first_failure(checks) == "single_origin"
    assert "550.90.07" in checks["driver.single_origin"]["reason"]


def test_c11_rpm_names_and_epochs(ask):
    rows = [
        ("nvidia-driver-cuda-libs", "3:550.90.07-1.el9"),
        ("kmod-nvidia-open-dkms", "3:570.86.15-1.el9"),
        ("nvidia-container-toolkit", "0:1.20.0-1"),
    ]
    check = ask(rpm_node(rows))["driver.single_origin"]
    assert check["status"] == "fail"
    assert check["observed"]["versions"] == ["550.90.07", "570.86.15"]


def rpm_node(rows, files=()):
    profile = B200.without("/etc/apt").without_command("dpkg-query")
    profile.packages = {}
    listed = "".join(f"{name}\tx86_64\tii \t{version}\n" for name, version in rows)
    owned = ("rpm", "-qf", f"{LIBRARIES}/libcuda.so.580.126.20", f"{LIBRARIES}/libnvidia-ml.so.580.126.20")
    return with_commands({tuple(packages.RPM): Reply(listed), owned: Reply("a\nb\n")}, with_files(dict(files), profile))


# ---- C03: leftovers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["/usr/bin/nvidia-uninstall", "/var/lib/nvidia/log"])
def test_c03_a_runfile_under_packages_is_the_cause(ask, mark):
    checks = ask(with_files({mark: ""}, versions("580.126.09", "580.126.20", "580.126.20")))
    assert first_failure(checks) == "leftover"
    assert mark in checks["driver.leftover"]["reason"]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply(stderr="dpkg-query: no path found matching pattern x", rc=1), "fail"),
        (Reply(f"libnvidia-compute-580:amd64: {LIBRARIES[4:]}/libcuda.so.570.124.04\n", rc=1), "pass"),
        (Reply(hang=True), "unknown"),
        (Reply(rc=2, stderr="database is locked"), "unknown"),
    ],
)
def test_c03_a_library_that_no_package_owns(ask, reply, status):
    path = f"{LIBRARIES}/libcuda.so.570.124.04"
    profile = with_commands({(*DPKG_S, path, path[4:]): reply}, with_files({path: ""}))
    assert ask(profile)["driver.leftover"]["status"] == status


def test_a_runfile_without_packages_only_warns(ask):
    profile = with_files({"/usr/bin/nvidia-uninstall": ""}, B200.without("/var/lib/dpkg"))
    profile.packages = {"bash": "5.2"}
    paths = [f"{LIBRARIES}/{name}.so.580.126.20" for name in ("libcuda", "libnvidia-ml")]
    asked = [spelling for path in paths for spelling in (path, path[4:])]
    checks = ask(with_commands({(*DPKG_S, *asked): Reply(stderr="no path found", rc=1)}, profile))
    assert checks["driver.leftover"]["status"] == "warn"
    assert checks["driver.single_origin"]["status"] == checks["driver.pinned"]["status"] == "not_applicable"


def test_no_package_database_leaves_the_package_checks_unknown(ask):
    profile = B200.without("/var/lib/dpkg")
    profile.packages = {}
    assert statuses(ask(profile), "unknown") == ["leftover", "single_origin", "pinned"]


# ---- C04, C05: the module on disk -----------------------------------------------------------------------------------


HEAD = f"DKMS make.log for nvidia-580.126.20 for kernel {KERNEL} (x86_64)\n"
COMPILER_LOG = HEAD + (
    "warning: the compiler differs from the one used to build the kernel\n"
    "  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0\n"
    "  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
)
MAKE_LOG = f"{driver.dkms('b200')}/build/make.log"


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
    path = CAPTURES / "dkms" / "make-550.163.01-on-6.12.117.log"
    if not path.is_file():
        pytest.skip(f"the capture {path.name} does not lie beside this copy of the repository")
    log = path.read_bytes()
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


# ---- C07, C12, C14: packages and their origin -----------------------------------------------------------------------


def test_c07_two_origins_of_two_versions(ask):
    profile = with_commands(
        dpkg(
            "nvidia-driver-580-open ii 580.126.20-1ubuntu1",
            "libnvidia-compute-580 ii 580.126.09-0ubuntu0.24.04.1",
        )
    )
    check = ask(profile)["driver.single_origin"]
    assert check["status"] == "fail"
    assert check["observed"]["origins"] == ["NVIDIA's repository", "the Ubuntu archive"]


def test_c07_two_origins_of_one_version_warn(ask):
    profile = B200.plus(Profile(packages={"nvidia-utils-580": "580.126.20-0ubuntu0.24.04.1"}))
    assert ask(profile)["driver.single_origin"]["status"] == "warn"


UBUNTU = (
    "Types: deb\nURIs: http://archive.ubuntu.com/ubuntu/\nSuites: noble noble-updates\nComponents: main restricted\n"
)
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64"


UBUNTU_SOURCES = "/etc/apt/sources.list.d/ubuntu.sources"
OLD_LIST = "/etc/apt/sources.list.d/old.list"
KEY = "[signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg]"


@pytest.mark.parametrize(
    ("files", "status", "says"),
    [
        ({UBUNTU_SOURCES: UBUNTU}, "pass", "have version"),
        ({UBUNTU_SOURCES: UBUNTU, driver.PREFERENCES: ""}, "warn", "both offer the driver"),
        (
            {UBUNTU_SOURCES: UBUNTU, driver.PREFERENCES: "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"},
            "pass",
            "have version",
        ),
        ({UBUNTU_SOURCES: UBUNTU + "Enabled: no\n", driver.PREFERENCES: ""}, "pass", "have version"),
        ({OLD_LIST: f"deb {CUDA} /\n"}, "warn", "different keys"),
        ({OLD_LIST: f"deb [trusted=yes] {CUDA}/sub /\n"}, "warn", "check of signatures off"),
        ({OLD_LIST: f"deb {KEY} {CUDA.replace('2404', '2204')} /\n"}, "warn", "several distributions"),
        ({OLD_LIST: f"deb {KEY} {CUDA.replace('x86_64', 'sbsa')} /\n"}, "warn", "this machine's is x86_64"),
        ({OLD_LIST: f"# deb {CUDA} /\n"}, "pass", "have version"),
    ],
)
def test_c07_c12_c13_the_configured_repositories(ask, files, status, says):
    check = ask(with_files(files))["driver.single_origin"]
    assert (check["status"], says in check["reason"]) == (status, True), check["reason"]


@pytest.mark.parametrize(
    "line",
    [
        "nvlsm 2025.10.14-1",
        "nvidia-container-toolkit 1.20.0-1",
        "libnvidia-container1 1.20.0-1",
        "nvidia-modprobe 570.133.20-1",
        "libnvidia-egl-wayland1 1:1.1.18-1",
        "nvidia-kernel-common 20220217+3~deb12u1",
        "nvidia-driver-pinning-580 580-1ubuntu1",
        "nvidia-driver-local-repo-ubuntu2404-570.86.15 570.86.15-1",
        "nvidia-firmware-570-570.86.15 570.86.15-0ubuntu0.24.04.1",
        # Fabric manager's equality is judged by the concern `fabric` (C14).
        "nvidia-fabricmanager 590.48.01-1",
    ],
)
def test_c14_what_is_not_locked_to_the_driver_does_not_split_the_set(ask, line):
    name, version = line.split()
    assert ask(B200.plus(Profile(packages={name: version})))["driver.single_origin"]["status"] == "pass"


# ---- C17, C21, C23: flavour and branch ------------------------------------------------------------------------------


def proprietary(base, line=True, version="580.126.20"):
    files = driver.loaded(version, flavour="proprietary").files if line else {}
    return with_commands({driver.MODINFO: driver.modinfo(version, licence="NVIDIA")}, with_files(files, base))


def test_c17_proprietary_on_blackwell_is_the_cause(ask):
    checks = ask(proprietary(B200))
    assert first_failure(checks) == "flavour"
    assert checks["driver.flavour"]["required"] == "open"


def test_c17_proprietary_on_hopper_serves(ask):
    profile = proprietary(H100).plus(Profile(commands={driver.MODINFO: driver.modinfo("580.126.20", licence="NVIDIA")}))
    assert ask(profile)["driver.flavour"]["status"] == "pass"
    assert ask(profile, {"driver_flavour": "open"})["driver.flavour"]["status"] == "fail"


def test_c17_the_licence_of_another_module_proves_nothing(ask):
    profile = with_commands({("modinfo", "nvidia_uvm"): Reply("license: Dual MIT/GPL\n")}, proprietary(B200))
    assert ask(profile)["driver.flavour"]["status"] == "fail"


def test_c17_nothing_loaded_is_judged_by_the_module_on_disk(ask):
    profile = not_loaded(proprietary(B200, line=False)).plus(
        Profile(
            kernel_log=[
                "[ 5.5] NVRM: The NVIDIA GPU 0000:1b:00.0 (PCI ID: 10de:2901)",
                "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
                "[ 5.6] NVRM: No NVIDIA devices probed.",
            ]
        )
    )
    checks = ask(profile)
    assert first_failure(checks) == "flavour"
    assert checks["driver.bound"]["status"] == "not_applicable"


def unlisted(base):
    profile = base
    for bdf in gpu.BDFS["h100"]:
        profile = with_files({f"/sys/bus/pci/devices/{bdf}/device": "0xfffe\n"}, profile)
    return profile


def test_c17_an_unlisted_product_is_unknown_unless_the_kernel_says_it(ask):
    profile = proprietary(unlisted(H100))
    assert ask(profile)["driver.flavour"]["status"] == "unknown"
    said = Profile(kernel_log=["NVRM: installed in this system requires use of the NVIDIA open kernel modules."])
    assert ask(profile.plus(said))["driver.flavour"]["status"] == "fail"
    assert ask(unlisted(H100))["driver.flavour"]["status"] == "pass"


def test_c17_a_contract_that_asks_for_the_impossible_is_told(ask):
    check = ask(B200, {"driver_flavour": "proprietary"})["driver.flavour"]
    assert (check["status"], "driver_flavour" in check["reason"]) == ("fail", True)


def test_a_flavour_that_nothing_tells_is_unknown(ask):
    profile = with_commands(
        {driver.MODINFO: driver.modinfo("580.126.20", licence="Proprietary?")},
        B200.without("/proc/driver/nvidia/version"),
    )
    assert ask(profile)["driver.flavour"]["status"] == "unknown"


@pytest.mark.parametrize(
    ("version", "require", "status"),
    [
        ("575.57.08", {}, "fail"),
        ("580.65.06", {}, "pass"),
        ("580.9.1", {}, "fail"),
        ("580.126.20", {}, "pass"),
        ("595.91.07", {}, "pass"),
        ("610.57.04", {}, "pass"),
        ("1000.1.1", {}, "pass"),
        ("575.57.08", {"driver_branch_min": 570}, "pass"),
        ("580.65.05", {"driver_version_min": ""}, "pass"),
        ("580.126.20", {"driver_version": "580.126.20"}, "pass"),
        ("580.126.20", {"driver_version": "580.126.09"}, "fail"),
    ],
)
def test_c21_branches_are_compared_as_integers(ask, version, require, status):
    assert ask(versions(version, version, version), require)["driver.branch"]["status"] == status


@pytest.mark.parametrize(
    "banner",
    [
        "| NVIDIA-SMI 610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3     |",
        "| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |",
    ],
)
def test_c21_the_banner_is_never_read_and_an_empty_parse_is_not_too_old(ask, banner):
    profile = with_commands({gpu.QUERY: Reply(banner)})
    assert ask(profile)["driver.branch"]["observed"] == "580.126.20"
    check = ask(with_files({"/proc/driver/nvidia/version": banner + "\n"}, profile))["driver.branch"]
    assert check["status"] == "unknown"


def test_c21_without_a_loaded_module_the_one_on_disk_speaks_and_is_named(ask):
    check = ask(versions(None, "575.57.08", "575.57.08"))["driver.branch"]
    assert (check["status"], "575" in check["reason"]) == ("fail", True)
    assert "on disk" in check["evidence"][0]["source"]


def test_c23_the_loaded_version_of_each_node_is_a_fact_the_fleet_compares(report_of):
    facts = report_of(healthy("gb200"))["facts"]["driver"]
    assert facts["loaded"]["version"] == "580.173.02"


# ---- C19, C20, C22: bound and loaded --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holder", "says"),
    [("nouveau", "nova_core"), ("nova_core", "nouveau"), ("vfio-pci", "virtual machines"), ("odd", "Find out what")],
)
def test_c20_another_driver_that_holds_the_gpus_is_the_cause(ask, holder, says):
    profile = held_by(holder).plus(Profile(kernel_log=["NVRM: GPU 0000:1b:00.0 is already bound to NovaCore."]))
    checks = ask(profile)
    assert first_failure(checks) == "bound"
    assert holder in checks["driver.bound"]["reason"]
    assert checks["driver.loaded"]["remedy"]["command"] is None
    assert says in checks["driver.bound"]["remedy"]["action"]


def test_one_gpu_that_the_loaded_driver_did_not_take_fails_by_its_address(ask):
    bdf = gpu.BDFS["b200"][3]
    check = ask(B200.without(f"/sys/bus/pci/devices/{bdf}/driver"))["driver.bound"]
    assert (check["status"], bdf in check["reason"]) == ("fail", True)


def test_c19_c22_a_module_that_is_not_loaded_is_loaded_before_anything_else(ask):
    checks = ask(not_loaded(B200))
    assert first_failure(checks) == "loaded"
    assert checks["driver.loaded"]["remedy"]["command"] == "modprobe nvidia"
    assert "reboot" in checks["driver.loaded"]["remedy"]["action"]
    assert checks["driver.bound"]["status"] == "not_applicable"


def test_a_loaded_module_without_a_version_is_unknown(ask):
    profile = B200.without("/proc/driver/nvidia/version", "/sys/module/nvidia")
    assert ask(profile)["driver.loaded"]["status"] == "unknown"


# ---- C01, C08: pinned -----------------------------------------------------------------------------------------------


def pin(text, path=driver.PREFERENCES):
    return with_files({path: text}, B200.without("/etc/apt/preferences.d"))


BRANCH_PIN = "Package: src:*nvidia*:any\nPin: version 580.*\nPin-Priority: 1001\n"
UNATTENDED = Profile(
    packages={"unattended-upgrades": "2.9"},
    files={"/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";\n'},
)
BLACKLIST = {"/etc/apt/apt.conf.d/51k3": 'Unattended-Upgrade::Package-Blacklist {\n  "nvidia-";\n  "libnvidia-";\n};\n'}


@pytest.mark.parametrize(
    ("profile", "status", "says"),
    [
        (pin(""), "warn", "are not held"),
        (pin("").plus(UNATTENDED), "warn", "unattended-upgrades"),
        (pin(BRANCH_PIN), "pass", "on its branch"),
        (pin(BRANCH_PIN).plus(UNATTENDED), "warn", "on its branch only"),
        (with_files(BLACKLIST, pin(BRANCH_PIN).plus(UNATTENDED)), "pass", "on its branch"),
        (B200.plus(UNATTENDED), "pass", "at their version"),
        # Pins that are there and have no effect (trap 11).
        (pin(BRANCH_PIN, driver.PREFERENCES + ".conf"), "warn", "not read by apt"),
        (pin(BRANCH_PIN.replace("580", "570")), "warn", "does not hold"),
        (pin(BRANCH_PIN.replace("1001", "100")), "warn", "does not hold"),
        (pin(BRANCH_PIN.replace("1001", "high")), "warn", "does not hold"),
        (pin("Package: nvidia-utils-580\nPin: version 580.126.20-*\nPin-Priority: 1001\n"), "warn", "not held"),
        (pin("Package: /(/\nPin: version 580*\nPin-Priority: 1001\n"), "warn", "not held"),
    ],
)
def test_c01_pins_are_judged_by_their_effect(ask, profile, status, says):
    check = ask(profile)["driver.pinned"]
    assert (check["status"], says in check["reason"]) == (status, True), check["reason"]


def test_c08_packages_on_hold_are_pinned(ask):
    lines = [f"{name} hi 580.126.20-1ubuntu1" for name in driver.PACKAGES]
    assert ask(with_commands(dpkg(*lines), pin("")))["driver.pinned"]["status"] == "pass"
    check = ask(with_commands(dpkg(*lines[1:], f"{driver.PACKAGES[0]} ii 580.126.20-1ubuntu1"), pin("")))[
        "driver.pinned"
    ]
    assert (check["status"], check["observed"]["not_held"]) == ("warn", [driver.PACKAGES[0]])


RPMS = [("nvidia-driver-cuda-libs", "3:580.126.20-1.el9"), ("kmod-nvidia-open-dkms", "3:580.126.20-1.el9")]
PLUGIN = [*RPMS, ("python3-dnf-plugin-versionlock", "0:4.3-1.el9")]
LOCKS = {"/etc/dnf/plugins/versionlock.list": "".join(f"{name}-{version}.*\n" for name, version in RPMS)}


@pytest.mark.parametrize(
    ("rows", "files", "status", "says"),
    [
        (PLUGIN, LOCKS, "pass", "at their version"),
        (RPMS, LOCKS, "warn", "plugin is not installed"),
        (PLUGIN, {**LOCKS, "/etc/dnf/plugins/versionlock.conf": "[main]\nenabled = 0\n"}, "warn", "switched off"),
        (PLUGIN, {"/etc/dnf/plugins/versionlock.list": "*nvidia*580*\n"}, "pass", "on its branch"),
        (RPMS, {"/etc/dnf/dnf.conf": "[main]\nexclude=nvidia* kmod-nvidia*\n"}, "pass", "driver"),
        (RPMS, {"/etc/dnf/dnf.conf": "[main]\nthis line is broken\nexclude=nvidia*\n"}, "warn", "cannot read"),
        (RPMS, {"/etc/dnf/versionlock.toml": '[[packages]]\nname = "*nvidia*"\n'}, "pass", "driver"),
        (
            RPMS,
            {"/etc/dnf/modules.d/nvidia-driver.module": "[nvidia-driver]\nstream=580-open\nstate=enabled\n"},
            "pass",
            "on its branch",
        ),
        (RPMS, {}, "warn", "not held"),
    ],
)
def test_the_locks_of_dnf_are_judged_by_their_effect(ask, rows, files, status, says):
    check = ask(rpm_node(rows, files))["driver.pinned"]
    assert (check["status"], says in check["reason"]) == (status, True), check["reason"]


def test_rpm_tells_a_file_that_no_package_owns(ask):
    paths = [f"{LIBRARIES}/{name}.so.580.126.20" for name in ("libcuda", "libnvidia-ml")]
    reply = Reply("".join(f"file {path} is not owned by any package\n" for path in paths), rc=2)
    check = ask(with_commands({("rpm", "-qf", *paths): reply}, rpm_node(RPMS)))["driver.leftover"]
    assert (check["status"], check["observed"]) == ("fail", paths)


# ---- persistence, owner ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        (B200.plus(Profile(units={"nvidia-persistenced.service": {"ActiveState": "inactive"}})), "warn"),
        (B200.plus(gpu.answering("b200", gpus={2: {"persistence_mode": "Disabled"}})), "warn"),
        (B200.plus(gpu.answering("b200", gpus={2: {"persistence_mode": None}})), "unknown"),
        (with_commands({gpu.QUERY: Reply(hang=True)}), "unknown"),
        (not_loaded(B200), "not_applicable"),
    ],
)
def test_persistence_only_warns(ask, profile, status):
    check = ask(profile)["driver.persistence"]
    assert (check["status"], check["blocking"]) == (status, False)


def in_a_container(base=B200):
    """The driver of a driver container: nothing of it in the host's own folders."""
    tree = "/run/nvidia/driver"
    host = without_module(base.without(LIBRARIES, "/var/lib/dpkg", "/var/lib/dkms")).without_command("nvidia-smi")
    host.packages = {"bash": "5.2"}
    inside = driver.userland("b200", "580.126.20")
    return host.plus(
        Profile(
            files={f"{tree}/usr/bin/nvidia-smi": "", **{tree + path: text for path, text in inside.files.items()}},
            links={tree + path: link for path, link in inside.links.items()},
        )
    )


def test_a_driver_container_is_read_in_its_own_tree_and_keeps_its_cures(ask):
    checks = ask(in_a_container())
    assert "driver container" in checks["driver.managed_by"]["reason"]
    assert statuses(checks, "fail") == []
    assert statuses(checks, "not_applicable") == ["leftover", "single_origin", "next_boot", "pinned"]
    assert checks["driver.consistent"]["status"] == "pass"
    broken = ask(with_files(driver.loaded("570.86.15").files, in_a_container()))["driver.consistent"]
    assert broken["status"] == "fail"
    assert "manages this part" in broken["remedy"]["action"]


def test_an_owner_and_a_bus_that_cannot_be_read_are_unknown(make_node):
    unread = Unknown("needs root")
    facts = {"driver": {**concern.collect(make_node(B200)), "gpus": unread}, "owners": {"driver": unread}}
    checks = {check.id: check for check in concern.assess(facts, contract.defaults())}
    for name in ("managed_by", "bound"):
        assert (checks["driver." + name].status, checks["driver." + name].reason) == ("unknown", "needs root")


def test_schedulers_are_named(ask):
    check = ask(with_files({"/proc/77/comm": "slurmd\n"}))["driver.managed_by"]
    assert "drain there first" in check["reason"]


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe\x1b[2J", b"\n" * 3000, b"[" * 5000, b": =\n\tx\n" * 200])
def test_no_content_of_any_file_breaks_the_concern(ask, content):
    profile = driver.healthy("b200").plus(with_next_kernel(driver.modinfo("580.126.20"))).plus(rpm_files(content))
    for path in profile.files:
        if "/pci/" not in path and "/proc/sys/" not in path:
            profile.files[path] = content
    checks = ask(profile)
    assert not [
        check["reason"]
        for check in checks.values()
        if check["id"].startswith("driver.") and " failed: " in check["reason"]
    ]
    assert "consistent" not in statuses(checks, "pass")


def rpm_files(content):
    paths = (
        "dnf/dnf.conf",
        "dnf/plugins/versionlock.list",
        "dnf/versionlock.toml",
        "yum.repos.d/x.repo",
        "default/grub",
    )
    return Profile(files={**{f"/etc/{path}": content for path in paths}, MAKE_LOG: content})


@pytest.mark.parametrize(
    "reply", [Reply("\x00\x1b[2J" * 50), Reply("version: 580\n" * 9), Reply(rc=-9), Reply(hang=True)]
)
@pytest.mark.parametrize("program", ["modinfo", "nvidia-smi", "dmesg"])
def test_no_answer_of_any_command_breaks_the_concern(ask, program, reply):
    profile = B200
    profile = with_commands({argv: reply for argv in B200.all_commands() if argv[0] == program}, profile)
    checks = ask(profile)
    assert not [
        check["reason"]
        for check in checks.values()
        if check["id"].startswith("driver.") and " failed: " in check["reason"]
    ]
    if program == "modinfo":
        assert "next_boot" not in statuses(checks, "pass")
