# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""C17, C19, C20, C21, C22, C23: the module that runs: its flavour, its branch, and what it is bound to."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.drivers import (
    B200,
    H100,
    first_failure,
    held_by,
    not_loaded,
    versions,
    with_commands,
    with_files,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply

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
