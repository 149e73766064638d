# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""dnf's list of locks: ours are replaced, the site's stay to the letter."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import versionlock

SITE = "# Added lock on Mon\nkernel-0:5.14.0-570.el9.*\n\n!bash-0:5.1-2.*\n*nvidia*580*\n"
OURS = f"{versionlock.MARK}\nnvidia-open-3:580.95.05-1.el9.*\n"


@pytest.mark.parametrize(
    ("line", "name", "ours"),
    [
        ("nvidia-open-3:580.95.05-1.el9.*", "nvidia-open", True),
        ("3:nvidia-open-580.95.05-1.el9.*", "nvidia-open", True),
        ("nvidia-driver-3:580*", "nvidia-driver", True),
        ("nvidia-open", "nvidia-open", True),
        ("kernel-0:5.14.0-570.el9.*", "kernel", False),
        ("*nvidia*580*", "*nvidia*580*", False),
        ("nvidia-*-3:580.95.05-1.el9.*", "nvidia-*", False),
        ("!nvidia-open-3:595.71.05-1.el9.*", "!nvidia-open", False),
    ],
)
def test_a_lock_is_ours_where_it_names_one_package_of_the_set(line, name, ours):
    (lock,) = versionlock.read(line)
    assert lock.name == name
    assert lock.is_ours(("*nvidia*",)) is ours


def test_a_marked_lock_is_ours_whatever_it_names():
    locks = versionlock.read(SITE + f"{versionlock.MARK}\nnvlsm-0:2025.10.14-1.*\n")
    assert [lock.line for lock in locks if lock.is_ours(())] == ["nvlsm-0:2025.10.14-1.*"]


def test_the_list_changes_in_our_lines_only():
    new = versionlock.changed(
        SITE + OURS + "# end\n", ["nvidia-open-3:580.95.05-1.el9.*"], ["nvidia-open-3:580.126.20-1.el9.*"]
    )
    assert new == SITE + "# end\n" + OURS.replace("580.95.05", "580.126.20")


def test_a_lock_names_the_epoch_as_dnf_does():
    assert versionlock.line_of("nvlsm", "2025.10.14-1.el9") == "nvlsm-0:2025.10.14-1.el9.*"
    assert versionlock.line_of("nvidia-open", "3:580.126.20-1.el9") == "nvidia-open-3:580.126.20-1.el9.*"
