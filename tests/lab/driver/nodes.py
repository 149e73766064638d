#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts a systemd container as a GPU node whose driver is changed for real: `nodes.py CONTAINER NODE`, a row of nodes.yml.

The hardware's edge is made up: a PCI bus with GPUs, the kernels and their names, DKMS (see stub_dkms.py), the tools that
write an initramfs. apt, dpkg, dnf, rpm, systemd, modinfo and depmod are the real ones. The node serves the signed stub
repositories of tests/lab/packages to itself, and its distribution's own (distribution.py). Nodes with dnf are a Debian 13
without dpkg and apt, and with the os-release of an EL system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._fabric_manager import (  # noqa: E402
    NVLINK5_MODULES,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab import materialise  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab.driver import distribution, table  # noqa: E402

# Served by the node itself: it has no network.
MIRROR = "http://127.0.0.1:8000"
SERVER = (
    "[Unit]\nDescription=stub mirror\n"
    "[Service]\nExecStart=/usr/bin/python3 -m http.server 8000 --bind 127.0.0.1 --directory /srv/www\n"
)
WAIT = (
    "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null; do sleep 0.1; done"
)
# What the profile of a healthy node has and a node without a driver has not.
DRIVER = (
    "/proc/driver",
    "/sys/module",
    "/var/lib/dkms",
    "/usr/lib",
    "/etc/apt",
    "/var/lib/dpkg",
    "/lib/modules",
    "/boot",
    # The container's own.
    "/etc/os-release",
    "/proc/sys",
)
_DKMS = "# See stub_dkms.py.\nexec /usr/bin/python3 /usr/local/sbin/stub_dkms.py"
DOUBLES = {
    "dkms": _DKMS,
    # What the stubs' own scripts call, also where there is a real dkms.
    "stub-dkms": _DKMS,
    # `update-initramfs -u -k KERNEL`, `dracut --force --kver KERNEL`
    "update-initramfs": 'echo "$@" > /boot/initrd.img-"$3"',
    "dracut": 'echo "$@" > /boot/initramfs-"$3".img',
    # The real one, told which kernel runs: it asks uname, which tells of the machine underneath.
    "modinfo": (
        'case "$1" in -k) ;; *) set -- -k "$(cat /proc/sys/kernel/osrelease)" "$@" ;; esac\nexec /usr/sbin/modinfo "$@"'
    ),
}
HOOK = 'DPkg::Post-Invoke {"/usr/bin/python3 /usr/local/sbin/stub_dkms.py";};\n'
GRUB = "# The newest kernel boots.\nGRUB_DEFAULT=0\n"
# The files by which others reach the repositories; the vendor's stays.
OTHERS = {
    "apt": {
        "/etc/apt/sources.list.d/cuda-{folder}-x86_64.list": (
            "deb [signed-by=/srv/keys/vendor.asc] {mirror}/cuda/repos/{folder}/x86_64/ /\n"
        ),
        "/etc/apt/sources.list.d/once.list": "deb [signed-by=/srv/keys/distribution.asc] {mirror}/distribution/ ./\n",
    },
    "dnf": {
        "/etc/yum.repos.d/cuda-{folder}.repo": (
            "[cuda-{folder}-x86_64]\nname=cuda\nbaseurl={mirror}/cuda/repos/{folder}/x86_64/\nenabled=1\ngpgcheck=1\n"
            "gpgkey=file:///srv/keys/vendor.asc\n"
        ),
        "/etc/yum.repos.d/once.repo": (
            "[once]\nname=once\nbaseurl={mirror}/distribution/\nenabled=1\ngpgcheck=1\n"
            "gpgkey=file:///srv/keys/distribution.asc\n"
        ),
    },
}
# What makes a Debian with dnf one that has nothing else, and no plugin that asks for a key before anything else is done.
EL = """
rm -rf /usr/bin/dpkg* /usr/bin/apt* /etc/apt /var/lib/dpkg /var/lib/apt /var/cache/apt
rm -f /usr/lib/python3/dist-packages/dnf-plugins/local.py /usr/lib/python3/dist-packages/dnf-plugins/system_upgrade.py
mkdir -p /etc/yum.repos.d /etc/pki/rpm-gpg
rpm --initdb
rpm -i --quiet /srv/hook.rpm
"""
# What a node with real packages has of its own.
REAL = ("dkms",)
BEFORE = {
    "apt": "export DEBIAN_FRONTEND=noninteractive\napt-get -qq update\n",
    "dnf": "",
}
AFTER = {"apt": "rm /etc/apt/sources.list.d/once.list\n", "dnf": "rm /etc/yum.repos.d/once.repo\n"}


def bare(row: table.Row) -> Profile:
    """The GPUs of a kind and no driver: commands that a driver brings are not there."""
    profile = healthy(row.node.get("gpus", "h100")).without(*DRIVER)
    profile.commands = {}
    profile.units = {}
    profile.packages = {}
    profile.kernel_log = []
    # What a fabric with NVLink 5 needs of the kernel besides the driver is loaded, or in the kernel itself.
    profile.modules = dict.fromkeys(NVLINK5_MODULES if nvlink5(row) else (), (0, []))
    profile.files["/proc/sys/kernel/osrelease"] = f"{row.kernels[0]}\n"
    if "arch" in row.node:
        profile.files["/proc/sys/kernel/arch"] = f"{row.node['arch']}\n"
    return profile


def nvlink5(row: table.Row) -> bool:
    """Whether its board needs an InfiniBand adapter's modules (C15)."""
    return row.node.get("gpus") in ("b200", "b300")


def doubles(row: table.Row) -> dict[str, str]:
    """The doubles of the node: name -> shell text."""
    return {name: text for name, text in DOUBLES.items() if not row.real or name not in REAL}


def system_files(row: table.Row) -> dict[str, str]:
    """What the node has besides its hardware, by path without the first slash."""
    files = {
        "etc/systemd/system/stub-mirror.service": SERVER,
        "usr/local/sbin/stub_dkms.py": Path(__file__).with_name("stub_dkms.py").read_text(encoding="utf-8"),
        "etc/default/grub": GRUB,
        "srv/keys/vendor.asc": (table.STUBS / "vendor.asc").read_text(encoding="utf-8"),
        **{f"usr/local/sbin/{name}": f"#!/bin/sh\n# A test double.\n{text}\n" for name, text in doubles(row).items()},
    }
    # Real packages bring the kernel as well.
    for kernel in row.kernels if not row.real else ():
        files[f"boot/vmlinuz-{kernel}"] = ""
        files[f"lib/modules/{kernel}/modules.order"] = ""
        if nvlink5(row):
            built_in = "".join(f"kernel/drivers/infiniband/{name}.ko\n" for name in NVLINK5_MODULES)
            files |= {f"lib/modules/{kernel}/modules.builtin": built_in, f"lib/modules/{kernel}/modules.dep": ""}
        initramfs = "initrd.img-{}" if row.system["manager"] == "apt" else "initramfs-{}.img"
        files[f"boot/{initramfs.format(kernel)}"] = "as installed\n"
    if row.system["manager"] == "apt":
        files |= {"etc/apt/apt.conf.d/99stub-dkms": HOOK, "etc/apt/sources.list": ""}
    if "os_release" in row.system:
        text = "".join(f'{key}="{value}"\n' for key, value in row.system["os_release"].items())
        files |= {"etc/os-release": text, "usr/lib/os-release": text}
    return files


def build(row: table.Row, folder: Path, work: Path) -> str:
    """Everything of the node below ``folder``; the text of its distribution's key."""
    repository = folder / "srv" / "www" / "distribution"
    repository.mkdir(parents=True)
    home = work / "gpg"
    home.mkdir(mode=0o700)
    key = distribution.make(row, repository, home)
    stubs = table.STUBS / "www" / "cuda" / "repos" / row.system.get("stubs", row.folder)
    shutil.copytree(stubs, folder / "srv" / "www" / "cuda" / "repos" / row.folder)
    for path, text in {**system_files(row), "srv/keys/distribution.asc": key}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for name in doubles(row):
        (folder / "usr" / "local" / "sbin" / name).chmod(0o755)
    if row.system["manager"] == "dnf":
        # Where kernel-devel brings what it leads to.
        for kernel in row.kernels:
            os.symlink(f"/usr/src/kernels/{kernel}", folder / "lib" / "modules" / kernel / "build")
        shutil.copy(distribution.hook(work), folder / "srv" / "hook.rpm")
    return key


def main() -> None:
    container, row = sys.argv[1], table.row(sys.argv[2])
    start(container, row.system["image"])
    with tempfile.TemporaryDirectory(prefix="stub-node-") as made:
        folder = Path(made, "node")
        folder.mkdir()
        materialise.write(bare(row), folder)
        inside = "mkdir -p /opt/node && tar -x -f - -C /opt/node && exec python3 /opt/node/node_apply.py"
        feed(container, inside, materialise.pack(folder))
        more = Path(made, "more")
        key = build(row, more, Path(made))
        # Started by the question for the time, and it would leave a folder.
        shell(container, "systemctl mask --quiet systemd-timedated.service")
        inside = "tar -x -f - -C / --keep-directory-symlink && systemctl start stub-mirror.service && " + WAIT
        feed(container, inside, materialise.pack(more))
    if row.system["manager"] == "dnf":
        shell(container, EL)
    if row.former:
        words = {"folder": row.folder, "mirror": MIRROR}
        for path, text in OTHERS[row.system["manager"]].items():
            feed(container, f"cat > {path.format(**words)}", text.format(**words).encode())
        manager = row.system["manager"]
        shell(container, BEFORE[manager] + row.former + AFTER[manager])
    table.KEYS.mkdir(exist_ok=True)
    (table.KEYS / f"{container}.asc").write_text(key, encoding="utf-8")


def start(container: str, image: str) -> None:
    """Never --privileged: systemd needs the right to mount and its control groups, no more. No network."""
    subprocess.run(["docker", "rm", "--force", container], check=False, capture_output=True)
    options = ["--network=none", "--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--cgroupns=host"]
    options += ["--security-opt=apparmor=unconfined", "--volume=/sys/fs/cgroup:/sys/fs/cgroup"]
    options += ["--tmpfs=/run:exec", "--tmpfs=/run/lock", "--tmpfs=/tmp:exec", f"--hostname={container}"]
    argv = ["docker", "run", "--detach", f"--name={container}", *options, image, "/lib/systemd/systemd"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    for _ in range(120):
        asked = ["docker", "exec", container, "systemctl", "is-system-running", "--wait"]
        if subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip() == "running":
            return
        time.sleep(0.5)
    raise SystemExit(f"{container}: systemd is not up")


def shell(container: str, text: str) -> None:
    """Run a shell text on the node; what it said shows where it fails."""
    done = subprocess.run(["docker", "exec", container, "sh", "-ec", text], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{container}: {done.stdout}{done.stderr}")


def feed(container: str, command: str, archive: bytes) -> None:
    subprocess.run(["docker", "exec", "-i", container, "sh", "-c", command], input=archive, check=True)


if __name__ == "__main__":
    main()
