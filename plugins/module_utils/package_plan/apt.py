# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A plan for apt: resolved and simulated against lists of its own, fetched, and handed on as one exact command."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import apt_config, apt_output, dpkg
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import FETCH, UPDATE, Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import (
    Item,
    Package,
    PlanError,
    Simulation,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.request import Request, Wanted
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Result

_QUIET = ["apt-get", "-q", "-y"]
# Marks are the node's own: of what is installed now, not of the copy that was asked for the plan.
_MARK = ["env", "-u", "APT_CONFIG", "apt-mark"]


class Apt:
    """The node's apt, as seen through a configuration in ``folder``."""

    family = "apt"

    def __init__(self, machine: Machine, request: Request, folder: str) -> None:
        self.machine = machine
        self.request = request
        self.folder = folder
        self.installed = dpkg.installed(machine)
        self.config: apt_config.AptConfig | None = None

    # ---- what the node has -----------------------------------------------------------------------------------------

    def read_again(self) -> dict[str, Package]:
        """The installed packages as they are now."""
        self.installed = dpkg.installed(self.machine)
        return self.installed

    def half_done(self) -> list[str]:
        """What a killed or failed run of dpkg left: packages with their state, and dpkg's own notes."""
        notes = ["dpkg itself (killed while it wrote)"] if dpkg.interrupted() else []
        return dpkg.half_done(self.installed) + notes

    def held(self) -> list[str]:
        """The names that are on hold."""
        return sorted(name for name, package in self.installed.items() if package.held)

    # ---- the plan --------------------------------------------------------------------------------------------------

    def _ours(self, earlier: list[str]) -> set[str]:
        """The holds that are ours to change: those that the request names, and those that an earlier run set."""
        return {
            name
            for name in self.held()
            if name in earlier or any(fnmatch.fnmatchcase(name.split(":", 1)[0], text) for text in self.request.hold)
        }

    def holds(self, after: dict[str, str], earlier: list[str]) -> dict[str, list[str]]:
        """What is to be held of the packages of afterwards, and what the site holds. Held stays held throughout."""
        held = self.held()
        ours = self._ours(earlier)
        wanted = {
            name
            for name in after
            if any(fnmatch.fnmatchcase(name.split(":", 1)[0], text) for text in self.request.hold)
        }
        return {
            "add": sorted(wanted - set(held)),
            "keep": sorted((wanted | ours) & set(held) & set(after)),
            "release": [],
            "foreign": [name for name in held if name not in ours],
        }

    def simulate(self, earlier: list[str]) -> Simulation:
        """What apt would do, with our own holds lifted in a copy of dpkg's records."""
        ours = self._ours(earlier)
        self.config = apt_config.make(self.machine, self.request, self.folder)
        status = self.machine.read(dpkg.STATUS) or ""
        self.machine.write(self.config.status, dpkg.status_without_holds(status, ours))
        found = Simulation()
        self._refresh(found)
        removals = self._removals()
        if found.unknown:
            self._without_index(found, removals)
            return found
        wanted = self._resolve(found)
        arguments = [f"{name}={version}" if version else name for name, version in wanted.items()]
        arguments += [f"{name}-" for name in removals]
        if arguments:
            steps = self._steps(arguments, ours)
            self._items(found, steps)
            self._sizes(found)
        self._keep(found, wanted)
        return found

    def _refresh(self, found: Simulation) -> None:
        """Fetch the lists; what is wrong with a repository of the request decides, another's is a warning."""
        argv = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"]
        uris = tuple(uri for repository in self.request.repositories for uri in repository.uris)
        # Once more, since a line may be lost at this moment; what is still wrong then is told.
        for _attempt in range(2):
            result = self._apt(argv, UPDATE)
            troubles = apt_output.troubles(result.stderr + "\n" + result.stdout, uris)
            if result.ok or not any(trouble.kind == "unreachable" for trouble in troubles):
                break
        if result.error:
            raise PlanError(result.unknown().reason)
        for trouble in troubles:
            if trouble.kind == "clash":
                raise PlanError(f"two files name the same repository with different keys; remove one: {trouble.text}")
            if not trouble.ours:
                found.warnings.append(f"a repository of this node that the plan does not ask for: {trouble.text}")
            elif trouble.kind == "signature":
                raise PlanError(f"the repository is not signed by the given key: {trouble.text}")
            elif trouble.kind == "broken":
                raise PlanError(f"the mirror gave a file that is not the one it announces: {trouble.text}")
            else:
                found.unknown.append(f"the index cannot be reached: {trouble.text}")
        if result.rc and not found.unknown and not found.warnings:
            raise PlanError(f"apt cannot read its repositories: {apt_output.complaint(result.stderr)}")

    def _without_index(self, found: Simulation, removals: list[str]) -> None:
        """Without an index only what is installed is certain; where that is what was asked for, nothing is unknown."""
        for wanted in self.request.install:
            package = self._package(wanted)
            if package is not None and wanted.accepts(package.version) and wanted.pick != "newest":
                found.items.append(Item(wanted.name, package.arch, package.version, package.version, "keep"))
                continue
            old = package.version if package else None
            action = "install" if package is None else "change"
            found.items.append(Item(wanted.name, package.arch if package else "", old, wanted.version, action))
        found.items += [
            Item(name, self.installed[name].arch, self.installed[name].version, None, "remove") for name in removals
        ]
        if not found.changes:
            found.warnings += found.unknown
            found.unknown = []

    def _package(self, wanted: Wanted) -> Package | None:
        return self.installed.get(_full_name(wanted)) or self.installed.get(wanted.name if not wanted.arch else "")

    def _removals(self) -> list[str]:
        """The installed packages that `remove` names, without those that are to be there."""
        asked = {_full_name(wanted) for wanted in self.request.install}
        return sorted(
            name
            for name in self.installed
            if name not in asked and any(fnmatch.fnmatchcase(name, pattern) for pattern in self.request.remove)
        )

    def _resolve(self, found: Simulation) -> dict[str, str]:
        """name -> exact version of everything asked for, empty for apt's candidate; PlanError where it is not one."""
        names = [_full_name(wanted) for wanted in self.request.install]
        if not names:
            return {}
        listed = apt_output.madison(self._ask(["apt-cache", "madison", *names]))
        exact = {}
        for wanted in self.request.install:
            name = _full_name(wanted)
            offers = [(version, uri) for offered, version, uri in listed if offered in (name, wanted.name)]
            if wanted.repository is not None:
                offers = [(version, uri) for version, uri in offers if self._is_from(uri, wanted.repository)]
            versions = list(dict.fromkeys(version for version, _uri in offers))
            found.available[name] = versions
            package = self._package(wanted)
            if package is not None and wanted.pick == "only" and wanted.accepts(package.version):
                exact[name] = package.version
                continue
            exact[name] = _choose(wanted, versions)
            old = package.version if package else ""
            if old and exact[name] and dpkg.compare(exact[name], old) < 0 and not self.request.allow_downgrade:
                raise PlanError(f"{name} would go back from {old} to {exact[name]}; allow_downgrade permits that")
        return exact

    def _is_from(self, uri: str, name: str) -> bool:
        return any(
            uri.rstrip("/").startswith(one.rstrip("/"))
            for repository in self.request.repositories
            if repository.name == name
            for one in repository.uris
        )

    def _steps(self, arguments: list[str], ours: set[str]) -> list[apt_output.Step]:
        result = self._simulate(arguments)
        if result is None:
            # Does the site's hold stand in the way? Asked of a copy in which nothing is on hold.
            config = self._config()
            status = self.machine.read(config.status) or ""
            self.machine.write(config.status, dpkg.status_without_holds(status, set(self.installed)))
            free = self._simulate(arguments)
            self.machine.write(config.status, status)
            if free is None:
                raise PlanError(f"apt finds no solution: {apt_output.complaint(self._complaint)}")
            result = free
        foreign = sorted({step.name for step in result} & (set(self.held()) - ours))
        if foreign:
            raise PlanError(
                f"the plan would change {', '.join(foreign)}, which this site has on hold and which hold does not "
                f"name; lift that hold (apt-mark unhold {' '.join(foreign)}) or leave the package out"
            )
        return result

    def _simulate(self, arguments: list[str]) -> list[apt_output.Step] | None:
        """The steps of a simulation, None where apt found no solution; _complaint is then what it said.

        apt takes the newest version of a dependency also where exactly an older one is needed, and gives up. So what it
        misses in exactly one version is asked for by that version, until nothing new is missing.
        """
        asked = list(arguments)
        while True:
            result = self._apt([*_QUIET, "-s", *self._options(), "install", *asked])
            if result.error:
                raise PlanError(result.unknown().reason)
            self._complaint = result.stdout + "\n" + result.stderr
            if result.rc == 0:
                return apt_output.steps(result.stdout)
            named = {argument.partition("=")[0] for argument in asked}
            missing = [
                f"{name}={version}" for name, version in apt_output.exact_needs(self._complaint) if name not in named
            ]
            if not missing:
                return None
            asked += missing

    def _options(self) -> list[str]:
        recommends = "--install-recommends" if self.request.recommends else "--no-install-recommends"
        downgrades = ["--allow-downgrades"] if self.request.allow_downgrade else []
        return [recommends, "--allow-change-held-packages", *downgrades]

    def _items(self, found: Simulation, steps: list[apt_output.Step]) -> None:
        for step in steps:
            package = self.installed.get(step.name)
            old = package.version if package else None
            if step.new is None:
                action = "remove"
            elif old is None:
                action = "install"
            else:
                action = ("downgrade", "reinstall", "upgrade")[dpkg.compare(step.new, old) + 1]
            arch = step.arch or (package.arch if package else "")
            found.items.append(Item(step.name.split(":", 1)[0], arch, old, step.new, action))

    def _sizes(self, found: Simulation) -> None:
        """Where each package comes from, and bytes: to fetch (what is in the folder already is not), and on disk."""
        coming = [item for item in found.items if item.new is not None]
        fetched = {}
        if coming:
            options = [*_QUIET, "--print-uris", *self._options(), "install"]
            fetched = apt_output.uris(self._ask([*options, *self._exact(found.items)]))
        sizes = self._installed_sizes(coming)
        found.download_bytes, found.disk_bytes = 0, 0
        for number, item in enumerate(found.items):
            uri, name, size = fetched.get((item.name, item.new or ""), ("", "", 0))
            if item.new is not None:
                found.items[number] = Item(item.name, item.arch, item.old, item.new, item.action, self._origin(uri))
                found.download_bytes += 0 if self._is_fetched(name, size) else size
                found.disk_bytes += sizes.get((item.name, item.new), 0)
            if item.old is not None:
                found.disk_bytes -= self.installed[_key(item, self.installed)].size

    def _installed_sizes(self, items: list[Item]) -> dict[tuple[str, str], int]:
        if not items:
            return {}
        text = self._ask(["apt-cache", "show", *(f"{item.name}:{item.arch}={item.new}" for item in items)])
        found = {}
        for block in text.split("\n\n"):
            fields = dict(re.findall(r"^(Package|Version|Installed-Size): (\S+)$", block, re.M))
            if len(fields) == 3:
                found[(fields["Package"], fields["Version"])] = int(fields["Installed-Size"]) * 1024
        return found

    def _origin(self, uri: str) -> str | None:
        for repository in self.request.repositories:
            if any(uri.startswith(one.rstrip("/") + "/") for one in repository.uris):
                return repository.name
        return uri.rsplit("/", 1)[0] or None

    def _is_fetched(self, name: str, size: int) -> bool:
        try:
            return os.path.getsize(f"{self.request.download_dir}/{name}") == size
        except OSError:
            return False

    def _keep(self, found: Simulation, wanted: dict[str, str]) -> None:
        changed = {_key(item, self.installed) for item in found.items}
        for name, version in wanted.items():
            if name in self.installed and name not in changed:
                package = self.installed[name]
                found.items.append(Item(package.name, package.arch, package.version, version, "keep"))

    # ---- fetching and running --------------------------------------------------------------------------------------

    def download(self, found: Simulation) -> list[str]:
        """Fetch what the plan needs into the folder; the files, each with its hash checked by apt. PlanError if not."""
        coming = self._exact(found.changes)
        if not any("=" in argument for argument in coming):
            return []
        os.makedirs(f"{self.request.download_dir}/partial", mode=0o755, exist_ok=True)
        before = self._packages()
        result = self._apt(
            [
                *(*_QUIET, "-o", f"Dir::Cache::archives={self.request.download_dir}/", *self._options()),
                *("--download-only", "install", *coming),
            ],
            FETCH,
        )
        if result.error:
            raise PlanError(result.unknown().reason)
        if result.rc:
            raise PlanError(f"the packages cannot be fetched: {apt_output.complaint(result.stderr)}")
        return sorted(self._packages() - before)

    def _packages(self) -> set[str]:
        folder = self.request.download_dir
        return {f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".deb")}

    def check_exact(self, found: Simulation) -> None:
        """Ask apt once more, of dpkg's true records and with every package and version named: it must be the plan."""
        result = self._apt(
            [
                *(*_QUIET, "-s", "-o", f"Dir::State::status={dpkg.STATUS}", *self._options(), "install"),
                *self._exact(found.changes),
            ]
        )
        planned = {(item.name, item.new) for item in found.changes}
        fresh = {(step.name.split(":", 1)[0], step.new) for step in apt_output.steps(result.stdout)}
        if result.rc or fresh != planned:
            differing = ", ".join(sorted(f"{name} {new or 'removed'}" for name, new in planned ^ fresh))
            raise PlanError(
                "apt would not do what was planned, so nothing was started: "
                + (differing or apt_output.complaint(result.stdout + result.stderr))
            )

    def script(self, found: Simulation, plan: dict[str, Any]) -> list[tuple[str, str, bool]]:
        """(name, shell text, always) of each step of the transaction."""
        apt = [
            *("apt-get", "-q", "-y", "--no-download"),
            *("-o", f"Dir::Cache::archives={self.request.download_dir}/"),
            *("-o", f"Dir::State::status={dpkg.STATUS}"),
            *("-o", "Dir::Log=/var/log/apt"),
            *("-o", f"DPkg::Lock::Timeout={self.request.lock_timeout}"),
            *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"),
        ]
        steps = []
        if plan["half_done"]:
            # A package that cannot be configured may be one that the transaction replaces: the result decides.
            steps.append(("configure", "{ dpkg --force-confdef --force-confold --configure -a || true; }", False))
        if found.changes:
            steps.append(
                ("transaction", quoted([*apt, *self._options(), "install", *self._exact(found.changes)]), False)
            )
        automatic = self._automatic(found)
        if automatic:
            steps.append(("automatic", quoted([*_MARK, "auto", *automatic]) + " >/dev/null", True))
        hold = [*plan["holds"]["add"], *plan["holds"]["keep"]]
        if plan["holds"]["add"] or (hold and found.changes):
            steps.append(("hold", quoted([*_MARK, "hold", *hold]), True))
        return steps

    def environment(self) -> dict[str, str]:
        """What the transaction runs with: no questions, no restart of services, our lists."""
        return {
            **self._config().env,
            "NEEDRESTART_MODE": "l",
            "NEEDRESTART_SUSPEND": "1",
            "APT_LISTCHANGES_FRONTEND": "none",
        }

    def _automatic(self, found: Simulation) -> list[str]:
        """What nobody asked for by name keeps being known as a dependency, although the command names it."""
        asked = {wanted.name for wanted in self.request.install}
        known = set(self._ask(["apt-mark", "showauto"]).split())
        return sorted(
            f"{item.name}:{item.arch}"
            for item in found.changes
            if item.new is not None and item.name not in asked and (item.old is None or item.name in known)
        )

    def _exact(self, items: list[Item]) -> list[str]:
        return [
            f"{item.name}:{item.arch}={item.new}" if item.new is not None else f"{_key(item, self.installed)}-"
            for item in items
        ]

    def after_files(self) -> list[str]:
        """Warnings of bringing the node's own lists up to date for the repositories just written."""
        warnings = []
        for repository in self.request.repositories:
            if repository.text is None:
                continue
            argv = [
                "apt-get",
                "-q",
                "-o",
                f"Dir::Etc::sourcelist={repository.path}",
                "-o",
                "Dir::Etc::sourceparts=/dev/null",
            ]
            argv += ["-o", "APT::Get::List-Cleanup=0", "-o", "Acquire::Retries=0"]
            result = self.machine.run([*argv, "update"], UPDATE)
            if not result.ok:
                warnings.append(
                    f"the node's own lists of {repository.name} are not up to date: {result.unknown().reason}"
                )
        return warnings

    def full_upgrade(self) -> list[str]:
        """The packages that a full upgrade of this node would touch, of dpkg's true records, holds included."""
        result = self._apt([*_QUIET, "-s", "-o", f"Dir::State::status={dpkg.STATUS}", "dist-upgrade"])
        if not result.ok:
            raise PlanError(
                f"a full upgrade cannot be simulated: {apt_output.complaint(result.stdout + result.stderr)}"
            )
        return sorted({step.name for step in apt_output.steps(result.stdout)})

    def newer(self, names: list[str]) -> dict[str, str]:
        """name -> newest version offered, of those that have a newer one: what the holds are proven against."""
        found: dict[str, str] = {}
        if names:
            for name, version, _uri in apt_output.madison(self._ask(["apt-cache", "madison", *names])):
                installed = self.installed.get(name)
                if installed and name not in found and dpkg.compare(version, installed.version) > 0:
                    found[name] = version
        return found

    # ---- commands --------------------------------------------------------------------------------------------------

    def _config(self) -> apt_config.AptConfig:
        if self.config is None:
            raise PlanError("apt was not asked for a plan yet")
        return self.config

    def _apt(self, argv: list[str], timeout: float = 300.0) -> Result:
        return self.machine.run(argv, timeout, self._config().env)

    def _ask(self, argv: list[str]) -> str:
        return self.machine.ask(argv, env=self._config().env)


def _choose(wanted: Wanted, versions: list[str]) -> str:
    accepted = [version for version in versions if wanted.accepts(version)]
    name = _full_name(wanted)
    place = f" by the repository {wanted.repository}" if wanted.repository else ""
    if not accepted:
        asked = f" {wanted.version}" if wanted.version else ""
        offered = ", ".join(versions[:8]) or "nothing of that name"
        raise PlanError(f"{name}{asked} is not offered{place}; offered: {offered}")
    if len(accepted) > 1 and wanted.pick == "only" and wanted.version is not None:
        raise PlanError(
            f"{name} {wanted.version} is offered more than once{place}: {', '.join(accepted[:8])}; name one in full, "
            "or take the newest of them with pick: newest"
        )
    # Any version will do: apt's own preferences choose among those of several repositories.
    return "" if wanted.version is None and wanted.pick == "only" and not wanted.repository else accepted[0]


def _full_name(wanted: Wanted) -> str:
    return f"{wanted.name}:{wanted.arch}" if wanted.arch else wanted.name


def _key(item: Item, installed: dict[str, Package]) -> str:
    """The name by which dpkg lists an item's package."""
    full = f"{item.name}:{item.arch}"
    return full if full in installed else item.name


def quoted(argv: list[str]) -> str:
    """A command line for a shell."""
    return " ".join(shlex.quote(word) for word in argv)
