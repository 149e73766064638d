# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where the package manager would take the NVIDIA driver from: the configured repositories of apt and dnf."""

from __future__ import annotations

import configparser
import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# The vendor's repositories, and the name of the machine's folder in them: sbsa, never aarch64 (facts 1.11; C13).
_VENDOR = re.compile(r"developer\.download\.nvidia\.com/compute/cuda/repos/([a-z0-9]{2,20})/([a-z0-9_]{2,20})")
MACHINE_FOLDERS = {"x86_64": "x86_64", "aarch64": "sbsa"}
# Where else the driver comes from. Source: facts 1.23, 1.26, 1.27; third-party repositories by their known names.
_APT_DRIVER_PARTS = ("restricted", "multiverse", "non-free", "contrib")
_YUM_DRIVER = re.compile(
    r"rpmfusion[^/]*nonfree|nonfree/(?:el|fedora)|negativo17|elrepo|azurelinux/[0-9.]+/prod/nvidia"
)
_APT_LINE = re.compile(r"^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)$")
FILES_MAX = 60


def read(node: Node, tool: str) -> dict[str, Any] | Unknown:
    """``{"vendor": [{distro, machine, file}], "distribution": [file], "clashes": [text], "unsigned": [file]}``.

    ``distribution`` are other repositories that carry the driver; ``clashes`` are sources of the same packages with
    different keys, which apt refuses to read (C12); ``unsigned`` are files that switch the check of signatures off.
    """
    sources = _apt(node) if tool == "dpkg" else _yum(node)
    if isinstance(sources, Unknown):
        return sources
    vendor, distribution, unsigned = [], [], []
    keys: dict[tuple[str, str], set[str]] = {}
    for source in sources:
        match = _VENDOR.search(source["uri"])
        if match:
            vendor.append({"distro": match.group(1), "machine": match.group(2), "file": source["file"]})
            if source["trusted"]:
                unsigned.append(source["file"])
        elif source["offers"]:
            distribution.append(source["file"])
        keys.setdefault((source["uri"].rstrip("/"), source["suite"]), set()).add(source["key"])
    clashes = sorted(uri for (uri, _suite), found in keys.items() if len(found) > 1)
    return {
        "vendor": vendor[:10],
        "distribution": sorted(set(distribution))[:10],
        "clashes": clashes[:5],
        "unsigned": sorted(set(unsigned))[:5],
    }


def files(node: Node, folder: str, *endings: str) -> dict[str, str] | Unknown:
    """The readable text of a folder's files with one of ``endings`` (no ending given: all), by path."""
    names = node.listdir(folder)
    if isinstance(names, Unknown):
        return names
    found = {}
    for name in (names or [])[:FILES_MAX]:
        if endings and not name.endswith(endings):
            continue
        text = node.read(f"{folder}/{name}", 262144)
        if isinstance(text, Unknown):
            if "needs root" in text.reason:
                return text
            continue
        if text is not None:
            found[f"{folder}/{name}"] = text
    return found


def _apt(node: Node) -> list[dict[str, Any]] | Unknown:
    folder = files(node, "/etc/apt/sources.list.d", ".list", ".sources")
    main = node.read("/etc/apt/sources.list", 262144)
    if isinstance(folder, Unknown):
        return folder
    if isinstance(main, Unknown):
        return main
    texts = {**({"/etc/apt/sources.list": main} if main else {}), **folder}
    found = []
    for path, text in texts.items():
        found += _deb822(path, text) if path.endswith(".sources") else _one_line(path, text)
    return found


def _one_line(path: str, text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        match = _APT_LINE.match(line.strip())
        if match:
            options = dict(item.split("=", 1) for item in (match.group(1) or "").split() if "=" in item)
            found.append(_apt_source(path, match.group(2), match.group(3), match.group(4).split("#")[0], options))
    return found


def _deb822(path: str, text: str) -> list[dict[str, Any]]:
    found = []
    for stanza in stanzas(text):
        if stanza.get("enabled", "yes").lower() in ("no", "false", "0") or "deb" not in stanza.get("types", "").split():
            continue
        options = {name: " ".join(stanza.get(name, "").split()) for name in ("signed-by", "trusted")}
        for uri in stanza.get("uris", "").split():
            suites = stanza.get("suites", "").split() or [""]
            found += [_apt_source(path, uri, suite, stanza.get("components", ""), options) for suite in suites]
    return found


def _apt_source(path: str, uri: str, suite: str, parts: str, options: dict[str, str]) -> dict[str, Any]:
    return {
        "file": path,
        "uri": uri,
        "suite": suite,
        "key": options.get("signed-by", ""),
        "trusted": options.get("trusted", "").lower() in ("yes", "true", "1"),
        "offers": any(part in _APT_DRIVER_PARTS for part in parts.split()),
    }


def _yum(node: Node) -> list[dict[str, Any]] | Unknown:
    texts = files(node, "/etc/yum.repos.d", ".repo")
    if isinstance(texts, Unknown):
        return texts
    found = []
    for path, text in texts.items():
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        try:
            parser.read_string(text)
        except configparser.Error:
            continue
        for section in parser.sections():
            values = dict(parser.items(section))
            uri = values.get("baseurl") or values.get("metalink") or values.get("mirrorlist") or ""
            if values.get("enabled", "1").strip().lower() not in ("0", "no", "false"):
                found.append(
                    {
                        "file": path,
                        "uri": uri,
                        "suite": section,
                        "key": "",
                        "trusted": values.get("gpgcheck", "1").strip().lower() in ("0", "no", "false"),
                        "offers": bool(_YUM_DRIVER.search(f"{section} {uri}")),
                    }
                )
    return found


def stanzas(text: str) -> list[dict[str, str]]:
    """The stanzas of a deb822 text: field names in lower case, continuation lines joined, comments left out."""
    found: list[dict[str, str]] = [{}]
    name = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            found.append({})
            name = ""
        elif line[0] in " \t" and name:
            found[-1][name] += " " + line.strip()
        elif ":" in line:
            name, value = line.split(":", 1)
            name = name.strip().lower()
            found[-1][name] = value.strip()
    return [stanza for stanza in found if stanza]
