# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What apt prints is read as apt means it; the lines were printed by apt 2.6 and 3.0."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import apt_output, dpkg

URI = "http://127.0.0.1:8000/cuda/repos/debian12/x86_64/"


def test_the_steps_of_a_simulation():
    text = """\
Remv nvidia-fabricmanager-575 [575.57.08-1]
Inst libcuda1 [575.57.08-1] (580.126.20-1 NVIDIA CUDA:580.126.20-1/now [amd64]) [nvidia-driver-cuda:amd64 ]
Inst nvidia-imex:arm64 (580.126.20-1 NVIDIA CUDA: [arm64])
Inst libgcc-s1 [12.2.0-14] (12.2.0-14+deb12u1 Debian:12.12/oldstable, Debian-Security:12/oldstable-security [amd64])
Conf libcuda1 (580.126.20-1 NVIDIA CUDA: [amd64])
"""
    assert apt_output.steps(text) == [
        apt_output.Step("nvidia-fabricmanager-575", "575.57.08-1", None, ""),
        apt_output.Step("libcuda1", "575.57.08-1", "580.126.20-1", "amd64"),
        apt_output.Step("nvidia-imex:arm64", None, "580.126.20-1", "arm64"),
        apt_output.Step("libgcc-s1", "12.2.0-14", "12.2.0-14+deb12u1", "amd64"),
    ]


def test_the_addresses_of_what_would_be_fetched():
    text = f"'{URI}./x_1%3a2-1_amd64.deb' x_1%3a2-1_amd64.deb 1234 SHA512:ab\n'{URI}y_2_all.deb' y_2_all.deb 5\n"
    assert apt_output.uris(text) == {
        ("x", "1:2-1"): (f"{URI}./x_1%3a2-1_amd64.deb", "x_1%3a2-1_amd64.deb", 1234),
        ("y", "2"): (f"{URI}y_2_all.deb", "y_2_all.deb", 5),
    }


def test_the_offers():
    text = f" nvidia-open | 595.71.05-1 | {URI}  Packages\n nvidia-open | 580.126.20-1 | {URI}  Packages\n"
    text += (
        " tzdata | 2025b-0 | http://archive.invalid/debian bookworm/main amd64 Packages\n nvidia-open | 1 | x Sources\n"
    )
    assert apt_output.madison(text) == [
        ("nvidia-open", "595.71.05-1", URI),
        ("nvidia-open", "580.126.20-1", URI),
        ("tzdata", "2025b-0", "http://archive.invalid/debian"),
    ]


NO_KEY = (
    f"W: GPG error: {URI}  InRelease: The following signatures couldn't be verified because the public key "
    "is not available: NO_PUBKEY A4B469963BF863CC"
)


@pytest.mark.parametrize(
    ("line", "kind", "ours"),
    [
        (
            NO_KEY,
            "signature",
            True,
        ),
        (f"E: The repository '{URI}  InRelease' is not signed.", "signature", True),
        (f"W: {URI}InRelease: Policy will reject signature: SHA1 is not considered secure since 2026-02-01T00:00:00Z", "signature", True),
        (f"E: Failed to fetch {URI}Packages.gz  File has unexpected size (900 != 2205). Mirror sync in progress?", "broken", True),
        (f"E: Conflicting values set for option Signed-By regarding source {URI} /: a.asc != b.asc", "clash", True),
        (f"E: The repository '{URI}  Release' does not have a Release file.", "unreachable", True),
        ("E: Failed to fetch http://site/dists/stable/InRelease  Could not connect", "unreachable", False),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_repository(line, kind, ours):
    assert apt_output.troubles(line + "\nE: Some index files failed to download.\n", (URI,)) == [
        apt_output.Trouble(kind, line[3:], ours)
    ]


def test_the_reason_for_no_solution_and_the_exact_needs_in_it():
    text = """\
The following packages have unmet dependencies:
 nvidia-driver-580-open : Depends: libnvidia-compute-580 (= 580.126.20-1ubuntu1) but 580.126.09-0ubuntu0.24.04.1 is to be installed
 x : Depends: y (>= 2) but it is not installable
E: Unable to correct problems, you have held broken packages.
"""
    said = apt_output.complaint(text)
    assert said.startswith(
        "nvidia-driver-580-open : Depends: libnvidia-compute-580 (= 580.126.20-1ubuntu1) but 580.126.09"
    )
    assert said.endswith("Unable to correct problems, you have held broken packages.")
    assert apt_output.exact_needs(text) == [("libnvidia-compute-580", "580.126.20-1ubuntu1")]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("580.9.1-1", "580.126.20-1"),
        ("580.95.05-1", "580.126.20-1"),
        ("580.126.20-0ubuntu0.24.04.1", "580.126.20-1ubuntu1"),
        ("9:1-1", "10:1-1"),
        ("2:1-1", "10:0-1"),
        ("1.0~rc1-1", "1.0-1"),
        ("1.0-1", "1.0-1+b1"),
        ("1.0-1", "1.0a-1"),
        ("1.0a-1", "1.0+-1"),
        ("1.0", "1.0-1"),
    ],
)
def test_versions_are_ordered_as_dpkg_orders_them(older, newer):
    assert dpkg.compare(older, newer) == -1
    assert dpkg.compare(newer, older) == 1
    assert dpkg.compare(older, older) == 0


def test_a_leading_zero_makes_no_difference():
    assert dpkg.compare("580.65.06-1", "580.65.6-1") == 0


def test_a_hold_is_lifted_in_the_copy_for_the_named_packages_only():
    text = "Package: a\nStatus: hold ok installed\n\nPackage: b\nStatus: hold ok installed\nDescription: x\n Status: hold\n"
    assert dpkg.status_without_holds(text, {"a"}) == text.replace("Status: hold ok", "Status: install ok", 1)
