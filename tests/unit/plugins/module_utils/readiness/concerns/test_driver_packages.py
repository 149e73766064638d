# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""C03, C07, C11, C12, C14: the driver's packages, their origin, and what no package owns."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.drivers import (
    B200,
    LIBRARIES,
    RPMS,
    dpkg,
    first_failure,
    rpm_node,
    statuses,
    versions,
    with_commands,
    with_files,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply

DPKG_S = ("dpkg-query", "-S")


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


def test_rpm_tells_a_file_that_no_package_owns(ask):
    paths = [f"{LIBRARIES}/{name}.so.580.126.20" for name in ("libcuda", "libnvidia-ml")]
    reply = Reply("".join(f"file {path} is not owned by any package\n" for path in paths), rc=2)
    check = ask(with_commands({("rpm", "-qf", *paths): reply}, rpm_node(RPMS)))["driver.leftover"]
    assert (check["status"], check["observed"]) == ("fail", paths)


# ---- C11: one set of packages ---------------------------------------------------------------------------------------


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


# ---- C07, C12, C14: where they come from ----------------------------------------------------------------------------


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
