#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes a running systemd container look like a GPU node: `materialise.py NODE CONTAINER`.

NODE names a row of tests/fixtures/nodes/variants.py; the unit tests read the very same rows. What is written stands
at the hardware's edge and is a test double: kernel files, what the vendor's commands print, packages that consist of
a name and a version, services that sleep. systemd, dpkg, Python, Ansible and the probe are the real ones, and the
probe has no switch that would tell it of the test.

The parts go as one tar archive into /opt/node of the container, where node_apply.py puts them in their places.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import variants  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab.lab import CACHE  # noqa: E402

FILE_LISTS = "/var/lib/dpkg/info/"
# What runs a command for real when its stub is asked something that the profile does not answer.
REAL_PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def stub(program: str, answers: dict[tuple[str, ...], Reply], folder: Path, place: str) -> str:
    """A shell script that answers exactly the argument lists of the profile; what it prints goes into ``folder``."""
    lines = [
        "#!/bin/sh",
        f"# A test double of {program}: it answers the questions below from files. Made by tests/lab/materialise.py.",
    ]
    for number, (argv, reply) in enumerate(answers.items()):
        tests = [f"[ $# -eq {len(argv) - 1} ]"]
        tests += [f'[ "${{{place_of}}}" = {shlex.quote(word)} ]' for place_of, word in enumerate(argv[1:], 1)]
        lines.append(f"if {' && '.join(tests)}; then")
        if reply.hang:
            # As a process in a driver that no longer answers: only KILL ends it.
            lines.append("    trap '' TERM INT HUP\n    exec sleep 3600")
        else:
            for stream, text, redirect in (("out", reply.stdout, ""), ("err", reply.stderr, " >&2")):
                if text:
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / f"{number}.{stream}").write_text(text, encoding="utf-8", errors="surrogateescape")
                    lines.append(f"    cat {shlex.quote(f'{place}/{number}.{stream}')}{redirect}")
            lines.append(f"    exit {reply.rc}")
        lines.append("fi")
    lines += [
        f"for folder in {REAL_PATH.replace(':', ' ')}; do",
        f'    [ ! -x "$folder/{program}" ] || exec "$folder/{program}" "$@"',
        "done",
        f'echo "{program}: this node\'s profile has no answer to: $*" >&2',
        "exit 1",
    ]
    return "\n".join(lines) + "\n"


def deb(name: str, version: str, owned: dict[str, bytes]) -> Path:
    """A Debian package of this name and version with these files, most often none; kept in .cache."""
    # Where dpkg notes the files as NAME:ARCHITECTURE, as it does for libraries, the package has to be of such a kind.
    kind = f"Architecture: {architecture()}\nMulti-Arch: same\n" if owned else "Architecture: all\n"
    control = (
        f"Package: {name}\nVersion: {version}\n{kind}Maintainer: gpufleet tests <none@example.org>\n"
        "Description: a stub of the gpufleet test lab\n"
        " It stands for a vendor's package, of which it has the name, the version and perhaps a few empty files.\n"
    )
    mark = hashlib.sha256(repr((control, sorted(owned.items()))).encode()).hexdigest()[:16]
    target = CACHE / "debs" / f"{name}_{mark}.deb"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        package = Path(work, "package")
        for path, content in {"/DEBIAN/control": control.encode(), **owned}.items():
            there = package / path.lstrip("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(content)
        for folder in (package, *filter(Path.is_dir, package.rglob("*"))):
            folder.chmod(0o755)
        made = Path(work, "made.deb")
        subprocess.run(
            # Nothing is gained by packing what is empty.
            ["dpkg-deb", "-Znone", "--root-owner-group", "-b", str(package), str(made)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        # Several nodes are made at the same time.
        os.replace(made, target)
    return target


@cache
def architecture() -> str:
    """That of the node image, which is made on this machine."""
    return subprocess.run(
        ["dpkg", "--print-architecture"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def take_owned(profile: Profile) -> dict[str, dict[str, bytes]]:
    """``{package: {path: content}}`` from dpkg's file lists of the profile, which leave it: dpkg writes them itself."""
    owned: dict[str, dict[str, bytes]] = {}
    for path in [path for path in profile.files if path.startswith(FILE_LISTS) and path.endswith(".list")]:
        text = profile.files.pop(path)
        name = path[len(FILE_LISTS) : -len(".list")].split(":")[0]
        listed = text if isinstance(text, str) else text.decode()
        mine = {item: profile.files.pop(item) for item in listed.splitlines() if item in profile.files}
        owned[name] = {item: data if isinstance(data, bytes) else data.encode() for item, data in mine.items()}
    return owned


def write(profile: Profile, folder: Path) -> None:
    """Everything that node_apply.py needs, below ``folder``."""
    profile = copy.deepcopy(profile)
    owned = take_owned(profile)
    profile.write(folder / "tree")
    programs: dict[str, dict[tuple[str, ...], Reply]] = {}
    for argv, reply in profile.all_commands().items():
        programs.setdefault(argv[0], {})[argv] = reply
    for program, answers in programs.items():
        name = program.rsplit("/", 1)[-1]
        target = folder / "tree" / (program if "/" in program else f"usr/local/sbin/{name}").lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(stub(name, answers, folder / "answers" / name, f"/opt/node/answers/{name}"), encoding="utf-8")
        target.chmod(0o755)
    debs = folder / "debs"
    debs.mkdir()
    for name, version in profile.packages.items():
        shutil.copy(deb(name, version, owned.get(name, {})), debs)
    (folder / "plan.json").write_text(json.dumps({"units": profile.units, "packages": profile.packages}))
    shutil.copy(Path(__file__).with_name("node_apply.py"), folder)
    libraries = folder / "lib"
    libraries.mkdir()
    shutil.copy(CACHE / "lib" / "proc_shim.so", libraries)
    if any(path.startswith("/sys/class/infiniband/") for path in profile.files):
        shutil.copy(CACHE / "lib" / "libibverbs.so.1", libraries)


def pack(folder: Path) -> bytes:
    """``folder`` as a tar archive whose files belong to root."""

    def of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(folder, arcname=".", filter=of_root)
    return packed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a running systemd container look like a GPU node.")
    parser.add_argument("node", choices=sorted(variants.VARIANTS))
    parser.add_argument("container")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "node")
        folder.mkdir()
        write(variants.VARIANTS[options.node].profile(), folder)
        packed = pack(folder)
    place = "mkdir -p /opt/node && tar -x -f - -C /opt/node && exec python3 /opt/node/node_apply.py"
    done = subprocess.run(["docker", "exec", "-i", options.container, "sh", "-c", place], input=packed, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
