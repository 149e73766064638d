# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Arguments are refused one by one, and versions fit up to a dot."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import arguments, request
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError


def given(**changes):
    return {**{name: option.get("default") for name, option in arguments.SPEC.items()}, **changes}


def package(name="nvidia-open", **more):
    return {"name": name, "version": None, "arch": None, "pick": "only", "repository": None, **more}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"install": [package("a b")]}, "install[0].name: 'a b' is not allowed"),
        ({"install": [package("-o")]}, "install[0].name: '-o' is not allowed"),
        ({"install": [package(version="580 ")]}, "install[0].version: '580 ' is not allowed"),
        ({"install": [package(version="$(id)")]}, "install[0].version"),
        ({"install": [package(arch="AMD 64")]}, "install[0].arch"),
        ({"install": [package(repository="x")]}, "allowed: none, since repositories is empty"),
        ({"install": [package(), package()]}, "install: 'nvidia-open:' is asked for twice"),
        ({"remove": ["*"]}, "remove: '*' names every package"),
        ({"remove": ["-f"]}, "remove[0]: '-f' is not allowed"),
        ({"allow_remove": ["?*"]}, "allow_remove: '?*' names every package"),
        ({"hold": ["a;b"]}, "hold[0]: 'a;b' is not allowed"),
        ({"expect": "abc"}, "expect: 'abc' is not allowed"),
        ({"download_dir": "relative"}, "download_dir: 'relative' is not allowed"),
        ({"transaction_timeout": 1}, "transaction_timeout: 1 is not allowed; allowed: seconds from 10 to 86400"),
        ({"lock_timeout": -1}, "lock_timeout: -1 is not allowed"),
        ({"module_streams": {"nvidia-driver": "580-open"}}, "module_streams: only dnf"),
        (
            {"preferences": [{"path": "/etc/passwd", "content": "x"}]},
            "preferences[0].path: '/etc/passwd' is not allowed",
        ),
    ],
)
def test_a_bad_argument_is_named_with_its_value(changes, says):
    with pytest.raises(PlanError) as refused:
        request.parse(given(**changes), "apt")
    assert says in str(refused.value)


@pytest.mark.parametrize("streams", [{"m": []}, {"m": [1]}, {"m": "a b"}, {"m n": "a"}, {"m": {"a": 1}}])
def test_a_bad_stream_is_refused(streams):
    with pytest.raises(PlanError, match="module_streams"):
        request.parse(given(module_streams=streams), "dnf")


def test_a_stream_may_be_a_list_of_choices():
    made = request.parse(given(module_streams={"nvidia-driver": ["580-open", "open-dkms"], "x": "1"}), "dnf")
    assert made.module_streams == {"nvidia-driver": ("580-open", "open-dkms"), "x": ("1",)}


@pytest.mark.parametrize(
    ("asked", "version", "fits"),
    [
        ("580.126.20", "580.126.20-1ubuntu1", True),
        ("580.126.20", "3:580.126.20-1.el9", True),
        ("580.126.20-1.el9", "3:580.126.20-1.el9", True),
        ("3:580.126.20-1.el9", "3:580.126.20-1.el9", True),
        ("580", "580.126.20-1", True),
        ("580.126", "580.126.20-1", True),
        ("580.12", "580.126.20-1", False),
        ("58", "580.126.20-1", False),
        ("580.126.2", "580.126.20-1", False),
        ("2025.10.14", "2025.10.14-1", True),
        ("4:580.126.20-1.el9", "3:580.126.20-1.el9", False),
        (None, "1", True),
    ],
)
def test_a_version_fits_in_full_or_up_to_a_dot(asked, version, fits):
    assert request.Wanted("x", asked, None, "only", None).accepts(version) is fits
