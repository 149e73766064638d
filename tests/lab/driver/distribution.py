# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The own repository of a node's distribution, signed by a key of its own: the headers of its kernels, and `offers`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.tests.lab.driver import stub_dkms, table
from ansible_collections.gpufleet.kimi_k3.tests.lab.packages import build, debs, rpms

USER = "Stub Distribution <distribution@stubs.invalid>"
# The double of DKMS after every transaction of rpm, as the hook of apt does it; the interpreter is rpm's own.
HOOK = """Name: stub-dkms-hook
Version: 1
Release: 1
Summary: runs the test double of DKMS
License: GPL-3.0-or-later
BuildArch: noarch
%description
Stub.
%transfiletriggerin -p <lua> -- /usr/share/stubs
rpm.execute("/usr/bin/python3", "/usr/local/sbin/stub_dkms.py")
%transfiletriggerpostun -p <lua> -- /usr/share/stubs
rpm.execute("/usr/bin/python3", "/usr/local/sbin/stub_dkms.py")
%files
"""


def make(row: table.Row, folder: Path, home: Path) -> str:
    """Make the repository in ``folder``; the public half of its key as text. ``home``: an empty folder for gpg."""
    system, kernels = row.system, row.kernels
    key = home / "distribution.asc"
    build.make_key(home, USER, key)
    try:
        if system["manager"] == "apt":
            for path in row.real:
                shutil.copy(path, folder)
            stubs = [] if row.real else [headers(kernel) for kernel in kernels]
            stubs += [own(offer, kernels) for offer in system.get("offers", [])]
            debs.build(
                {"revision": "1", "machines": {"own": "amd64"}},
                "own",
                [(stub, {"v": stub["full"].rsplit("-", 1)[0], "b": ""}) for stub in stubs],
                folder,
                str(home),
                USER,
            )
        else:
            rpms.build(
                {"dist": system["dist"], "machines": {"own": "x86_64"}, "releases": []},
                "own",
                [pair for kernel in kernels for pair in devel(kernel, system["dist"])],
                folder,
                str(home),
                USER,
            )
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False, capture_output=True)
    return key.read_text(encoding="utf-8")


def headers(kernel: str) -> dict[str, Any]:
    """linux-headers-KERNEL, of which only the folder matters."""
    files = {f"/lib/modules/{kernel}/build/Makefile": "# stub\n"}
    return {"name": f"linux-headers-{kernel}", "full": "1.0-1", "architecture": "all", "files": files}


def own(offer: dict[str, Any], kernels: list[str]) -> dict[str, Any]:
    """A row of `offers`; with `module` it brings a module of that version for each kernel in its name."""
    if "module" not in offer:
        return offer
    files, commands = {}, ["#!/bin/sh"]
    for kernel in (kernel for kernel in kernels if kernel in offer["name"]):
        files[f"/lib/modules/{kernel}/kernel/nvidia-server-open/nvidia.ko"] = stub_dkms.module(
            kernel, offer["module"], "Dual MIT/GPL"
        )
        commands.append(f"depmod -a {kernel}")
    return {**offer, "files": files, "postinst": "\n".join(commands) + "\n"}


def devel(kernel: str, dist: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """kernel-devel (several versions of it are there at a time) and its companions (one version is)."""
    version, release = kernel.removesuffix(".x86_64").removesuffix(dist).rsplit("-", 1)
    full, words = f"{version}-{release}", {"v": version, "b": ""}
    several = {"name": "kernel-devel", "full": full, "provides": ["installonlypkg(kernel)"]}
    exact = f"kernel-devel = {version}-{release}{dist}"
    return [
        ({**several, "files": {f"/usr/src/kernels/{kernel}/Makefile": "# stub"}}, words),
        ({"name": "kernel-devel-matched", "full": full, "requires": [exact]}, words),
        ({"name": "kernel-modules-extra", "full": full, "provides": ["installonlypkg(kernel-module)"]}, words),
    ]


def hook(folder: Path) -> Path:
    """The package that runs the double of DKMS on a node with rpm."""
    spec = folder / "hook.spec"
    spec.write_text(HOOK)
    argv = ["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {folder}", "--define", f"_rpmdir {folder}"]
    debs.run([*argv, "--define", "_build_name_fmt hook.rpm", str(spec)], folder)
    return folder / "hook.rpm"
