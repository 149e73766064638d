# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""C01, C08: what keeps the driver at its version."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.drivers import (
    B200,
    RPMS,
    dpkg,
    rpm_node,
    with_commands,
    with_files,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile


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
