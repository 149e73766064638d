# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Repository files that would take unsigned packages are refused, with the offending text."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import signed
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQGN\n-----END PGP PUBLIC KEY BLOCK-----\n"
APT_KEY = "/usr/share/keyrings/cuda.asc"
DNF_KEY = "/etc/pki/rpm-gpg/CUDA"
LIST = f"deb [arch=amd64 signed-by={APT_KEY}] https://mirror/cuda/ /\n"
SOURCES = f"Types: deb\nURIs: https://mirror/cuda/\nSuites: /\nSigned-By: {APT_KEY}\n"
REPO = f"[cuda]\nname=cuda\nbaseurl=https://mirror/cuda/\ngpgcheck=1\ngpgkey=file://{DNF_KEY}\n"
PATHS = {
    "list": "/etc/apt/sources.list.d/cuda.list",
    "sources": "/etc/apt/sources.list.d/cuda.sources",
    "repo": "/etc/yum.repos.d/cuda.repo",
}


def parse(kind, text, **more):
    family = "dnf" if kind == "repo" else "apt"
    given = {"name": "cuda", "path": PATHS[kind], "content": text, "key": KEY, "state": "present"}
    given["key_path"] = DNF_KEY if kind == "repo" else APT_KEY
    return signed.repository({**given, **more}, family, "repositories[0]")


@pytest.mark.parametrize(("kind", "content"), [("list", LIST), ("sources", SOURCES), ("repo", REPO)])
def test_a_signed_repository_is_taken_and_its_key_written_first(kind, content):
    made = parse(kind, content)
    assert made.uris == ("https://mirror/cuda/",)
    assert [file.path for file in made.files] == [DNF_KEY if kind == "repo" else APT_KEY, PATHS[kind]]


@pytest.mark.parametrize(
    ("kind", "content", "says"),
    [
        ("list", LIST.replace("arch=amd64", "trusted=yes"), "trusted=yes"),
        ("list", LIST.replace("arch=amd64", "Trusted=TRUE"), "trusted=TRUE"),
        ("list", LIST.replace("arch=amd64", "trusted=maybe"), "trusted=maybe"),
        ("list", LIST.replace("arch=amd64", "allow-insecure=yes"), "allow-insecure=yes"),
        ("list", LIST.replace("arch=amd64", "allow-downgrade-to-insecure=1"), "allow-downgrade-to-insecure=1"),
        ("list", "deb https://mirror/cuda/ /\n", "no Signed-By"),
        ("list", LIST + "deb https://other/ /\n", "deb https://other/ / has no Signed-By"),
        ("list", LIST.replace(APT_KEY, "/usr/share/keyrings/other.asc"), "but key_path is"),
        ("list", LIST.replace(APT_KEY, "ABCD1234"), "allowed: the path in key_path"),
        ("list", "# nothing\n", "has no repository in it"),
        ("list", "rpm https://mirror/ /\n", "apt would not read the line"),
        ("sources", SOURCES + "Trusted: yes\n", "trusted=yes"),
        ("sources", SOURCES + "Allow-Weak: yes\n", "allow-weak=yes"),
        ("sources", SOURCES.replace(f"Signed-By: {APT_KEY}\n", ""), "no Signed-By"),
        (
            "sources",
            SOURCES + "\nTypes: deb\nURIs: https://b/\nSuites: /\n",
            "the stanza of https://b/ has no Signed-By",
        ),
        ("sources", "nonsense\n", "apt would not read the line"),
        ("repo", REPO.replace("gpgcheck=1", "gpgcheck=0"), "`gpgcheck=0`"),
        ("repo", REPO.replace("gpgcheck=1\n", ""), "no gpgcheck=1"),
        ("repo", REPO.replace("gpgcheck=1", "repo_gpgcheck=1"), "no gpgcheck=1"),
        ("repo", REPO.replace(f"gpgkey=file://{DNF_KEY}\n", ""), "no gpgkey"),
        ("repo", REPO.replace("file://", "https://"), "allowed: file://"),
        ("repo", REPO.replace(DNF_KEY, "/etc/pki/rpm-gpg/OTHER"), "does not name key_path"),
        ("repo", REPO + "[second]\nname=x\nbaseurl=https://b/\ngpgcheck=no\n", "[second] has `gpgcheck=no`"),
        ("repo", "baseurl=x\n", "dnf would not read it"),
        ("sources", SOURCES + "X: --allow-unauthenticated\n", "--allow-unauthenticated"),
    ],
)
def test_what_would_take_unsigned_packages_is_refused(kind, content, says):
    with pytest.raises(PlanError) as refused:
        parse(kind, content)
    assert says in str(refused.value)
    assert str(refused.value).startswith("repositories[0].content: ")


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("list", "# deb [trusted=yes] https://old/ /\n" + LIST),
        ("list", LIST.replace("arch=amd64", "trusted=no")),
        ("sources", SOURCES + "\nEnabled: no\nTypes: deb\nURIs: https://b/\nSuites: /\n"),
        (
            "sources",
            SOURCES.replace(
                APT_KEY, "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQGN\n -----END PGP PUBLIC KEY BLOCK-----"
            ),
        ),
        ("repo", REPO + "[source]\nname=x\nenabled=0\nbaseurl=https://b/\ngpgcheck=0\n"),
    ],
)
def test_what_is_not_in_force_does_not_refuse(kind, content):
    assert parse(kind, content).uris == ("https://mirror/cuda/",)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"path": "/etc/apt/sources.list"}, "path: '/etc/apt/sources.list' is not allowed"),
        ({"path": "/etc/apt/sources.list.d/../x.list"}, "is not allowed"),
        ({"path": "/etc/apt/sources.list.d/cuda.repo"}, "NAME.sources or .list"),
        ({"key_path": "/etc/apt/trusted.gpg.d/cuda.asc"}, "key_path: '/etc/apt/trusted.gpg.d/cuda.asc' is not allowed"),
        ({"key": "no key"}, "not one public key"),
        ({"key": KEY.replace("PUBLIC", "PRIVATE")}, "not one public key"),
        ({"key_path": None}, "key_path: missing"),
        ({"content": ""}, "has no text"),
        ({"name": "../x"}, "name: '../x' is not allowed"),
    ],
)
def test_files_stand_where_the_package_manager_reads_them_and_keys_speak_for_one_repository(more, says):
    with pytest.raises(PlanError) as refused:
        parse("list", LIST, **more)
    assert says in str(refused.value)


def test_an_absent_repository_needs_no_more_than_its_path():
    made = parse("list", None, state="absent", key=None, key_path=None)
    assert [(file.path, file.text) for file in made.files] == [(PATHS["list"], None)]
