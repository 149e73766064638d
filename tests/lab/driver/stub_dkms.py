#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A test double of DKMS on a node of the lab, run after every call of dpkg, or as `dkms`.

For each kernel whose headers are there it writes an nvidia.ko that says which driver package is installed, and nothing
besides. modinfo and depmod are the real ones. Kernels without headers are skipped without an error, as DKMS does (C05).
/run/stubs/no-build holds kernels whose build fails; what then stands in make.log is the file's text.
"""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
from pathlib import Path

# The stub packages of the driver's source, and the licence their module names.
SOURCES = {
    "nvidia-kernel-open-dkms": "Dual MIT/GPL",
    "nvidia-kernel-dkms": "NVIDIA",
    "nvidia-dkms-open": "Dual MIT/GPL",
    "nvidia-dkms": "NVIDIA",
    "kmod-nvidia-open-dkms": "Dual MIT/GPL",
    "kmod-nvidia-latest-dkms": "NVIDIA",
}
TREE = Path("/var/lib/dkms/nvidia")
MACHINES = {"x86_64": 62, "aarch64": 183}


def relocatable(modinfo: bytes) -> bytes:
    """A relocatable ELF file with the section .modinfo and no other content."""
    names = b"\0.modinfo\0.shstrtab\0"
    start = 64
    headers = start + len(modinfo) + len(names)
    machine = MACHINES[platform.machine()]
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = identity + struct.pack("<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, headers, 0, 64, 0, 0, 64, 3, 2)
    empty = bytes(64)
    info = struct.pack("<IIQQQQIIQQ", 1, 1, 2, 0, start, len(modinfo), 0, 0, 1, 0)
    text = struct.pack("<IIQQQQIIQQ", 10, 3, 0, 0, start + len(modinfo), len(names), 0, 0, 1, 0)
    return head + modinfo + names + empty + info + text


def module(kernel: str, version: str, licence: str) -> bytes:
    """An nvidia.ko that tells its version and its licence, and does nothing."""
    words = {"version": version, "license": licence, "depends": "", "name": "nvidia", "vermagic": f"{kernel} SMP"}
    return relocatable(b"".join(f"{key}={text}".encode() + b"\0" for key, text in words.items()))


def installed() -> tuple[str, str] | None:
    """(version, licence) of the driver's source that is installed."""
    argv = ["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE} installed\n"]
    if os.path.exists("/var/lib/dpkg/status"):
        argv = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n"]
    listed = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in listed.splitlines():
        name, version, state = line.split()
        plain = "-".join(part for part in name.split("-") if not part.isdigit())
        if state in ("installed", "triggers-awaited", "half-configured") and plain in SOURCES:
            return version.rsplit("-", 1)[0], SOURCES[plain]
    return None


def forget(but: str | None) -> None:
    """Take the trees of sources away that are no longer installed, as their packages do."""
    for path in TREE.iterdir() if TREE.is_dir() else ():
        if path.name == but:
            continue
        if path.is_symlink():
            if not os.readlink(path).startswith(f"{but}/"):
                path.unlink()
        else:
            shutil.rmtree(path)


def main() -> None:
    found = installed()
    forget(found[0] if found else None)
    for folder in Path("/lib/modules").iterdir():
        kernel, target = folder.name, folder / "updates" / "dkms" / "nvidia.ko"
        refused = Path("/run/stubs/no-build", kernel)
        if found is None or not (folder / "build").exists() or refused.exists():
            if target.exists():
                target.unlink()
                subprocess.run(["depmod", "-a", kernel], check=True)
            if found is not None and refused.exists():
                (TREE / found[0] / "build").mkdir(parents=True, exist_ok=True)
                shutil.copy(refused, TREE / found[0] / "build" / "make.log")
            continue
        version, licence = found
        content = module(kernel, version, licence)
        if target.exists() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        made = TREE / version / kernel / platform.machine() / "module"
        made.mkdir(parents=True, exist_ok=True)
        (made / "nvidia.ko").write_bytes(content)
        link = TREE / f"kernel-{kernel}-{platform.machine()}"
        link.unlink(missing_ok=True)
        os.symlink(f"{version}/{kernel}/{platform.machine()}", link)
        subprocess.run(["depmod", "-a", kernel], check=True)


if __name__ == "__main__":
    main()
