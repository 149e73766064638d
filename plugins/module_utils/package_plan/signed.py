# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Repository files, refused where they would take packages whose signature nobody checks (C12)."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# apt reads no file whose name has other characters. Source: sources.list(5).
_PATHS = {
    "apt": (
        re.compile(r"/etc/apt/sources\.list\.d/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.(list|sources)"),
        "/etc/apt/sources.list.d/NAME.sources or .list",
    ),
    "dnf": (re.compile(r"/etc/yum\.repos\.d/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.repo"), "/etc/yum.repos.d/NAME.repo"),
}
# Never /etc/apt/trusted.gpg.d: a key there speaks for every repository of the node.
_KEYS = {
    "apt": (
        re.compile(r"/(usr/share/keyrings|etc/apt/keyrings)/[A-Za-z0-9_-][A-Za-z0-9_.-]*\.asc"),
        "/usr/share/keyrings/NAME.asc or /etc/apt/keyrings/NAME.asc",
    ),
    "dnf": (re.compile(r"/etc/pki/rpm-gpg/[A-Za-z0-9_-][A-Za-z0-9_.-]*"), "/etc/pki/rpm-gpg/NAME"),
}
_PREFERENCE = re.compile(r"/etc/apt/preferences\.d/[A-Za-z0-9_-]+(\.pref)?")
_KEY_BLOCK = re.compile(r"\s*-----BEGIN PGP PUBLIC KEY BLOCK-----\n.*\n-----END PGP PUBLIC KEY BLOCK-----\s*", re.S)
_NO = ("no", "false", "without", "off", "disable", "0")
_OPENING = ("trusted", "allow-insecure", "allow-weak", "allow-downgrade-to-insecure")
_ANYWHERE = re.compile(
    r"--?(allow-unauthenticated|no-?gpg-?checks?|force-yes)|AllowUnauthenticated|AllowInsecureRepositories", re.I
)
_LIST_LINE = re.compile(r"(deb|deb-src)\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)")


@dataclass(frozen=True)
class File:
    """A file that is to be there with this text, or (text None) is not to be there."""

    path: str
    text: str | None


@dataclass(frozen=True)
class Repository:
    """A repository file, its key, and where its packages come from (``uris``; for dnf the ids of its sections)."""

    name: str
    path: str
    text: str | None
    key: File | None
    uris: tuple[str, ...]
    ids: tuple[str, ...]

    @property
    def files(self) -> list[File]:
        """What is written: the key first, so that no repository is ever there without it."""
        return ([self.key] if self.key else []) + [File(self.path, self.text)]


def repository(given: dict[str, Any], family: str, where: str) -> Repository:
    """One element of `repositories`, checked; PlanError names the offending text."""
    name, path, text = given["name"], given["path"], given["content"]
    if not _NAME.fullmatch(name):
        raise PlanError(f"{where}.name: {name!r} is not allowed; allowed: letters, digits, dot, dash and underscore")
    _check_path(path, *_PATHS[family], f"{where}.path")
    if given["state"] == "absent":
        return Repository(name, path, None, None, (), ())
    if not text:
        raise PlanError(f"{where}.content: the file of repository {name} has no text; allowed: its whole content")
    text = text if text.endswith("\n") else text + "\n"
    opening = _ANYWHERE.search("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    if opening:
        raise PlanError(f"{where}.content: {opening.group(0)!r} would take unsigned packages, which is refused")
    key = _key(given, family, where)
    if family == "dnf":
        uris, ids = _repo(text, key, where)
        return Repository(name, path, text, key, uris, ids)
    stanzas = _sources(text, where) if path.endswith(".sources") else _list(text, where)
    if not stanzas:
        raise PlanError(f"{where}.content: the file of repository {name} has no repository in it")
    for stanza in stanzas:
        _check_stanza(stanza, key, where)
    return Repository(name, path, text, key, tuple(uri for stanza in stanzas for uri in stanza["uris"].split()), ())


def preference(given: dict[str, Any], family: str, where: str) -> File:
    """One element of `preferences`: a file of apt's pins."""
    if family != "apt":
        raise PlanError(f"{where}: only apt knows preferences; leave them out on this node")
    if not _PREFERENCE.fullmatch(given["path"]):
        raise PlanError(
            f"{where}.path: {given['path']!r} is not allowed; allowed: /etc/apt/preferences.d/NAME or NAME.pref"
        )
    return File(given["path"], given["content"] if given["content"].endswith("\n") else given["content"] + "\n")


def _check_path(path: str, pattern: re.Pattern[str], allowed: str, where: str) -> None:
    if not pattern.fullmatch(path) or ".." in path:
        raise PlanError(f"{where}: {path!r} is not allowed; allowed: {allowed}")


def _key(given: dict[str, Any], family: str, where: str) -> File | None:
    path, text = given["key_path"], given["key"]
    if path is None:
        if text:
            raise PlanError(f"{where}.key_path: missing; say where the key is to stand")
        return None
    _check_path(path, *_KEYS[family], f"{where}.key_path")
    if text is None:
        return None
    if "PRIVATE KEY" in text or not _KEY_BLOCK.fullmatch(text):
        raise PlanError(f"{where}.key: not one public key in text form (-----BEGIN PGP PUBLIC KEY BLOCK----- …)")
    return File(path, text.strip() + "\n")


# ---- apt -----------------------------------------------------------------------------------------------------------


def _list(text: str, where: str) -> list[dict[str, str]]:
    """The lines of a .list file, each as fields in small letters."""
    found = []
    for line in text.splitlines():
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        match = _LIST_LINE.match(line)
        if not match:
            raise PlanError(f"{where}.content: apt would not read the line {line!r}")
        fields = {"uris": match.group(3), "shown": line}
        for option in (match.group(2) or "").split():
            name, _equals, value = option.partition("=")
            fields[name.rstrip("+-").lower()] = value
        found.append(fields)
    return found


def _sources(text: str, where: str) -> list[dict[str, str]]:
    """The stanzas of a .sources file, each as fields in small letters. Source: sources.list(5)."""
    found: list[dict[str, str]] = []
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for block in re.split(r"\n[ \t]*\n", lines):
        fields: dict[str, str] = {}
        last = None
        for line in block.splitlines():
            if not line.strip():
                continue
            if line[0] in " \t" and last:
                fields[last] += "\n" + line.strip()
                continue
            name, colon, value = line.partition(":")
            if not colon:
                raise PlanError(f"{where}.content: apt would not read the line {line!r}")
            last = name.strip().lower()
            fields[last] = value.strip()
        if fields and fields.get("enabled", "yes").lower() not in _NO:
            if "uris" not in fields:
                raise PlanError(f"{where}.content: a stanza has no URIs")
            found.append({**fields, "shown": "the stanza of " + fields["uris"]})
    return found


def _check_stanza(stanza: dict[str, str], key: File | None, where: str) -> None:
    for name in _OPENING:
        value = stanza.get(name)
        if value is not None and value.lower() not in _NO:
            raise PlanError(f"{where}.content: `{name}={value}` would take unsigned packages, which is refused")
    signed_by = stanza.get("signed-by", "")
    if not signed_by:
        raise PlanError(f"{where}.content: {stanza['shown']} has no Signed-By, so any key of the node would do")
    if "BEGIN PGP" in signed_by:
        return
    if not signed_by.startswith("/"):
        raise PlanError(f"{where}.content: Signed-By {signed_by!r} is not allowed; allowed: the path in key_path")
    if key is not None and signed_by != key.path:
        raise PlanError(f"{where}.content: Signed-By names {signed_by}, but key_path is {key.path}")


def signed_by(text: str) -> list[str]:
    """The key files that the content of an apt repository names."""
    return re.findall(r"(?im)^(?:signed-by:\s*|deb.*?\[[^\]]*signed-by=)(/[^\s\],]+)", text)


# ---- dnf -----------------------------------------------------------------------------------------------------------


def _repo(text: str, key: File | None, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as exc:
        raise PlanError(f"{where}.content: dnf would not read it: {str(exc).splitlines()[0]}") from exc
    uris, ids = [], []
    for section in parser.sections():
        options = {name.lower(): value for name, value in parser.items(section)}
        if options.get("enabled", "1").strip().lower() in _NO:
            continue
        check = options.get("gpgcheck")
        if check is None or check.strip().lower() not in ("1", "yes", "true", "on"):
            shown = "no gpgcheck=1" if check is None else f"`gpgcheck={check.strip()}`"
            raise PlanError(f"{where}.content: [{section}] has {shown}, so unsigned packages would be taken; refused")
        keys = options.get("gpgkey", "").split()
        if not keys:
            raise PlanError(f"{where}.content: [{section}] has no gpgkey, so no signature could be checked")
        for uri in keys:
            if not uri.startswith("file:///"):
                raise PlanError(
                    f"{where}.content: gpgkey={uri} is not allowed; allowed: file:// and the path in key_path"
                )
        if key is not None and f"file://{key.path}" not in keys:
            raise PlanError(f"{where}.content: [{section}] does not name key_path, gpgkey=file://{key.path}")
        places = [options[name] for name in ("baseurl", "mirrorlist", "metalink") if options.get(name)]
        if not places:
            raise PlanError(f"{where}.content: [{section}] has no baseurl")
        uris += places
        ids.append(section)
    if not ids:
        raise PlanError(f"{where}.content: the file has no enabled repository in it")
    return tuple(uris), tuple(ids)
