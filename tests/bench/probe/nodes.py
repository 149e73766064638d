# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Many nodes on one machine: one sshd of our own answers on every address of 127.0.0.0/8."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from processes import descendants, named

CONFIG = """\
# Every address, because one server can listen on 16 of its own choice only; logins are for loopback addresses alone.
ListenAddress 0.0.0.0:{port}
PidFile none
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
# The folder above ours is one that everybody may write to.
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication no
AllowUsers {user}
PermitRootLogin prohibit-password
# Keeps bash from reading the start-up files of whoever runs this: they are no part of a node.
SetEnv SHLVL=2
MaxStartups 1000
MaxSessions 1000
LoginGraceTime 60
UseDNS no
PrintMotd no
PrintLastLog no
Match LocalAddress 127.0.0.0/8
    PubkeyAuthentication yes
"""


class Nodes:
    """A context: inside it ``count`` nodes answer, and ``inventory(n)`` is an inventory of the first n of them."""

    def __init__(self, folder: Path, count: int, interpreter: str | None = None, stuck: Sequence[int] = ()) -> None:
        """``folder``: empty and private, with a short path (sockets); ``interpreter``: the nodes' Python.

        ``stuck``: numbers, from 0, of nodes that let one log in and then do nothing.
        """
        self.folder = folder
        self.addresses = [f"127.77.{number // 250}.{number % 250 + 1}" for number in range(count)]
        self.interpreter = interpreter
        self.stuck = [self.addresses[number] for number in stuck]
        self.user = getpass.getuser()
        self.port = _free_port()
        self.server: subprocess.Popen[bytes] | None = None
        self.made_run_sshd = False

    def __enter__(self) -> Nodes:
        for name in ("host_key", "user_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bench", "-f", str(self.folder / name)],
                check=True,
            )
        key = " ".join((self.folder / "host_key.pub").read_text(encoding="utf-8").split()[:2])
        self._write("known_hosts", "".join(f"[{address}]:{self.port} {key}\n" for address in self.addresses))
        text = CONFIG.format(port=self.port, folder=self.folder, user=self.user)
        if self.stuck:
            text += f"Match LocalAddress {','.join(self.stuck)}\n    ForceCommand sleep 3600\n"
        config = self._write("sshd_config", text)
        (self.folder / "cp").mkdir()
        run_sshd = Path("/run/sshd")
        if os.geteuid() == 0 and not run_sshd.exists():
            # Where a server run by root locks its unprivileged half in.
            run_sshd.mkdir(mode=0o755)
            self.made_run_sshd = True
        program = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if program is None:
            raise SystemExit("sshd is not installed")
        with (self.folder / "sshd.log").open("wb") as log:
            self.server = subprocess.Popen(
                [program, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._await_login()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        """End the server, its sessions and the clients that ControlPersist left, each by its id."""
        if self.server is not None:
            sessions = descendants(self.server.pid)
            for pid in [self.server.pid, *sessions]:
                _signal(pid, signal.SIGTERM)
            self.server.wait(timeout=10)
        # A client without its server ends by itself; the signal is for one that does not.
        deadline = time.monotonic() + 5
        while (left := self.clients()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in left:
            _signal(pid, signal.SIGTERM)
        if self.made_run_sshd:
            with contextlib.suppress(OSError):
                Path("/run/sshd").rmdir()

    def clients(self) -> list[int]:
        """The ssh processes that hold the connections to the nodes open."""
        return named(f"ssh: {self.folder}/cp/")

    def inventory(self, count: int) -> Path:
        """An inventory of the first ``count`` nodes. Host keys are checked as anywhere else."""
        ssh = {
            "UserKnownHostsFile": self.folder / "known_hosts",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "IdentityFile": self.folder / "user_key",
            "ControlMaster": "auto",
            # Longer than the bench: connections stay warm for whatever is measured next.
            "ControlPersist": "20m",
        }
        variables: dict[str, Any] = {
            "ansible_port": self.port,
            "ansible_user": self.user,
            "ansible_control_path_dir": str(self.folder / "cp"),
            "ansible_ssh_args": " ".join(["-C -F /dev/null", *(f"-o {name}={value}" for name, value in ssh.items())]),
        }
        if self.interpreter:
            variables["ansible_python_interpreter"] = self.interpreter
        if os.geteuid() != 0:
            # Others may have no sudo without a password; the reads are the same, and some say "needs root".
            variables["ansible_become"] = False
        hosts = {
            f"node{number:04d}": {"ansible_host": address}
            for number, address in enumerate(self.addresses[:count], start=1)
        }
        return self._write(f"{count}.json", json.dumps({"all": {"hosts": hosts, "vars": variables}}, indent=1))

    def _await_login(self) -> None:
        """Raises SystemExit with what sshd said when no login works within ten seconds."""
        deadline = time.monotonic() + 10
        command = ["ssh", "-F", "/dev/null", "-p", str(self.port), "-i", str(self.folder / "user_key"), "-l", self.user]
        command += ["-o", f"UserKnownHostsFile={self.folder}/known_hosts", "-o", "StrictHostKeyChecking=yes"]
        command += ["-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", self.addresses[-1], "true"]
        while True:
            tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            if tried.returncode == 0:
                return
            if time.monotonic() > deadline:
                log = (self.folder / "sshd.log").read_text(encoding="utf-8", errors="replace")
                raise SystemExit(f"no login on the nodes: {tried.stderr.strip()}\nsshd said:\n{log}")
            time.sleep(0.2)

    def _write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        return file


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
