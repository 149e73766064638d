# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kernels of the node: the running one, those installed, and the one the next boot takes."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# From this kernel on NCCL drives the HCA from the GPU over dma-buf. Source: facts, corrections (GIN).
GIN_KERNEL = (6, 1)
# What a kernel's name may hold before it goes into a command line that a person copies.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,99}")
_GRUB_DEFAULT = re.compile(r"^\s*GRUB_DEFAULT=[\"']?([^\"'\n]*)", re.M)
_SAVED = re.compile(r"^saved_entry=(.*)$", re.M)


def known(node: Node) -> dict[str, Any]:
    """``{"running", "installed": [...], "boot", "how"}``; ``boot`` is Unknown where nothing on the node decides it."""
    return node.once("kernels", lambda: _read(node))


def _read(node: Node) -> dict[str, Any]:
    running = node.kernel()
    images = node.listdir("/boot")
    if isinstance(images, Unknown):
        return {"running": running, "installed": images, "boot": images, "how": ""}
    installed = sorted(
        (name[8:] for name in images or [] if name.startswith("vmlinuz-") and "rescue" not in name), key=_age
    )
    how = "an image in /boot"
    if not installed:
        folders = node.listdir("/lib/modules")
        if isinstance(folders, Unknown):
            return {"running": running, "installed": folders, "boot": folders, "how": ""}
        installed, how = sorted(folders or [], key=_age), "a folder in /lib/modules"
    boot, why = _default(node, installed, how)
    return {"running": running, "installed": installed, "boot": boot, "how": why}


def _default(node: Node, installed: list[str], how: str) -> tuple[str | Unknown, str]:
    if not installed:
        return Unknown("no kernel is installed in /boot or /lib/modules, so the next boot takes one from elsewhere"), ""
    if len(installed) == 1:
        return installed[0], f"the only kernel with {how}"
    saved: Any = None
    for path in ("/boot/grub2/grubenv", "/boot/grub/grubenv"):
        text = node.read(path, 4096)
        if isinstance(text, Unknown):
            saved = text
        elif text is not None:
            match = _SAVED.search(text)
            saved = match.group(1).strip() if match else ""
            break
    text = node.read("/etc/default/grub", 65536)
    choice = _GRUB_DEFAULT.findall(text) if isinstance(text, str) else []
    wanted: Any = choice[-1].strip() if choice else (text if isinstance(text, Unknown) else None)
    # Where grub is told to take the saved entry, and on Red Hat's kin always, grubenv decides.
    if wanted in ("saved", None) and saved is not None:
        wanted = saved
    if isinstance(wanted, Unknown):
        return Unknown(f"which kernel the next boot takes is not readable: {wanted.reason}", wanted.source), ""
    if wanted is None:
        return Unknown("no configuration of grub tells which of the installed kernels the next boot takes"), ""
    if wanted in ("", "0"):
        return installed[-1], "the newest kernel, which grub takes first"
    named = [kernel for kernel in installed if kernel in wanted]
    if named:
        return max(named, key=len), "the kernel grub's default names"
    return Unknown(f"grub's default {wanted[:80]!r} names no installed kernel"), ""


def headers(node: Node, kernel: str) -> bool | Unknown:
    """Whether the headers modules are built against are there: /lib/modules/KERNEL/build leads to a folder."""
    path = f"/lib/modules/{kernel}/build"
    target = node.readlink(path)
    if isinstance(target, Unknown):
        return target
    if target is None:
        return node.exists(path)
    return node.exists(target if target.startswith("/") else f"/lib/modules/{kernel}/{target}")


def _age(name: str) -> list[tuple[int, int, str]]:
    """Sorts kernels as their versions do: 6.8.0-100 after 6.8.0-49."""
    return [
        (1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.findall(r"[0-9]{1,18}|[A-Za-z]+", name)
    ]
