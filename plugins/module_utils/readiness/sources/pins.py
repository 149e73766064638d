# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What keeps packages at their version: holds, pins and locks, by their effect on each package (peers trap 11).

A pin that is there and has no effect (a file apt does not read, a version that does not match what is installed, a
plugin that is absent) is told as void.
"""

from __future__ import annotations

import configparser
import fnmatch
import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import repositories
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.packages import Package, Packages

EXACT = "exact"
BRANCH = "branch"
# apt installs a newer version of priority 500 unless the wanted one has more. Source: apt_preferences(5).
_DEFAULT_PRIORITY = 500
_APT_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_BLACKLIST_BLOCK = re.compile(r"Unattended-Upgrade::Package-Blacklist\s*\{([^}]*)\}", re.S)
_BLACKLIST_LINE = re.compile(r"Unattended-Upgrade::Package-Blacklist::\s*(\"[^\"]*\")")
_PERIODIC = re.compile(r"APT::Periodic::Unattended-Upgrade\s+\"([^\"]*)\"")
_LOCKS = "/etc/dnf/plugins/versionlock.list"


def read(node: Node, packages: Packages, names: list[str]) -> dict[str, Any] | Unknown:
    """``{"by_package": {name: "exact" | "branch" | None}, "void": [text], "automatic": text | None | Unknown}``.

    ``exact`` keeps the version, ``branch`` lets point releases through. ``automatic`` says what would install updates
    of these packages by itself; None where nothing does. ``prefers`` (apt) is the file that prefers one repository,
    ``stream`` (dnf) the enabled stream of the module.
    """
    wanted = [packages.by_name[name] for name in names]
    return _apt(node, packages, wanted) if packages.tool == "dpkg" else _dnf(node, packages, wanted)


# ---- apt -----------------------------------------------------------------------------------------------------------


def _apt(node: Node, packages: Packages, wanted: list[Package]) -> dict[str, Any] | Unknown:
    texts = repositories.files(node, "/etc/apt/preferences.d")
    main = node.read("/etc/apt/preferences", 262144)
    if isinstance(texts, Unknown):
        return texts
    if isinstance(main, Unknown):
        return main
    if main:
        texts["/etc/apt/preferences"] = main
    by_package: dict[str, str | None] = {
        package.name: EXACT if package.state.startswith("h") else None for package in wanted
    }
    void: list[str] = []
    prefers = None
    for path, text in sorted(texts.items()):
        ignored = _ignored_by_apt(path)
        for stanza in repositories.stanzas(text):
            pin = stanza.get("pin", "")
            if not ignored and _prefers(stanza, wanted):
                prefers = path
            if not pin.startswith("version ") or not _speaks_of(stanza, wanted):
                continue
            if ignored:
                void.append(f"{path} is not read by apt: {ignored}")
                break
            if not _apply(stanza, pin[8:].strip(), wanted, by_package):
                void.append(f"the pin `{pin}` in {path} does not hold what is installed")
    automatic = _unattended(node, packages, [package.name for package in wanted])
    return {"by_package": by_package, "void": void[:5], "automatic": automatic, "prefers": prefers}


def _prefers(stanza: dict[str, str], wanted: list[Package]) -> bool:
    """Whether a stanza ranks a repository for driver packages above or below the others, as cuda-keyring's does."""
    pin, priority = stanza.get("pin", ""), stanza.get("pin-priority", "")
    return (
        pin.startswith(("release ", "origin "))
        and re.search("nvidia|ubuntu|debian", pin, re.I) is not None
        and re.fullmatch(r"-?[0-9]{1,6}", priority) is not None
        and int(priority) != _DEFAULT_PRIORITY
        and _speaks_of(stanza, wanted)
    )


def _ignored_by_apt(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    if path == "/etc/apt/preferences":
        return ""
    if not _APT_NAME.fullmatch(name):
        return "its name has a character apt does not allow"
    ending = name.rsplit(".", 1)[1] if "." in name else ""
    return f"its name ends in .{ending}" if ending not in ("", "pref") else ""


def _speaks_of(stanza: dict[str, str], wanted: list[Package]) -> bool:
    return any(_names(pattern, package.name) for pattern in stanza.get("package", "").split() for package in wanted)


def _names(pattern: str, name: str) -> bool:
    """Whether a pattern of a preferences file names the package. Source: apt_preferences(5)."""
    pattern = re.sub(r":(any|native|amd64|arm64)$", "", pattern)
    if pattern.startswith("src:"):
        # The source of a package is not read; the driver's sources all have the vendor in their names.
        return "nvidia" in pattern or (pattern == "src:cuda-drivers" and name.startswith("cuda-drivers"))
    return _matches(pattern, name)


def _matches(pattern: str, text: str) -> bool:
    if len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            return re.search(pattern[1:-1], text) is not None
        except re.error:
            return False
    return fnmatch.fnmatchcase(text, pattern)


def _apply(stanza: dict[str, str], version: str, wanted: list[Package], by_package: dict[str, str | None]) -> bool:
    """Note what the stanza holds; whether it holds anything."""
    priority = stanza.get("pin-priority", "")
    if not re.fullmatch(r"-?[0-9]{1,6}", priority):
        return False
    if int(priority) < 0:
        # A ban on other versions holds nothing by itself, and is not meant to.
        return True
    held = False
    for package in wanted:
        if any(_names(pattern, package.name) for pattern in stanza.get("package", "").split()):
            if int(priority) <= _DEFAULT_PRIORITY or not _matches(version, package.version):
                continue
            held = True
            if by_package[package.name] != EXACT:
                by_package[package.name] = EXACT if package.upstream in version else BRANCH
    return held


def _unattended(node: Node, packages: Packages, names: list[str]) -> str | Unknown | None:
    if "unattended-upgrades" not in packages.by_name:
        return None
    texts = repositories.files(node, "/etc/apt/apt.conf.d")
    if isinstance(texts, Unknown):
        return texts
    whole = "\n".join(_without_comments(texts[path]) for path in sorted(texts))
    on = _PERIODIC.findall(whole)
    if not on or on[-1] in ("0", ""):
        return None
    blocks = " ".join(_BLACKLIST_BLOCK.findall(whole) + _BLACKLIST_LINE.findall(whole))
    patterns = re.findall(r"\"([^\"]+)\"", blocks)
    free = [name for name in names if not any(_starts(pattern, name) for pattern in patterns)]
    return f"unattended-upgrades ({', '.join(free[:3])} not in its blacklist)" if free else None


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("//", "#")))


def _starts(pattern: str, name: str) -> bool:
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


# ---- dnf -----------------------------------------------------------------------------------------------------------


def _dnf(node: Node, packages: Packages, wanted: list[Package]) -> dict[str, Any] | Unknown:
    void: list[str] = []
    patterns: list[str] = []
    for text in (_old_locks(node, packages, void), _new_locks(node), _excluded(node, void)):
        if isinstance(text, Unknown):
            return text
        patterns += text
    by_package: dict[str, str | None] = {}
    for package in wanted:
        spellings = _spellings(package)
        hits = [pattern for pattern in patterns if any(fnmatch.fnmatchcase(text, pattern) for text in spellings)]
        exact = any(package.upstream in pattern or pattern.rstrip("*") == package.name for pattern in hits)
        by_package[package.name] = (EXACT if exact else BRANCH) if hits else None
    stream = _stream(node)
    if isinstance(stream, Unknown):
        return stream
    if stream and re.match(r"[0-9]{3}", stream):
        by_package = {name: held or BRANCH for name, held in by_package.items()}
    return {"by_package": by_package, "void": void[:5], "automatic": _dnf_automatic(node), "stream": stream}


def _spellings(package: Package) -> list[str]:
    epoch, colon, rest = package.version.rpartition(":")
    epoch = epoch if colon else "0"
    return [
        package.name,
        f"{package.name}-{rest}",
        f"{package.name}-{rest}.{package.architecture}",
        f"{package.name}-{epoch}:{rest}",
        f"{package.name}-{epoch}:{rest}.{package.architecture}",
        f"{epoch}:{package.name}-{rest}.{package.architecture}",
    ]


def _old_locks(node: Node, packages: Packages, void: list[str]) -> list[str] | Unknown:
    """DNF 4's list: one name with epoch, version and release a line, ``.*`` for the architecture."""
    text = node.read(_LOCKS)
    if not isinstance(text, str):
        return text if isinstance(text, Unknown) else []
    lines = [line.strip() for line in text.splitlines()]
    patterns = [line for line in lines if line and line[0] not in "#!"]
    settings = node.read("/etc/dnf/plugins/versionlock.conf", 65536)
    if isinstance(settings, str) and re.search(r"^\s*enabled\s*=\s*(0|no|false)\s*$", settings, re.M | re.I):
        void.append("dnf's versionlock plugin is switched off in /etc/dnf/plugins/versionlock.conf")
        return []
    if patterns and not any("plugin-versionlock" in name or name == "dnf5" for name in packages.by_name):
        void.append(f"{_LOCKS} has locks, and dnf's versionlock plugin is not installed")
        return []
    return patterns


def _new_locks(node: Node) -> list[str] | Unknown:
    """DNF 5's file. Only the names and the values of its conditions are read: 3.9 has no reader of TOML."""
    text = node.read("/etc/dnf/versionlock.toml")
    if not isinstance(text, str):
        return text if isinstance(text, Unknown) else []
    found = []
    for block in text.split("[[packages]]")[1:]:
        name = re.search(r"^\s*name\s*=\s*[\"']([^\"']+)[\"']", block, re.M)
        if name:
            values = re.findall(r"^\s*value\s*=\s*[\"']([^\"']+)[\"']", block, re.M)
            found += [f"{name.group(1)}-{value}*" for value in values] or [name.group(1)]
    return found


def _excluded(node: Node, void: list[str]) -> list[str] | Unknown:
    text = node.read("/etc/dnf/dnf.conf", 262144)
    if not isinstance(text, str):
        return text if isinstance(text, Unknown) else []
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        void.append("/etc/dnf/dnf.conf has a line dnf cannot read, so what it excludes is not excluded")
        return []
    if not parser.has_section("main"):
        return []
    if parser.get("main", "plugins", fallback="1").strip().lower() in ("0", "no", "false"):
        void.append("/etc/dnf/dnf.conf switches dnf's plugins off, versionlock among them")
    words = (parser.get("main", "excludepkgs", fallback="") + " " + parser.get("main", "exclude", fallback="")).replace(
        ",", " "
    )
    return words.split()


def _stream(node: Node) -> str | Unknown | None:
    """The enabled stream of the module nvidia-driver (``580-open``; 580-dkms is the proprietary one, facts 1.16)."""
    text = node.read("/etc/dnf/modules.d/nvidia-driver.module", 65536)
    if not isinstance(text, str):
        return text
    values = dict(line.split("=", 1) for line in text.replace(" ", "").splitlines() if "=" in line)
    return values.get("stream") or None if values.get("state") == "enabled" else None


def _dnf_automatic(node: Node) -> str | Unknown | None:
    timers = node.listdir("/etc/systemd/system/timers.target.wants")
    if isinstance(timers, Unknown):
        return timers
    if "dnf-automatic-install.timer" in (timers or []):
        return "dnf-automatic-install.timer"
    if any(name in (timers or []) for name in ("dnf-automatic.timer", "dnf5-automatic.timer")):
        text = node.read("/etc/dnf/automatic.conf", 65536)
        if isinstance(text, Unknown):
            return text
        if text and re.search(r"^\s*apply_updates\s*=\s*(yes|true|1)\s*$", text, re.M | re.I):
            return "dnf-automatic (apply_updates)"
    return None
