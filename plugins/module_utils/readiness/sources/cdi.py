# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""CDI specifications as the node has them, read by their lines: a node has no YAML library, JSON the same words."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

FOLDERS = ["/etc/cdi", "/var/run/cdi"]
ENDINGS = (".yaml", ".yml", ".json")
GPU_KIND = "nvidia.com/gpu"
FILES_MAX = 40

_KIND = re.compile(r"[\"']?\bkind[\"']?\s*:\s*[\"']?([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)")
_FORMAT = re.compile(r"[\"']?\bcdiVersion[\"']?\s*:\s*[\"']?(\d{1,3}(?:\.\d{1,3}){1,2})")
_DEVICE = re.compile(r"[\"']?\bname[\"']?\s*:\s*[\"']?(\d{1,3})[\"']?\s*(?:,|\}|$)", re.M)
# Libraries of the driver carry its whole version; those with numbers of their own (libnvidia-egl-gbm.so.1.1.2) do not
# have three digits in front.
_LIBRARY = re.compile(
    r"/lib(?:cuda|cudadebugger|nv[\w-]*|(?:GLX|EGL|GLESv\d_CM|GLESv\d|vdpau)_nvidia)\.so\.(\d{3,4}(?:\.\d{1,4}){1,2})\b"
)


def read(node: Node, folders: list[str]) -> list[dict[str, Any]] | Unknown:
    """The specifications of nvidia.com/gpu in ``folders``.

    Each ``{"path", "folder", "format": cdiVersion or None, "versions": [driver versions], "devices": GPUs by index}``.
    Unknown where a folder or a file that may be one cannot be read.
    """
    found = []
    for folder in _distinct(folders):
        names = node.listdir(folder)
        if isinstance(names, Unknown):
            return names
        for name in [name for name in names or [] if name.endswith(ENDINGS)][:FILES_MAX]:
            path = f"{folder}/{name}"
            text = node.read(path)
            if isinstance(text, Unknown):
                return text
            if text is None:
                continue
            kind = _KIND.search(text)
            if kind is None and "nvidia" in name:
                return Unknown(f"{path} names no kind of device, so it is no readable CDI specification", path)
            if kind is None or kind.group(1) != GPU_KIND:
                continue
            written = _FORMAT.search(text)
            found.append(
                {
                    "path": path,
                    "folder": folder,
                    "format": written.group(1) if written else None,
                    "versions": sorted(set(_LIBRARY.findall(text)))[:8],
                    "devices": len(set(_DEVICE.findall(text))),
                }
            )
    return found


def _distinct(folders: list[str]) -> list[str]:
    """Each folder once: /run/cdi is /var/run/cdi on every system of today."""
    seen: dict[str, str] = {}
    for folder in folders:
        plain = folder.rstrip("/")
        seen.setdefault(plain[4:] if plain.startswith("/var/run/") else plain, plain)
    return list(seen.values())
