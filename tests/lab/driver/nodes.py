#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Starts a systemd container as a GPU node whose driver is changed for real: `nodes.py CONTAINER REPOSITORY [FORMER]`.

The hardware's edge is made up (a PCI bus with GPUs, kernels of the node, DKMS, see stub_dkms.py). apt, dpkg, systemd,
modinfo and depmod are the real ones. The node serves the signed stub repositories of tests/lab/packages to itself.
FORMER names a row of the table FORMER: the driver that was installed by others before.
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

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab import materialise  # noqa: E402

STUBS = Path(os.environ.get("LAB_STUBS", str(ROOT / ".cache" / "lab" / "packages")))
RUNNING = os.uname().release
# Served by the node itself: it has no network.
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
    "/proc/sys",
)
# Drivers that others installed before, from the same repository by a file of their own; {folder} is the repository's.
_OTHERS = """
echo 'deb [trusted=yes] http://127.0.0.1:8000/cuda/repos/{folder}/x86_64/ /' > /etc/apt/sources.list.d/cuda-{folder}-x86_64.list
echo 'deb [trusted=yes] http://127.0.0.1:8000/distribution/ ./' > /etc/apt/sources.list.d/once.list
apt-get -qq update
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -y install linux-headers-$(uname -r)
"""
_DONE = "\nrm /etc/apt/sources.list.d/once.list\n"
FORMER = {
    # Held by the site, with a package that has nothing to do with the driver (C08).
    "held-575": _OTHERS
    + "apt-get -qq -y install nvidia-open=575.57.08-1 nvidia-driver=575.57.08-1 nvidia-driver-cuda=575.57.08-1 "
    "nvidia-kernel-open-dkms=575.57.08-1 libcuda1=575.57.08-1 libnvidia-ml1=575.57.08-1 nvidia-fabricmanager-575 "
    "libnvidia-nscq-575\napt-mark hold nvidia-open nvidia-kernel-open-dkms nvidia-fabricmanager-575 bash" + _DONE,
    "proprietary-580": _OTHERS
    + "apt-get -qq -y install nvidia-driver=580.126.20-1 nvidia-driver-cuda=580.126.20-1 nvidia-kernel-dkms=580.126.20-1 "
    "libcuda1=580.126.20-1 libnvidia-ml1=580.126.20-1" + _DONE,
    # The branch in the names, and the vendor's pin of it.
    "open-580": _OTHERS
    + "apt-get -qq -y install nvidia-driver-pinning-580.95.05 $(printf '%s=580.95.05-1ubuntu1 ' nvidia-driver-580-open "
    "nvidia-dkms-580-open nvidia-utils-580 libnvidia-compute-580 nvidia-kernel-common-580 nvidia-fabricmanager)"
    + _DONE,
}
# The container's own.
OS_RELEASE = ("/etc/os-release", "/usr/lib/os-release")
HOOK = 'DPkg::Post-Invoke {"/usr/bin/python3 /usr/local/sbin/stub_dkms.py";};\n'


def os_release(repository: str) -> dict[str, str]:
    """The node's os-release where its repository is of another system than the container."""
    system, version = repository[:-4], f"{repository[-4:-2]}.{repository[-2:]}"
    if system != "ubuntu":
        return {}
    text = f'ID={system}\nVERSION_ID="{version}"\nPRETTY_NAME="Ubuntu {version} (stub)"\n'
    return {"etc/os-release": text, "usr/lib/os-release": text}


def bare(kind: str) -> Profile:
    """The GPUs of a kind and no driver: commands that a driver brings are not there."""
    profile = healthy(kind).without(*DRIVER, *OS_RELEASE)
    profile.commands = {}
    profile.units = {}
    profile.packages = {}
    profile.kernel_log = []
    profile.modules = {}
    return profile


def headers(folder: Path, kernels: list[str]) -> None:
    """Packages linux-headers-KERNEL of which only the folder matters."""
    for kernel in kernels:
        root = folder / f"headers-{kernel}"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN" / "control").write_text(
            f"Package: linux-headers-{kernel}\nVersion: 1.0-1\nArchitecture: all\nMaintainer: Nobody <stubs@stubs.invalid>\n"
            "Description: stub of a package of the same name\n"
        )
        (root / "lib" / "modules" / kernel / "build").mkdir(parents=True)
        (root / "lib" / "modules" / kernel / "build" / "Makefile").write_text("# stub\n")
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(root), str(folder)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shutil.rmtree(root)


def index(folder: Path, home: Path) -> None:
    """Index and sign a flat repository with a key of its own, whose public half becomes key.asc."""
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    user = "Stub Distribution <distribution@stubs.invalid>"
    subprocess.run([*gpg, "--quick-generate-key", user, "rsa3072", "sign", "never"], check=True, capture_output=True)
    for name, argv in (
        ("Packages", ["apt-ftparchive", "packages", "."]),
        ("Release", ["apt-ftparchive", "-o", "APT::FTPArchive::Release::Origin=Debian", "release", "."]),
    ):
        made = subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.PIPE).stdout
        (folder / name).write_bytes(made)
    subprocess.run([*gpg, "--clearsign", "--output", "InRelease", "Release"], cwd=folder, check=True)
    key = subprocess.run([*gpg, "--armor", "--export", user], check=True, stdout=subprocess.PIPE).stdout
    (folder / "key.asc").write_bytes(key)
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False, capture_output=True)


def main() -> None:
    container, repository = sys.argv[1:3]
    former = sys.argv[3] if len(sys.argv) > 3 else ""
    kernels = [RUNNING]
    start(container)
    with tempfile.TemporaryDirectory(prefix="stub-node-") as work:
        folder = Path(work, "node")
        folder.mkdir()
        materialise.write(bare("h100"), folder)
        inside = "mkdir -p /opt/node && tar -x -f - -C /opt/node && exec python3 /opt/node/node_apply.py"
        feed(container, inside, materialise.pack(folder))
        more = Path(work, "more")
        made = more / "srv" / "www" / "distribution"
        made.mkdir(parents=True)
        headers(made, kernels)
        home = Path(work, "gpg")
        home.mkdir(mode=0o700)
        index(made, home)
        vendor = more / "srv" / "www" / "cuda" / "repos" / repository
        shutil.copytree(STUBS / "www" / "cuda" / "repos" / repository, vendor)
        for path, text in {
            "etc/systemd/system/stub-mirror.service": SERVER,
            "etc/apt/apt.conf.d/99stub-dkms": HOOK,
            "etc/apt/sources.list": "",
            "usr/local/sbin/dkms": "#!/bin/sh\n# A test double: see stub_dkms.py.\nexec /usr/bin/python3 /usr/local/sbin/stub_dkms.py\n",
            **os_release(repository),
            "usr/local/sbin/stub_dkms.py": Path(__file__).with_name("stub_dkms.py").read_text(),
            **{f"boot/vmlinuz-{kernel}": "" for kernel in kernels},
            **{f"lib/modules/{kernel}/modules.order": "" for kernel in kernels},
        }.items():
            target = more / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        (more / "usr" / "local" / "sbin" / "dkms").chmod(0o755)
        # Started by the question for the time, and it would leave a folder.
        shell(container, "systemctl mask --quiet systemd-timedated.service")
        feed(
            container,
            f"tar -x -f - -C / --keep-directory-symlink && systemctl start stub-mirror.service && {WAIT}",
            materialise.pack(more),
        )
        keys = STUBS.parent / "driver"
        keys.mkdir(exist_ok=True)
        shutil.copy(made / "key.asc", keys / f"{container}.asc")
    if former:
        shell(container, FORMER[former].format(folder=repository))


def start(container: str) -> None:
    """Never --privileged: systemd needs the right to mount and its control groups, no more. No network."""
    subprocess.run(["docker", "rm", "--force", container], check=False, capture_output=True)
    options = ["--network=none", "--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--cgroupns=host"]
    options += ["--security-opt=apparmor=unconfined", "--volume=/sys/fs/cgroup:/sys/fs/cgroup"]
    options += ["--tmpfs=/run:exec", "--tmpfs=/run/lock", "--tmpfs=/tmp:exec", f"--hostname={container}"]
    argv = ["docker", "run", "--detach", f"--name={container}", *options, "gpufleet-node:bookworm"]
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
