# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes of the package lab: containers without a network, each with a mirror of the stubs on its loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
STUBS = Path(os.environ.get("LAB_STUBS", str(ROOT / ".cache" / "lab" / "packages")))
IMAGES = {"deb12": "gpufleet-node:bookworm", "deb13": "gpufleet-packages:trixie", "el9": "gpufleet-packages:trixie"}
MIRROR = "http://127.0.0.1:8000"
_SERVER = "python3 -m http.server 8000 --bind 127.0.0.1 --directory /srv/www"
EL9 = (
    'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\nPLATFORM_ID="platform:el9"\n'
    'PRETTY_NAME="Rocky Linux 9.6 (stub)"\n'
)
# Everything that stays on a node, with times: what was written and put back shows as well. Left out is what reading
# rpm's database touches (the lock, and SQLite's shared memory), which holds nothing.
_STATE = """
import hashlib, os
for top in ("/etc", "/usr", "/boot", "/opt", "/root", "/var"):
    for folder, folders, names in sorted(os.walk(top)):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for path in [folder] + [folder + "/" + name for name in sorted(names)]:
            if path.startswith("/var/lib/rpm/") and not path.endswith("/rpmdb.sqlite") or path == "/var/lib/rpm":
                continue
            seen = os.lstat(path)
            text = b""
            # A folder's own time of change moves where the container first writes anything below it.
            changed = seen.st_mtime_ns if os.path.isdir(path) else seen.st_ctime_ns
            if os.path.isfile(path) and not os.path.islink(path):
                text = open(path, "rb").read()
            print(path, seen.st_mode, seen.st_mtime_ns, changed, hashlib.blake2b(text, digest_size=8).hexdigest())
"""


class Node:
    """One container. ``kind``: deb12, deb13, el9."""

    def __init__(self, kind: str, repository: str, systemd: bool = False) -> None:
        self.kind = kind
        self.repository = repository
        self.name = f"gpufleet-lab-packages-{uuid.uuid4().hex[:8]}"
        options = ["--network=none", f"--volume={STUBS}:/srv/stubs:ro", "--tmpfs=/run:exec", "--tmpfs=/tmp:exec"]
        options += [f"--volume={ROOT}/plugins:/srv/collections/ansible_collections/gpufleet/kimi_k3/plugins:ro"]
        # A first process that takes the dead off the list, as systemd does.
        command = ["sh", "-c", "while :; do sleep 1; done"]
        if systemd:
            options += [
                "--cap-add=SYS_ADMIN",
                "--security-opt=seccomp=unconfined",
                "--security-opt=apparmor=unconfined",
            ]
            options += ["--cgroupns=host", "--volume=/sys/fs/cgroup:/sys/fs/cgroup", "--tmpfs=/run/lock"]
            command = ["/lib/systemd/systemd"]
        docker("run", "--detach", f"--name={self.name}", *options, IMAGES[kind], *command)
        if systemd:
            for _ in range(60):
                if self.shell("systemctl is-system-running --wait", check=False).strip() == "running":
                    break
                time.sleep(0.5)
        self.shell(f"mkdir -p /srv/www/cuda/repos && cp -r /srv/stubs/www/cuda/repos/{repository} /srv/www/cuda/repos/")
        if kind == "el9":
            self.write("/etc/os-release", EL9)
            self.shell("mkdir -p /etc/yum.repos.d /etc/pki/rpm-gpg && rpm --initdb && rpm -qa >/dev/null")
        else:
            self.shell(": > /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*")
        docker("exec", "--detach", self.name, "sh", "-c", f"exec {_SERVER} 2>/dev/null")
        self.shell(
            f"until python3 -c 'import urllib.request as u; u.urlopen(\"{MIRROR}\")' 2>/dev/null; do sleep 0.1; done"
        )

    def close(self) -> None:
        """Take the container away."""
        docker("rm", "--force", self.name)

    # ---- the node --------------------------------------------------------------------------------------------------

    def shell(self, text: str, check: bool = True, stdin: str = "") -> str:
        """Standard output of a shell text on the node."""
        argv = ["docker", "exec", "--interactive", self.name, "sh", "-c", text]
        result = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        if check and result.returncode:
            raise RuntimeError(f"{text}: {result.stdout}{result.stderr}")
        return result.stdout

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        self.shell(f"mkdir -p $(dirname {path}) && cat > {path}", stdin=text)

    def state(self) -> list[str]:
        """A line for everything that stays on the node, and what the package database lists.

        Without the module's own two folders, which a refused run may leave: its lock, and what it had fetched.
        """
        listed = "rpm -qa | sort" if self.kind == "el9" else "dpkg -l"
        lines = (self.shell("python3 -", stdin=_STATE) + self.shell(listed)).splitlines()
        return [line for line in lines if not re.match(r"/var/(lib|cache) |.*/gpufleet-kimi-k3[/ ]", line)]

    def installed(self) -> dict[str, str]:
        """name -> version of the stubs that are installed, as the package manager lists them."""
        if self.kind == "el9":
            text = self.shell("rpm -qa --qf '%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n'")
        else:
            text = self.shell(
                "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' | sed -n 's/ installed$//p'"
            )
        pairs = [line.split() for line in text.splitlines()]
        return {
            name: version for name, version in pairs if "nvidia" in name or name in ("libcuda1", "libnvsdm", "nvlsm")
        }

    def holds(self) -> list[str]:
        """What is held: names, or the lines of dnf's list."""
        if self.kind == "el9":
            text = self.shell("grep -v '^#' /etc/dnf/plugins/versionlock.list || true")
        else:
            text = self.shell("dpkg --get-selections | sed -n 's/\\s*hold$//p'")
        return [line for line in text.splitlines() if line]

    # ---- the module ------------------------------------------------------------------------------------------------

    def source(self, **changes: Any) -> dict[str, Any]:
        """The repository as an element of `repositories`; ``uri``, ``key`` or whole fields may differ."""
        uri = changes.pop("uri", f"{MIRROR}/cuda/repos/{self.repository}/{changes.pop('machine', 'x86_64')}/")
        key = (STUBS / f"{changes.pop('signer', 'vendor')}.asc").read_text()
        if self.kind == "el9":
            path = "/etc/pki/rpm-gpg/RPM-GPG-KEY-cuda"
            content = f"[cuda]\nname=cuda\nbaseurl={uri}\nenabled=1\ngpgcheck=1\ngpgkey=file://{path}\n"
            made = {"path": "/etc/yum.repos.d/cuda.repo", "key_path": path, "content": content}
        else:
            path = "/usr/share/keyrings/cuda.asc"
            content = f"Types: deb\nURIs: {uri}\nSuites: /\nSigned-By: {path}\n"
            made = {"path": "/etc/apt/sources.list.d/cuda.sources", "key_path": path, "content": content}
        return {"name": "cuda", "key": key, **made, **changes}

    def plan(self, **arguments: Any) -> dict[str, Any]:
        """The module's answer."""
        argv = ["docker", "exec", "--interactive", self.name, "python3", "-B", "-c", ON_NODE]
        given = {"repositories": [self.source()], "lock_timeout": 5, **arguments}
        result = subprocess.run(argv, input=json.dumps(given), capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(result.stdout + result.stderr)
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer

    def start(self, **arguments: Any) -> subprocess.Popen[str]:
        """The module, started and left alone; its command line on the node holds the word `started-module`."""
        argv = ["docker", "exec", "--interactive", self.name, "python3", "-B", "-c", ON_NODE, "started-module"]
        given = {"repositories": [self.source()], "lock_timeout": 5, **arguments}
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(given))
        process.stdin.close()
        return process

    def until(self, condition: str) -> None:
        """Wait until a shell condition holds on the node."""
        for _ in range(200):
            if self.shell(f"{condition} && echo yes || true", check=False).strip().endswith("yes"):
                return
            time.sleep(0.1)
        raise RuntimeError(f"never: {condition}")

    def kill(self, *words: str) -> None:
        """kill -9 every process whose command line has one of the words, at once."""
        self.shell(
            "python3 - " + " ".join(words),
            stdin="import os, sys\n"
            "for n in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try: line = open(f'/proc/{n}/cmdline').read()\n"
            "    except OSError: continue\n"
            "    if int(n) not in (1, os.getpid(), os.getppid()) and any(w in line for w in sys.argv[1:]):\n"
            "        os.kill(int(n), 9)\n",
        )


ON_NODE = (Path(__file__).parent / "on_node.py").read_text(encoding="utf-8")


def docker(*words: str) -> str:
    """Standard output of a docker command."""
    result = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if result.returncode:
        raise RuntimeError(f"docker {words[0]}: {result.stderr}")
    return result.stdout
