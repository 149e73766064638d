# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Many GPU nodes behind one real sshd: each loopback address has a root file system of its own.

The server runs in a mount namespace, so that its users and the roots of the nodes are nobody else's. What a node shows
in /sys and what its nvidia-smi says are test doubles (tests/fixtures/nodes); server, login, shells and tools are real.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.kimi_k3.tests.bench.probe.processes import descendants
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import Profile, Reply
from ansible_collections.gpufleet.kimi_k3.tests.lab.materialise import stub

SYSTEM_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PASSWORD = "correct horse battery staple"
NOISY_SHELL = """#!/bin/sh
echo "**** Authorised use only ****"
echo "deadbeef hello  0 " >&2
printf 'last login: never'
exec /bin/sh "$@"
"""
# Cuts its own session off: its parent is the server's half of it.
CUT_OFF = "/bin/sh -s | head -c 3000; sleep 0.5; kill -9 $PPID"
CONFIG = """ListenAddress 0.0.0.0:{port}
PidFile none
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication no
PermitRootLogin yes
MaxStartups 1000
MaxSessions 1000
UseDNS no
PrintMotd no
PrintLastLog no
SetEnv SHLVL=2
Match LocalAddress 127.77.0.0/16
    PubkeyAuthentication yes
Match LocalAddress 127.79.0.0/16
    PasswordAuthentication yes
"""


def missing() -> str:
    """Why these servers cannot run here; empty where they can."""
    if os.geteuid() != 0:
        return "root is needed to give each node a root file system of its own"
    for program, package in (("sshd", "openssh-server"), ("ssh-keygen", "openssh-client"), ("unshare", "util-linux")):
        if shutil.which(program, path=SYSTEM_PATH) is None:
            return f"{program} is not installed ({package})"
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, text=True, check=False
    )
    return f"no mount namespace can be made: {tried.stderr.strip()}" if tried.returncode else ""


@dataclass(frozen=True)
class Made:
    """A node: what it shows, the command that the server runs in place of the one asked for, and further programs."""

    profile: Profile
    command: str = ""
    programs: Mapping[str, str] | None = None


class Servers:
    """A context: inside it the nodes answer on their addresses, by key on 127.77.x.y, by password on 127.79.x.y."""

    def __init__(self, folder: Path, nodes: Mapping[str, Made], addresses: Mapping[str, str]) -> None:
        """``addresses``: the node by address; ``folder``: empty and private."""
        self.folder = folder
        self.nodes = nodes
        self.addresses = addresses
        self.port = free_port()
        self.server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Servers:
        # The server looks into it as the user who logs in.
        self.folder.chmod(0o711)
        for name in ("host_key", "user_key", "other_key"):
            make_key(self.folder / name)
        for name, node in self.nodes.items():
            self._make_root(self.folder / "roots" / name, node)
        config = CONFIG.format(port=self.port, folder=self.folder)
        for name, node in self.nodes.items():
            mine = [address for address, owner in self.addresses.items() if owner == name]
            if mine:
                # sshd takes lines of limited length.
                for start in range(0, len(mine), 50):
                    config += (
                        f"Match LocalAddress {','.join(mine[start : start + 50])}\n    ChrootDirectory /mnt/{name}\n"
                    )
                    if node.command:
                        config += f"    ForceCommand {node.command}\n"
        self._write("sshd_config", config)
        self._make_users()
        made_run_sshd = "mkdir -p /run/sshd"
        mounts = [
            made_run_sshd,
            f"mount --bind {self.folder}/roots /mnt",
            *(f"mount --bind {self.folder}/{name} /etc/{name}" for name in ("passwd", "shadow")),
        ]
        for name in self.nodes:
            mounts += [
                f"mount --bind /usr /mnt/{name}/usr",
                f"mount --bind {self.folder}/local/{name} /mnt/{name}/usr/local",
                f"mount --bind /dev/null /mnt/{name}/dev/null",
            ]
        sshd = shutil.which("sshd", path=SYSTEM_PATH)
        self._write("start.sh", "set -e\n" + "\n".join(mounts) + f"\nexec {sshd} -D -e -f {self.folder}/sshd_config\n")
        with (self.folder / "sshd.log").open("wb") as log:
            self.server = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", str(self.folder / "start.sh")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._await()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        """End the server and its sessions, each by its id; the mounts end with them."""
        if self.server is not None:
            for pid in [*descendants(self.server.pid), self.server.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.server.wait(timeout=10)

    @property
    def host_key(self) -> str:
        """Type and text of the servers' host key."""
        return public(self.folder / "host_key")

    def log(self) -> str:
        """What the server wrote."""
        return (self.folder / "sshd.log").read_text(encoding="utf-8", errors="replace")

    def _make_root(self, root: Path, node: Made) -> None:
        local = self.folder / "local" / root.name
        (local / "bin").mkdir(parents=True)
        root.mkdir(parents=True)
        # Programs and libraries are those of this machine.
        node.profile.without("/usr", "/lib", "/dev").write(root)
        for path in (root / "sys" / "bus" / "pci" / "devices").glob("*/vpd"):
            # As the kernel has it.
            path.chmod(0o600)
        for name in ("usr", "dev", "root", "tmp"):
            (root / name).mkdir(exist_ok=True)
        (root / "dev" / "null").touch()
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                (root / name).symlink_to(f"usr/{name}")
        answers = {argv: reply for argv, reply in node.profile.commands.items() if argv[0] == "nvidia-smi"}
        if answers:
            script = stub("nvidia-smi", answers, local / "stub", "/usr/local/stub")
            self._program(local / "bin" / "nvidia-smi", script)
        architecture = node.profile.commands.get(("uname", "-m"), Reply("x86_64\n")).stdout.strip()
        # The kernel is this machine's; what it calls itself is the node's.
        self._program(local / "bin" / "uname", f"#!/bin/sh\necho {architecture}\n")
        self._program(local / "bin" / "noisy-shell", NOISY_SHELL)
        for name, text in (node.programs or {}).items():
            self._program(local / "bin" / name, text)

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def _make_users(self) -> None:
        """This machine's users, and ours beside them."""
        secret = subprocess.run(
            ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD, capture_output=True, text=True, check=True
        ).stdout.strip()
        passwd, shadow = (
            Path("/etc/passwd").read_text(encoding="utf-8"),
            Path("/etc/shadow").read_text(encoding="utf-8"),
        )
        shells = {"operator": "/bin/sh", "noisy": "/usr/local/bin/noisy-shell", "locked": "/bin/false"}
        tcsh = shutil.which("tcsh")
        if tcsh:
            shells["csh"] = tcsh
        for number, (name, shell) in enumerate(shells.items(), 64100):
            passwd += f"kimi-{name}:x:{number}:{number}::/tmp:{shell}\n"
            shadow += f"kimi-{name}:{secret}:20000:0:99999:7:::\n"
        self._write("passwd", passwd)
        self._write("shadow", shadow).chmod(0o600)

    def _await(self) -> None:
        """Raises RuntimeError with what the server said when it does not listen within ten seconds."""
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.77.0.1", self.port), 1) as probe:
                if probe.recv(4) == b"SSH-":
                    return
            if time.monotonic() > deadline or (self.server is not None and self.server.poll() is not None):
                raise RuntimeError(f"sshd does not answer; it said:\n{self.log()}")
            time.sleep(0.05)

    def _write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        return file


def make_key(path: Path, *arguments: str) -> Path:
    """A new key pair without a passphrase, or as the arguments of ssh-keygen say."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path), *arguments], check=True
    )
    return path


def public(path: Path) -> str:
    """Type and text of a public key."""
    return " ".join(path.with_suffix(".pub").read_text(encoding="utf-8").split()[:2])


def free_port() -> int:
    """A port that nobody holds at the moment."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
