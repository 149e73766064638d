# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prints the state of a node as JSON, to be compared before and after: files, packages, units, mounts, processes.

Runs on the node, from standard input, so that it leaves nothing there. A file stands with its hash and with its times:
the kernel sets the time of change, so one that was written and put back shows as well, and one that was made and
removed shows in its folder. Left out are the kernel's own trees and those that every running system writes
(/run, /tmp, /var/log), and of rpm's database what reading touches: the lock and SQLite's shared memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess

RPM = "/var/lib/rpm"
# The other tool may be there as a program, and rpm would make a database by being asked.
DPKG_IS_USED = os.path.exists("/var/lib/dpkg/status")
LISTED = (
    ("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n")
    if DPKG_IS_USED
    else ("rpm", "-qa", "--qf", "%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE} installed\n")
)
LEFT_OUT = {"/proc", "/sys", "/dev", "/run", "/tmp", "/var/log"}


def files() -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for folder, folders, names in os.walk("/"):
        folders[:] = sorted(name for name in folders if os.path.join(folder, name) not in LEFT_OUT)
        for path in [folder] + [os.path.join(folder, name) for name in names]:
            if path == RPM or (path.startswith(RPM + "/") and not path.endswith("/rpmdb.sqlite")):
                continue
            state = os.lstat(path)
            found[path] = [
                state.st_mode,
                state.st_uid,
                state.st_gid,
                state.st_size,
                state.st_mtime_ns,
                state.st_ctime_ns,
            ]
            if stat.S_ISREG(state.st_mode):
                found[path].append(digest(path))
            elif stat.S_ISLNK(state.st_mode):
                found[path].append(os.readlink(path))
    return found


def digest(path: str) -> str:
    with open(path, "rb") as handle:
        return hashlib.blake2b(handle.read(), digest_size=16).hexdigest()


def lines(*argv: str) -> list[str]:
    return sorted(subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines())


def processes() -> list[str]:
    """Command lines of what runs, without this process and kernel threads."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        if int(number) == os.getpid():
            continue
        try:
            with open(f"/proc/{number}/cmdline", "rb") as handle:
                found.append(handle.read().replace(b"\0", b" ").decode("utf-8", "replace").strip())
        except OSError:
            continue
    return sorted(text for text in found if text)


def mounts() -> list[str]:
    with open("/proc/self/mounts", encoding="utf-8") as handle:
        return sorted(handle.read().splitlines())


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "processes": processes(),
                "mounts": mounts(),
                "files": files(),
                "packages": lines(*LISTED),
                "units": lines("systemctl", "list-units", "--all", "--plain", "--no-legend", "--full"),
            }
        )
    )
