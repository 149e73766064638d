# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The packages that are installed now, fetched into a folder with a record, so that they can be put back."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import tempfile
import time
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import FETCH, Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact

RECORD = "record.json"
# Where package managers keep what they fetched, and where package_plan does.
APT_CACHES = ("/var/cache/apt/archives", "/var/cache/gpufleet-kimi-k3/packages")
DNF_CACHES = ("/var/cache/dnf/*/packages", "/var/cache/gpufleet-kimi-k3/packages")
# apt writes down what it read unless told not to; nothing of the node changes by being asked.
NO_CACHE = ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
# Files of which the record keeps a copy.
OPTION_FILES = ("/etc/modprobe.d/*nvidia*", "/etc/modprobe.d/*nouveau*")
TEXT_MAX = 64 << 10


class Cache:
    """A folder for one set of packages. ``manager``: apt or dnf."""

    def __init__(self, machine: Machine, manager: str, folder: str, packages: list[dict[str, str]]) -> None:
        self.machine = machine
        self.manager = manager
        self.folder = folder
        self.packages = packages

    def have(self, package: dict[str, str]) -> str | None:
        """The file of a package in the folder, None where it is not there whole."""
        path = f"{self.folder}/{self._file(package)}"
        return path if os.path.isfile(path) and self._is(path, package) else None

    def _file(self, package: dict[str, str]) -> str:
        """The name a package manager gives the file: apt writes the colon of an epoch as %3a, dnf leaves epochs out."""
        if self.manager == "apt":
            return f"{package['name']}_{package['version'].replace(':', '%3a')}_{package['arch']}.deb"
        return f"{package['name']}-{package['version'].split(':', 1)[-1]}.{package['arch']}.rpm"

    def _is(self, path: str, package: dict[str, str]) -> bool:
        """Whether a file is this very package, by what it says of itself."""
        if self.manager == "apt":
            argv = ["dpkg-deb", "-f", path, "Package", "Version"]
            wanted = f"Package: {package['name']}\nVersion: {package['version']}"
        else:
            argv = ["rpm", "-qp", "--nosignature", "--qf", "%{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}", path]
            wanted = f"{package['name']} {package['version']}"
        result = self.machine.run(argv)
        return result.ok and result.stdout.strip() == wanted

    def cached(self, package: dict[str, str]) -> str | None:
        """The file of a package in a cache of the node."""
        for pattern in APT_CACHES if self.manager == "apt" else DNF_CACHES:
            for folder in glob.glob(pattern):
                path = f"{folder}/{self._file(package)}"
                if os.path.isfile(path) and self._is(path, package):
                    return path
        return None

    def offered(self, package: dict[str, str]) -> bool:
        """Whether one of the node's repositories still has this very version."""
        if self.manager == "apt":
            result = self.machine.run(["apt-cache", *NO_CACHE, "madison", package["name"]])
            lines = [line.split("|") for line in result.stdout.splitlines()] if result.ok else []
            return any(len(line) == 3 and line[1].strip() == package["version"] for line in lines)
        # With folders of its own, since dnf writes down what it read, and without plugins: some write as well, and the
        # locks of other versions would hide this one.
        with tempfile.TemporaryDirectory(prefix="gpufleet-rollback-") as folder:
            own = [f"--setopt={name}dir={folder}/{name}" for name in ("cache", "persist", "log")]
            argv = ["dnf", "-q", *own, "--noplugins", "repoquery", "--qf", "%{evr}\n"]
            result = self.machine.run([*argv, f"{package['name']}.{package['arch']}"], 300.0)
        return result.ok and package["version"].removeprefix("0:") in result.stdout.split()

    def fetch(self, package: dict[str, str]) -> str:
        """Bring one package into the folder; why it did not come, or empty."""
        there = self.cached(package)
        if there is not None:
            shutil.copyfile(there, f"{self.folder}/{self._file(package)}")
            return ""
        if self.manager == "apt":
            wanted = f"{package['name']}:{package['arch']}={package['version']}"
            # apt-get writes into the current folder, and its sandbox user may not enter this one.
            options = " ".join([*NO_CACHE, "-o", "APT::Sandbox::User=root"])
            script = f'cd "{self.folder}" && exec apt-get -q {options} download "{wanted}"'
            result = self.machine.run(["sh", "-c", script], FETCH)
        else:
            wanted = f"{package['name']}-{package['version']}.{package['arch']}"
            argv = ["dnf", "-q", "-y", "--disableplugin=versionlock", "download", f"--destdir={self.folder}", wanted]
            result = self.machine.run(argv, FETCH)
        if self.have(package) is not None:
            return ""
        return result.unknown().reason if not result.ok else "it was fetched and is not there"


def keep(
    machine: Machine, manager: str, folder: str, packages: list[dict[str, str]], record: dict[str, Any], check: bool
) -> dict[str, Any]:
    """``{"changed", "complete", "missing": [reasons], "files": [...]}``: what is in the folder now.

    In check mode nothing is fetched: ``complete`` says what is there, ``missing`` what could not be had.
    """
    cache = Cache(machine, manager, folder, packages)
    wanting = [package for package in packages if cache.have(package) is None]
    if check:
        missing = [
            f"{_text(one)} is offered nowhere any more"
            for one in wanting
            if cache.cached(one) is None and not cache.offered(one)
        ]
        return {"changed": bool(wanting), "complete": not wanting, "missing": missing, "files": []}
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    missing = []
    for package in wanting:
        reason = cache.fetch(package)
        if reason:
            missing.append(f"{_text(package)}: {redact(reason)}")
    files = [path for path in map(cache.have, packages) if path is not None]
    written = _write(
        machine, folder, {**record, "packages": packages, "complete": not missing, **_state(machine, manager)}
    )
    return {"changed": bool(wanting) or written, "complete": not missing, "missing": missing, "files": sorted(files)}


def _text(package: dict[str, str]) -> str:
    return f"{package['name']} {package['version']}"


def _state(machine: Machine, manager: str) -> dict[str, Any]:
    """Holds, module options and repository files as they are."""
    if manager == "apt":
        result = machine.run(["apt-mark", *NO_CACHE, "showhold"])
        holds = result.stdout.split() if result.ok else []
        sources = ["/etc/apt/sources.list", "/etc/apt/sources.list.d/*", "/etc/apt/preferences.d/*"]
    else:
        text = machine.read("/etc/dnf/plugins/versionlock.list") or ""
        holds = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        sources = ["/etc/yum.repos.d/*.repo", "/etc/dnf/modules.d/nvidia-driver.module"]
    return {
        "manager": manager,
        "holds": sorted(holds),
        "options": _texts(machine, OPTION_FILES),
        "origins": _texts(machine, sources),
        "kernel": os.uname().release,
    }


def _texts(machine: Machine, patterns: Any) -> dict[str, str]:
    found = {}
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            if os.path.isfile(path) and os.path.getsize(path) <= TEXT_MAX:
                text = machine.read(path) or ""
                found[path] = "\n".join(redact(line) for line in text.splitlines())
    return found


def _write(machine: Machine, folder: str, record: dict[str, Any]) -> bool:
    path = f"{folder}/{RECORD}"
    former = machine.read(path)
    try:
        known = json.loads(former) if former else {}
    except ValueError:
        known = {}
    # What was there before the change is what a rollback goes to: a later run that finishes an interrupted one finds
    # less of it, and does not write over it.
    if known.get("complete") and all(package in known.get("packages", []) for package in record["packages"]):
        return False
    record = {**record, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    machine.write(path, json.dumps(record, indent=2, sort_keys=True) + "\n", 0o600)
    return True


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+:~^_-]*")


def valid(packages: list[dict[str, str]]) -> str:
    """The first package whose name, version or architecture could not be one; empty where all could."""
    for package in packages:
        good = (
            NAME.fullmatch(package["name"])
            and VERSION.fullmatch(package["version"])
            and NAME.fullmatch(package["arch"])
        )
        if not good:
            return repr(package)
    return ""
