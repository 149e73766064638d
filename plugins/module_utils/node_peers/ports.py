# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The ports of a deployment, and who holds one."""

from __future__ import annotations

import os
import re

# Port -> what a deployment uses it for. Source: vLLM's defaults (master port, DP handshake and base of the DP master
# ports), facts 4.7 (NIXL side channel).
PORTS = {29501: "rendezvous", 29550: "data-parallel handshake", 29500: "data-parallel rendezvous", 5600: "NIXL"}
# Where the node has IMEX. Source: facts 7.3.
IMEX_PORTS = {50000: "IMEX"}
IMEX_FOLDERS = ("/etc/nvidia-imex", "/dev/nvidia-caps-imex-channels")

_LISTEN = "0A"


def of_node(wanted: list[int]) -> list[int]:
    """The ports to test on this node: those that are wanted, else those a deployment uses by default."""
    if wanted:
        return sorted(set(wanted))
    imex = IMEX_PORTS if any(os.path.isdir(folder) for folder in IMEX_FOLDERS) else {}
    return sorted({**PORTS, **imex})


def purpose(port: int) -> str:
    """What a deployment uses the port for, empty where that is not known."""
    return {**PORTS, **IMEX_PORTS}.get(port, "")


def listened_on(port: int) -> bool:
    """Whether any process listens on ``port``. Source: proc(5), net/tcp."""
    return bool(_inodes(port))


def holder(port: int) -> str:
    """The name of the process that listens on ``port``; empty where that cannot be read. Source: proc(5), net/tcp."""
    inodes = _inodes(port)
    for process in filter(re.compile("[0-9]+").fullmatch, _names("/proc")) if inodes else ():
        if any(_target(f"/proc/{process}/fd/{number}") in inodes for number in _names(f"/proc/{process}/fd")):
            return _text(f"/proc/{process}/comm").strip()[:64]
    return ""


def _inodes(port: int) -> set[str]:
    """The sockets that listen on ``port``, as /proc/PID/fd names them."""
    return {
        f"socket:[{fields[9]}]"
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in (line.split() for line in _text(table).splitlines())
        if len(fields) > 9 and fields[3] == _LISTEN and fields[1].endswith(f":{port:04X}")
    }


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
