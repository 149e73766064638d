# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A plan for dnf 4: asked of dnf itself in a child process, against repositories, caches and locks of its own."""

from __future__ import annotations

import fnmatch
import json
import os
import pkgutil
import re
import shlex
import shutil
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import dnf_child, rpm, versionlock
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import FETCH, Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import (
    Item,
    Package,
    PlanError,
    Simulation,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.request import Request, Wanted

_REPOSITORIES = ("/etc/yum.repos.d", "/etc/yum/repos.d", "/etc/distro.repos.d")
_PLUGINS = "/etc/dnf/plugins"
_LOCKS = f"{_PLUGINS}/versionlock.list"


class Dnf:
    """The node's dnf, as seen through a configuration in ``folder``."""

    family = "dnf"

    def __init__(self, machine: Machine, request: Request, folder: str) -> None:
        self.machine = machine
        self.request = request
        self.folder = folder
        self.installed, self._twice = rpm.installed(machine)
        self.locks_path = self._locks_path()
        self._asked: dict[str, Any] = {}

    # ---- what the node has -----------------------------------------------------------------------------------------

    def read_again(self) -> dict[str, Package]:
        """The installed packages as they are now."""
        self.installed, self._twice = rpm.installed(self.machine)
        return self.installed

    def half_done(self) -> list[str]:
        """What a killed transaction left: packages of which the old version is there beside the new one."""
        return [f"{name} (two versions installed)" for name in self._twice]

    def _locks_path(self) -> str:
        text = self.machine.read(f"{_PLUGINS}/versionlock.conf") or ""
        match = re.search(r"(?m)^\s*locklist\s*=\s*(/\S+)\s*$", text)
        return match.group(1) if match else _LOCKS

    def _locks(self) -> list[versionlock.Lock]:
        return versionlock.read(self.machine.read(self.locks_path) or "")

    def holds(self, after: dict[str, str], earlier: list[str]) -> dict[str, list[str]]:
        """The locks that are to be, as lines of versionlock's list. Locks of ours for other versions are released."""
        locks = self._locks()
        ours = {lock.line for lock in locks if lock.is_ours(self.request.hold) or lock.line in earlier}
        wanted = {
            versionlock.line_of(
                name.split(".", 1)[0] if name not in self.installed else self.installed[name].name, version
            )
            for name, version in after.items()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.request.hold)
        }
        there = {lock.line for lock in locks}
        return {
            "add": sorted(wanted - there),
            "keep": sorted(wanted & there),
            "release": sorted(ours - wanted) if self.request.hold else [],
            "foreign": [lock.line for lock in locks if lock.line not in ours],
        }

    # ---- the plan --------------------------------------------------------------------------------------------------

    def simulate(self, earlier: list[str]) -> Simulation:
        """What dnf would do, with our own locks left out of its list."""
        self._configure(earlier)
        names = [wanted.name for wanted in self.request.install]
        answer = self._child("offers", names=names)
        found = Simulation(unknown=answer["unknown"], warnings=answer["warnings"], streams=answer["streams"])
        removals = self._removals()
        if self.request.hold and not answer["versionlock"] and not any("versionlock" in name for name in names):
            raise PlanError(
                "hold: dnf's versionlock plugin is not on the node, so no lock would hold; add its package "
                "(python3-dnf-plugin-versionlock) to install"
            )
        if found.unknown:
            self._without_index(found, removals)
            return found
        install = self._resolve(found, answer["offers"])
        self._asked = {
            "install": install,
            "remove": [[package.name, None, package.arch] for package in removals] + self._surplus(),
        }
        answer = self._child("plan", **self._asked)
        found.streams = answer["streams"]
        found.disk_bytes = answer["disk"]
        found.download_bytes = sum(item["size"] for item in answer["items"] if not self._is_fetched(item))
        self._items(found, answer["items"], install)
        return found

    def _configure(self, earlier: list[str]) -> None:
        for name in ("repos", "plugins", "cache", "keys"):
            os.makedirs(f"{self.folder}/{name}", exist_ok=True)
        for folder in _REPOSITORIES:
            if os.path.isdir(folder):
                for name in sorted(os.listdir(folder)):
                    if name.endswith(".repo"):
                        shutil.copy2(f"{folder}/{name}", f"{self.folder}/repos/{name}")
        for repository in self.request.repositories:
            copy = f"{self.folder}/repos/{repository.path.rsplit('/', 1)[-1]}"
            if repository.text is None:
                self.machine.remove(copy)
                continue
            text = repository.text
            for path in re.findall(r"file://(/\S+)", "\n".join(re.findall(r"(?m)^gpgkey.*(?:\n[ \t].*)*", text))):
                if repository.key is not None and path == repository.key.path:
                    key = f"{self.folder}/keys/{repository.name}"
                    self.machine.write(key, repository.key.text or "")
                    text = text.replace(f"file://{path}", f"file://{key}")
                elif not os.path.exists(path):
                    raise PlanError(
                        f"repository {repository.name}: its key {path} is not on the node; give it as key, key_path"
                    )
            self.machine.write(copy, text)
        locks = self.machine.read(self.locks_path) or ""
        ours = {
            lock.line for lock in versionlock.read(locks) if lock.is_ours(self.request.hold) or lock.line in earlier
        }
        self.machine.write(f"{self.folder}/locks", versionlock.without(locks, ours))
        self._use_locks(f"{self.folder}/locks")
        self._seed("/var/cache/dnf")
        child = pkgutil.get_data(dnf_child.__name__.rpartition(".")[0], "dnf_child.py")
        self.machine.write(f"{self.folder}/child.py", (child or b"").decode())

    def _use_locks(self, path: str) -> None:
        conf = f"[main]\nenabled = 1\nlocklist = {path}\n"
        self.machine.write(f"{self.folder}/plugins/versionlock.conf", conf)

    def _seed(self, cache: str) -> None:
        """The node's metadata: what did not change since is not fetched again."""
        if not os.path.isdir(cache):
            return
        for name in os.listdir(cache):
            source = f"{cache}/{name}"
            if os.path.isdir(f"{source}/repodata"):
                shutil.copytree(
                    source, f"{self.folder}/cache/{name}", ignore=shutil.ignore_patterns("packages"), dirs_exist_ok=True
                )
            elif name.endswith((".solv", ".solvx")):
                shutil.copy2(source, f"{self.folder}/cache/{name}")

    def _child(self, mode: str, timeout: float = 600.0, **more: Any) -> dict[str, Any]:
        paths = [f"{self.folder}/{name}" for name in ("child.py", "request.json", "answer.json")]
        self.machine.remove(paths[2])
        self.machine.write(paths[1], json.dumps(self._question(mode, **more)), 0o600)
        result = self.machine.run([*self._interpreter(), *paths], FETCH if mode == "download" else timeout)
        text = self.machine.read(paths[2])
        if text is None:
            raise PlanError(f"dnf gave no answer: {result.unknown().reason}")
        answer = json.loads(text)
        if "error" in answer:
            raise PlanError(_sentence(answer["error"]))
        return answer

    def _question(self, mode: str, **more: Any) -> dict[str, Any]:
        return {
            "mode": mode,
            "folder": self.folder,
            "ours": [name for repository in self.request.repositories for name in repository.ids],
            "streams": {name: list(streams) for name, streams in self.request.module_streams.items()},
            "reachable_only": mode == "offers",
            "recommends": self.request.recommends,
            "download_dir": self.request.download_dir,
            **more,
        }

    def _interpreter(self) -> list[str]:
        """What dnf itself runs on: only that Python is sure to have dnf's modules (C67)."""
        with open(self.machine.find("dnf-3") or "/usr/bin/dnf-3", encoding="utf-8") as handle:
            line = handle.readline()
        words = line[2:].split() if line.startswith("#!") else []
        return words or ["/usr/bin/python3"]

    def _removals(self) -> list[Package]:
        asked = {wanted.name for wanted in self.request.install}
        return [
            package
            for package in self.installed.values()
            if package.name not in asked
            and any(fnmatch.fnmatchcase(package.name, pattern) for pattern in self.request.remove)
        ]

    def _surplus(self) -> list[list[str]]:
        """The older one of each package that is there in two versions: all but the newest, as rpm orders them."""
        found = []
        for name in self._twice:
            lines = self.machine.ask(["rpm", "-q", "--qf", "%{EPOCHNUM}:%{VERSION}-%{RELEASE}\t%{ARCH}\n", name])
            versions = [line.split("\t") for line in lines.splitlines()]
            script = "".join(f"%{{lua: print(rpm.vercmp('{one[0]}', '{versions[0][0]}'))}}\n" for one in versions)
            order = [int(text) for text in self.machine.ask(["rpm", "--eval", script]).split()]
            newest = versions[order.index(max(order))]
            found += [[name, version.removeprefix("0:"), arch] for version, arch in versions if version != newest[0]]
        return found

    def _without_index(self, found: Simulation, removals: list[Package]) -> None:
        for wanted in self.request.install:
            package = self._package(wanted)
            if package is not None and wanted.accepts(package.version) and wanted.pick != "newest":
                found.items.append(Item(wanted.name, package.arch, package.version, package.version, "keep"))
                continue
            old = package.version if package else None
            action = "change" if package else "install"
            found.items.append(Item(wanted.name, package.arch if package else "", old, wanted.version, action))
        found.items += [Item(package.name, package.arch, package.version, None, "remove") for package in removals]
        if not found.changes and all(stream["action"] == "keep" for stream in found.streams):
            found.warnings += found.unknown
            found.unknown = []

    def _package(self, wanted: Wanted) -> Package | None:
        for package in self.installed.values():
            if package.name == wanted.name and wanted.arch in (None, package.arch):
                return package
        return None

    def _resolve(self, found: Simulation, offered: dict[str, list[list[str]]]) -> list[list[str | None]]:
        """[name, exact version, arch, repository id] of what has to be installed; PlanError where there is not one."""
        machine = os.uname().machine
        exact: list[list[str | None]] = []
        for wanted in self.request.install:
            ids = [one.ids for one in self.request.repositories if one.name == wanted.repository]
            arches = (wanted.arch,) if wanted.arch else (machine, "noarch")
            offers = [one for one in offered[wanted.name] if one[1] in arches and (not ids or one[2] in ids[0])]
            visible = [one for one in offers if one[3] is None]
            found.available[wanted.name] = list(dict.fromkeys(one[0] for one in visible))
            package = self._package(wanted)
            if package is not None and wanted.pick == "only" and wanted.accepts(package.version):
                continue
            chosen = self._choose(wanted, offers)
            if package is None or package.version != chosen[0]:
                exact.append([wanted.name, chosen[0], chosen[1], chosen[2] if wanted.repository else None])
        return exact

    def _choose(self, wanted: Wanted, offers: list[list[str]]) -> list[str]:
        accepted = [one for one in offers if wanted.accepts(one[0])]
        visible = [one for one in accepted if one[3] is None]
        place = f" by the repository {wanted.repository}" if wanted.repository else ""
        asked = f"{wanted.name} {wanted.version}" if wanted.version else wanted.name
        if not visible:
            if any(one[3] == "lock" for one in accepted):
                lines = [lock.line for lock in self._locks() if _concerns(lock, wanted.name, self.request.hold)]
                raise PlanError(
                    f"{asked} is kept away by a version lock of this site, which hold does not name: "
                    f"{', '.join(lines)} in {self.locks_path}; lift that lock or leave the package out"
                )
            if any(one[3] == "stream" for one in accepted):
                raise PlanError(f"{asked} is in a module stream that is not enabled; name the stream in module_streams")
            offered = ", ".join(dict.fromkeys(one[0] for one in offers)) or "nothing of that name"
            raise PlanError(f"{asked} is not offered{place}; offered: {offered}")
        versions = list(dict.fromkeys(one[0] for one in visible))
        if len(versions) > 1 and wanted.pick == "only" and wanted.version is not None:
            raise PlanError(
                f"{asked} is offered more than once{place}: {', '.join(versions[:8])}; name one in full, or take the "
                "newest of them with pick: newest"
            )
        return visible[0]

    def _items(self, found: Simulation, listed: list[dict[str, Any]], install: list[list[str | None]]) -> None:
        names = {name: one.name for one in self.request.repositories for name in one.ids}
        for item in listed:
            origin = names.get(item["repo"], item["repo"])
            action, new = item["action"], item["to"]
            if action == "remove" and item["name"] in self._twice:
                action, new = "upgrade", self.installed[item["name"]].version
            found.items.append(Item(item["name"], item["arch"], item["from"], new, action, origin))
        changed = {item.name for item in found.items}
        for wanted in self.request.install:
            package = self._package(wanted)
            if package is not None and wanted.name not in changed:
                found.items.append(Item(package.name, package.arch, package.version, package.version, "keep"))

    def _is_fetched(self, item: dict[str, Any]) -> bool:
        if item["file"] is None:
            return True
        try:
            return os.path.getsize(f"{self.request.download_dir}/{item['file']}") == item["size"]
        except OSError:
            return False

    # ---- fetching and running --------------------------------------------------------------------------------------

    def download(self, found: Simulation) -> list[str]:
        """Fetch what the plan needs; the files, each signed by the key that its repository names. PlanError if not."""
        if not any(item.new is not None for item in found.changes):
            return []
        os.makedirs(self.request.download_dir, mode=0o755, exist_ok=True)
        before = set(os.listdir(self.request.download_dir))
        answer = self._child("download", expected=self._expected(found), **self._asked)
        for repository in self.request.repositories:
            files = [path for path, name in answer["files"] if name in repository.ids]
            if files:
                rpm.check_signatures(self.machine, files, self._key_of(repository.name), self.folder)
        return sorted(path for path, _name in answer["files"] if os.path.basename(path) not in before)

    def _key_of(self, name: str) -> str:
        repository = next(one for one in self.request.repositories if one.name == name)
        if repository.key is not None:
            return f"{self.folder}/keys/{name}"
        paths = re.findall(r"(?m)^gpgkey\s*=\s*file://(/\S+)", repository.text or "")
        return paths[0]

    def _expected(self, found: Simulation) -> list[list[str | None]]:
        return [[item.name, item.arch, None if item.name in self._twice else item.new] for item in found.changes]

    def check_exact(self, found: Simulation) -> None:
        """dnf was asked with everything named exactly when it fetched, and is again right before it runs."""

    def script(self, found: Simulation, plan: dict[str, Any]) -> list[tuple[str, str, bool]]:
        """(name, shell text, always) of each step of the transaction."""
        steps = []
        keys = [repository.key.path for repository in self.request.repositories if repository.key]
        streams = any(stream["action"] != "keep" for stream in found.streams)
        if found.changes or streams:
            if keys:
                # A key that is there already is no failure; each signature is checked after this.
                steps.append(("keys", "{ " + _quoted(["rpmkeys", "--import", *keys]) + " || true; }", False))
            paths = [f"{self.folder}/{name}" for name in ("child.py", "run.json", "run-answer.json")]
            question = self._question("run", expected=self._expected(found), **self._asked)
            self.machine.write(paths[1], json.dumps(question), 0o600)
            steps.append(("transaction", _quoted([*self._interpreter(), *paths]), False))
        if plan["holds"]["add"] or plan["holds"]["release"]:
            text = self.machine.read(self.locks_path) or ""
            new = f"{self.folder}/locks-after"
            self.machine.write(new, versionlock.changed(text, plan["holds"]["release"], plan["holds"]["add"]))
            steps.append(("hold", _quoted(["install", "-D", "-m", "0644", new, self.locks_path]), False))
        return steps

    def environment(self) -> dict[str, str]:
        """What the transaction runs with."""
        return {"NEEDRESTART_MODE": "l", "NEEDRESTART_SUSPEND": "1"}

    def after_files(self) -> list[str]:
        """dnf fetches the index of a new repository by itself."""
        return []

    def full_upgrade(self) -> list[str]:
        """The packages that a full upgrade of this node would touch, its version locks included."""
        self._use_locks(self.locks_path)
        touched: list[str] = self._child("upgrade")["touched"]
        return touched

    def newer(self, names: list[str]) -> dict[str, str]:
        """name -> newest version offered, of those that have a newer one: what the locks are proven against."""
        self.machine.write(f"{self.folder}/no-locks", "")
        self._use_locks(f"{self.folder}/no-locks")
        offered = self._child("offers", names=names)["offers"]
        found = {}
        for name in names:
            visible = [one[0] for one in offered[name] if one[3] is None]
            if visible and visible[0] != self.installed[name].version:
                found[name] = visible[0]
        return found


def _concerns(lock: versionlock.Lock, name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a lock of the site speaks of the package."""
    return not lock.is_ours(patterns) and fnmatch.fnmatchcase(name, lock.name.lstrip("!"))


def _quoted(argv: list[str]) -> str:
    return " ".join(shlex.quote(word) for word in argv)


def _sentence(error: dict[str, str]) -> str:
    """What dnf said, led by what that means."""
    leads = {
        "download": "the packages cannot be fetched, or are not what the index announces",
        "solution": "dnf finds no solution",
        "lock": "dnf is in use",
        "other": "dnf refuses",
    }
    lead = leads.get(error["kind"])
    return f"{lead}: {error['text']}" if lead else error["text"]
