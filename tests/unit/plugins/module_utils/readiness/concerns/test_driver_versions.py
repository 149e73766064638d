# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""C01, C02, C22: the versions of the loaded module, the module on disk and the libraries."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.drivers import (
    B200,
    LIBRARIES,
    MISMATCH,
    first_failure,
    statuses,
    versions,
    with_commands,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply


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
