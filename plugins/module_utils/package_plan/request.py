# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module's arguments, checked before anything is asked of the node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import signed
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
_GLOB = re.compile(r"[A-Za-z0-9*?\[][A-Za-z0-9+._*?\[\]!-]*")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+:~^_-]*")
_ARCH = re.compile(r"[a-z0-9][a-z0-9_-]*")
_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FOLDER = re.compile(r"/[A-Za-z0-9_./+-]+")


@dataclass(frozen=True)
class Wanted:
    """A package that is to be there. ``version``: full, or an upstream version or its beginning to a dot; None: any."""

    name: str
    version: str | None
    arch: str | None
    pick: str
    repository: str | None

    def accepts(self, version: str) -> bool:
        """Whether a full version is one that was asked for."""
        if self.version is None or version == self.version:
            return True
        without_epoch = version.split(":", 1)[-1]
        upstream = without_epoch.rsplit("-", 1)[0]
        return self.version in (without_epoch, upstream) or upstream.startswith(self.version + ".")


@dataclass(frozen=True)
class Request:
    """Everything that was asked for."""

    repositories: tuple[signed.Repository, ...]
    preferences: tuple[signed.File, ...]
    install: tuple[Wanted, ...]
    remove: tuple[str, ...]
    allow_remove: tuple[str, ...]
    hold: tuple[str, ...]
    module_streams: dict[str, tuple[str, ...]]
    allow_downgrade: bool
    recommends: bool
    repair: bool
    state: str
    transaction_timeout: int
    lock_timeout: int
    download_dir: str
    expect: str | None


def parse(params: dict[str, Any], family: str) -> Request:
    """The request that the arguments make; PlanError names the argument, its value and what is allowed."""
    repositories = tuple(
        signed.repository(given, family, f"repositories[{number}]")
        for number, given in enumerate(params["repositories"])
    )
    preferences = tuple(
        signed.preference(given, family, f"preferences[{number}]") for number, given in enumerate(params["preferences"])
    )
    _once([item.path for item in repositories] + [item.path for item in preferences], "path", "of two files")
    _once([item.name for item in repositories], "name", "of two repositories")
    names = [item.name for item in repositories]
    install = tuple(_wanted(given, f"install[{number}]", names) for number, given in enumerate(params["install"]))
    _once([f"{item.name}:{item.arch or ''}" for item in install], "install", "asked for twice")
    for name in ("remove", "allow_remove", "hold"):
        for number, pattern in enumerate(params[name]):
            _check(_GLOB, pattern, f"{name}[{number}]", "a package name, which may have * and ?")
    for name in ("remove", "allow_remove"):
        for pattern in params[name]:
            if not pattern.strip("*?"):
                raise PlanError(f"{name}: {pattern!r} names every package of the node, which is not allowed")
    if params["expect"] is not None:
        _check(_DIGEST, params["expect"], "expect", "the digest of a plan, 64 hexadecimal digits")
    _check(_FOLDER, params["download_dir"], "download_dir", "an absolute path without blanks")
    for name, low, high in (("transaction_timeout", 10, 86400), ("lock_timeout", 0, 86400)):
        if not low <= params[name] <= high:
            raise PlanError(f"{name}: {params[name]} is not allowed; allowed: seconds from {low} to {high}")
    return Request(
        repositories=repositories,
        preferences=preferences,
        install=install,
        remove=tuple(params["remove"]),
        allow_remove=tuple(params["allow_remove"]),
        hold=tuple(params["hold"]),
        module_streams=_streams(params["module_streams"], family),
        allow_downgrade=params["allow_downgrade"],
        recommends=params["recommends"],
        repair=params["repair"],
        state=params["state"],
        transaction_timeout=params["transaction_timeout"],
        lock_timeout=params["lock_timeout"],
        download_dir=params["download_dir"].rstrip("/"),
        expect=params["expect"],
    )


def _wanted(given: dict[str, Any], where: str, repositories: list[str]) -> Wanted:
    _check(_NAME, given["name"], f"{where}.name", "a package name")
    if given["version"] is not None:
        _check(_VERSION, given["version"], f"{where}.version", "a version, in full or up to a dot (580.126.20)")
    if given["arch"] is not None:
        _check(_ARCH, given["arch"], f"{where}.arch", "an architecture as the package manager spells it")
    if given["repository"] is not None and given["repository"] not in repositories:
        allowed = ", ".join(repositories) or "none, since repositories is empty"
        raise PlanError(
            f"{where}.repository: {given['repository']!r} is not among the repositories; allowed: {allowed}"
        )
    return Wanted(given["name"], given["version"], given["arch"], given["pick"], given["repository"])


def _streams(given: dict[str, Any], family: str) -> dict[str, tuple[str, ...]]:
    if given and family != "dnf":
        raise PlanError("module_streams: only dnf knows module streams; leave it empty on this node")
    found = {}
    for name, value in given.items():
        streams = value if isinstance(value, list) else [value]
        _check(_NAME, name, "module_streams", "the name of a module")
        for stream in streams:
            _check(
                _STREAM, stream, f"module_streams.{name}", "a stream, or a list of them of which the first there counts"
            )
        if not streams:
            raise PlanError(f"module_streams.{name}: the list is empty; allowed: a stream, or a list of streams")
        found[name] = tuple(streams)
    return found


def _check(pattern: re.Pattern[str], value: Any, where: str, allowed: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise PlanError(f"{where}: {value!r} is not allowed; allowed: {allowed}")


def _once(values: list[str], where: str, what: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise PlanError(f"{where}: {value!r} is {what}")
