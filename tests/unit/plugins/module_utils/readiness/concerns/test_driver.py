# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The driver as a whole, who manages it, and content that must break nothing."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import driver as concern
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.drivers import (
    B200,
    LIBRARIES,
    MAKE_LOG,
    NAMES,
    not_loaded,
    statuses,
    with_commands,
    with_files,
    with_next_kernel,
    without_module,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, Profile, Reply


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


# ---- hostile content ------------------------------------------------------------------------------------------------


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
