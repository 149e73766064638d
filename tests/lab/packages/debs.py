# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stub packages and signed repositories for apt, flat as the vendor's: `deb URL /`."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

# What a test does to a stub's installation: /run/stubs/slow holds seconds, /run/stubs/fail makes it end with 10. Where
# the node has a double of DKMS it is called, as DKMS is by the packages that these stand for.
SCRIPT = """#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
[ ! -e /run/stubs/slow ] || sleep "$(cat /run/stubs/slow)"
[ ! -e /run/stubs/fail ] || exit 10
if command -v stub-dkms >/dev/null; then stub-dkms; fi
"""


def build(
    repository: dict[str, Any],
    machine: str,
    stubs: list[tuple[dict[str, Any], dict[str, Any]]],
    target: Path,
    home: str,
    user: str,
) -> None:
    """Make the packages of one machine's folder, index and sign them."""
    architecture = repository["machines"][machine]
    for stub, words in stubs:
        if architecture in stub.get("architectures", [architecture]):
            package(stub, words, str(repository["revision"]), architecture, target)
    run(["apt-ftparchive", "packages", "."], target, target / "Packages")
    run(["gzip", "-9nk", "Packages"], target)
    run(
        [
            *("apt-ftparchive", "-o", "APT::FTPArchive::Release::Origin=NVIDIA", "-o"),
            *("APT::FTPArchive::Release::Label=NVIDIA CUDA", "release", "."),
        ],
        target,
        target / "Release",
    )
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--local-user", user, "--digest-algo", "SHA512"]
    run([*gpg, "--clearsign", "--output", "InRelease", "Release"], target)
    run([*gpg, "--armor", "--detach-sign", "--output", "Release.gpg", "Release"], target)


def package(stub: dict[str, Any], words: dict[str, Any], revision: str, architecture: str, target: Path) -> None:
    """One .deb: its relations, a note that it is a stub, and what the table asks for besides."""
    full = stub.get("full") or "{v}-{r}".format(r=revision, **words)
    words = {**words, "f": full}
    name = stub["name"].format(**words)
    machine = stub.get("architecture", architecture)
    fields = {"Package": name, "Version": full, "Architecture": machine, "Maintainer": "Nobody <stubs@stubs.invalid>"}
    for relation in ("depends", "conflicts", "replaces", "provides"):
        if stub.get(relation):
            fields[relation.capitalize()] = ", ".join(text.format(**words) for text in stub[relation])
    fields["Installed-Size"] = "1024"
    fields["Description"] = "stub of a package of the same name"
    with tempfile.TemporaryDirectory(prefix="stub-deb-") as made:
        root = Path(made) / "root"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN" / "control").write_text("".join(f"{key}: {text}\n" for key, text in fields.items()))
        write(root / "usr" / "share" / "stubs" / name, f"{name} {full}\n")
        for path, content in stub.get("files", {}).items():
            write(root / path.lstrip("/"), content)
        if stub.get("scripts") or stub.get("postinst"):
            script = root / "DEBIAN" / "postinst"
            script.write_text(stub.get("postinst", SCRIPT))
            script.chmod(0o755)
        if stub.get("conffile"):
            write(root / stub["conffile"].lstrip("/"), f"# stub of {full}\n")
            (root / "DEBIAN" / "conffiles").write_text(stub["conffile"] + "\n")
        if stub.get("pin"):
            write(root / "etc" / "apt" / "preferences.d" / name, pin(stub["pin"].format(**words)))
        argv = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(root)]
        run([*argv, str(target / f"{name}_{full}_{machine}.deb")], target)


def pin(versions: str) -> str:
    """What a pinning package brings: its versions and no other, of the packages that are locked together."""
    names = "nvidia-* libnvidia-* libcuda1 libnvsdm"
    return f"Package: {names}\nPin: version {versions}\nPin-Priority: 1001\n"


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def run(argv: list[str], folder: Path, output: Path | None = None) -> None:
    """Run a tool in a folder; its words show only where it fails."""
    result = subprocess.run(argv, cwd=folder, capture_output=True, check=False)
    if result.returncode:
        raise RuntimeError(f"{' '.join(argv)[:200]}: {result.stderr.decode(errors='replace')[-2000:]}")
    if output is not None:
        output.write_bytes(result.stdout)
