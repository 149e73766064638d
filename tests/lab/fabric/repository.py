# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The distribution's repository of a node of the lab: a stub of the package with further kernel modules, signed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

KEY = "usr/share/keyrings/distribution.asc"
SOURCES = f"Types: deb\nURIs: http://127.0.0.1:8000/distribution/\nSuites: ./\nSigned-By: /{KEY}\n"
MODULES = ("kernel/drivers/infiniband/core/ib_umad.ko", "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko")
USER = "Stub Distribution <distribution@stubs.invalid>"


def build(folder: Path, kernel: str, node: Path) -> None:
    """The repository below ``folder``, and below ``node`` the files by which apt takes it."""
    _package(folder, kernel)
    # Outside the clone: the path of the agent's socket may have 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="stub-keys-") as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
        _run([*gpg, "--quick-generate-key", USER, "rsa3072", "sign", "never"])
        (folder / "Packages").write_bytes(_run(["apt-ftparchive", "packages", "."], folder))
        origin = "APT::FTPArchive::Release::Origin=Ubuntu"
        (folder / "Release").write_bytes(_run(["apt-ftparchive", "-o", origin, "release", "."], folder))
        _run([*gpg, "--clearsign", "--output", "InRelease", "Release"], folder)
        for path, content in {
            KEY: _run([*gpg, "--armor", "--export", USER]),
            "etc/apt/sources.list.d/distribution.sources": SOURCES.encode(),
        }.items():
            (node / path).parent.mkdir(parents=True, exist_ok=True)
            (node / path).write_bytes(content)
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=False, capture_output=True)


def _package(folder: Path, kernel: str) -> None:
    """The modules are empty, and instead of depmod the package itself adds them to the kernel's list."""
    root = folder / "package"
    scripts = root / "DEBIAN"
    scripts.mkdir(parents=True)
    (scripts / "control").write_text(
        f"Package: linux-modules-extra-{kernel}\nVersion: 1.0-1\nArchitecture: all\n"
        "Maintainer: Nobody <stubs@stubs.invalid>\nDescription: stub of a package of the same name\n"
    )
    listed = "".join(f"{path}:\\n" for path in MODULES)
    (scripts / "postinst").write_text(f"#!/bin/sh\nprintf '{listed}' >>/lib/modules/{kernel}/modules.dep\n")
    (scripts / "postinst").chmod(0o755)
    for path in MODULES:
        (root / "lib" / "modules" / kernel / path).parent.mkdir(parents=True, exist_ok=True)
        (root / "lib" / "modules" / kernel / path).touch()
    _run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(root), str(folder)])
    shutil.rmtree(root)


def _run(argv: list[str], folder: Path | None = None) -> bytes:
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True).stdout
