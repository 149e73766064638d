# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Asks dnf 4 in a process of its own, with the interpreter that dnf itself runs on: `child.py REQUEST ANSWER`.

Both are JSON files. The request: ``mode`` (offers, plan, download, run, upgrade) and what each function below takes
from it. The answer: what that mode found, or ``{"error": {"kind": text, "text": text}}``. This file imports
nothing of ours.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from typing import Any


class Refused(Exception):
    """Said in the answer; nothing was changed."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as handle:
        request = json.load(handle)
    logging.getLogger("dnf").addHandler(logging.StreamHandler(sys.stderr))
    # Not an import of ours: dnf is there for the interpreter that this runs on, and only for that.
    dnf: Any = importlib.import_module("dnf")
    importlib.import_module("dnf.exceptions")
    try:
        answer = answer_to(dnf, request)
    except Refused as exc:
        answer = {"error": {"kind": exc.kind, "text": str(exc)}}
    except dnf.exceptions.LockError as exc:
        answer = {"error": {"kind": "lock", "text": str(exc)}}
    except dnf.exceptions.DownloadError as exc:
        answer = {"error": {"kind": "download", "text": one_line(exc)}}
    except dnf.exceptions.DepsolveError as exc:
        answer = {"error": {"kind": "solution", "text": one_line(exc)}}
    except dnf.exceptions.Error as exc:
        answer = {"error": {"kind": "other", "text": one_line(exc)}}
    with open(sys.argv[2], "w", encoding="utf-8") as handle:
        json.dump(answer, handle)
    if "error" in answer:
        sys.stderr.write("Error: " + answer["error"]["text"] + "\n")
        # A program of its own, which has no exit_json().
        sys.exit(1)  # pylint: disable=ansible-bad-function


def answer_to(dnf: Any, request: dict[str, Any]) -> dict[str, Any]:
    """What the mode of the request finds."""
    base = open_base(dnf, request)
    answer: dict[str, Any] = {"unknown": [], "warnings": []}
    load_repositories(dnf, base, request, answer)
    base.fill_sack()
    answer["versionlock"] = has_versionlock(base)
    request["unreached"] = bool(answer["unknown"])
    answer["streams"] = choose_streams(dnf, base, request)
    if request["mode"] == "offers":
        answer["offers"] = offers(base, request)
        return answer
    if request["mode"] == "upgrade":
        base.upgrade_all()
        base.resolve(allow_erasing=False)
        answer["touched"] = sorted({package.name for package in changed(base)})
        return answer
    mark(base, request)
    base.resolve(allow_erasing=True)
    answer["items"] = items(base)
    coming = list(base.transaction.install_set)
    answer["disk"] = sum(package.installsize for package in coming)
    answer["disk"] -= sum(package.installsize for package in base.transaction.remove_set)
    if request["mode"] == "plan":
        return answer
    expected = sorted(map(tuple, request["expected"]))
    if expected != sorted((item["name"], item["arch"], item["to"]) for item in answer["items"]):
        raise Refused("drift", "dnf would not do what was planned, so nothing was started")
    for repo in base.repos.iter_enabled():
        repo.pkgdir = request["download_dir"]
    base.download_packages(coming)
    answer["files"] = [[package.localPkg(), package.reponame] for package in coming]
    if request["mode"] == "run":
        check_signatures(base, coming)
        base.do_transaction()
        base.close()
    return answer


# ---- opening -------------------------------------------------------------------------------------------------------


def open_base(dnf: Any, request: dict[str, Any]) -> Any:
    """dnf with its own configuration, and folders of ours for everything that it writes while it only reads."""
    base = dnf.Base()
    conf = base.conf
    # Without a release package there is no number, and dnf does not take "none" for one.
    for name in [name for name, value in conf.substitutions.items() if value is None]:
        del conf.substitutions[name]
    conf.read()
    conf.substitutions.update_from_etc(conf.installroot, varsdir=conf.varsdir)
    conf.cachedir = request["folder"] + "/cache"
    conf.logdir = request["folder"] + "/log"
    if request["mode"] != "run":
        conf.persistdir = request["folder"] + "/persist"
    for path in (conf.cachedir, conf.logdir, conf.persistdir):
        os.makedirs(path, exist_ok=True)
    conf.reposdir = [request["folder"] + "/repos"]
    conf.pluginconfpath = [request["folder"] + "/plugins"]
    conf.exit_on_lock = True
    conf.keepcache = True
    conf.assumeyes = True
    conf.best = True
    # Nothing goes that was not asked for: what would be removed besides is in the plan.
    conf.clean_requirements_on_remove = False
    conf.install_weak_deps = request["recommends"]
    conf.module_stream_switch = True
    conf.debuglevel = 2
    base.init_plugins(disabled_glob=["*"], enable_plugins=["versionlock"])
    base.pre_configure_plugins()
    base.read_all_repos()
    base.configure_plugins()
    return base


def has_versionlock(base: Any) -> bool:
    """Whether dnf would heed locks: the plugin is there, and plugins are not switched off."""
    return bool(base.conf.plugins) and any(os.path.exists(path + "/versionlock.py") for path in base.conf.pluginpath)


def load_repositories(dnf: Any, base: Any, request: dict[str, Any], answer: dict[str, Any]) -> None:
    """Fetch each index. One of ours that cannot be had is unknown, or refused for its signature; else a warning."""
    ours = request["ours"]
    for repo in list(base.repos.iter_enabled()):
        repo.skip_if_unavailable = False
        try:
            repo.load()
        except dnf.exceptions.RepoError as exc:
            text = one_line(exc)
            repo.disable()
            if repo.id not in ours:
                answer["warnings"].append(
                    f"a repository of this node that the plan does not ask for: {repo.id}: {text}"
                )
            elif any(word in text for word in ("GPG", "signature", "key")):
                raise Refused("signature", f"the repository {repo.id} is not signed by the given key: {text}") from exc
            else:
                answer["unknown"].append(f"the index of {repo.id} cannot be reached: {text}")


# ---- choosing ------------------------------------------------------------------------------------------------------


def choose_streams(dnf: Any, base: Any, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Enable the first stream that exists of each module, in memory; dnf writes it down with the transaction."""
    if not request["streams"]:
        return []
    modules = importlib.import_module("dnf.module.module_base").ModuleBase(base)
    found = []
    for name, wanted in sorted(request["streams"].items()):
        there = sorted({module.getStream() for module in modules.get_modules(name)[0]})
        chosen = [stream for stream in wanted if stream in there]
        if not there and request["reachable_only"] and request["unreached"]:
            continue
        if not chosen:
            raise Refused(
                "stream",
                f"the module {name} has no stream {' or '.join(wanted)}; it has {', '.join(there) or 'none at all'}",
            )
        # Asking for the stream of a module that dnf does not know raises.
        enabled = base._moduleContainer.getEnabledStream(name) or None
        action = "keep" if enabled == chosen[0] else "switch" if enabled else "enable"
        if action != "keep":
            modules.enable([f"{name}:{chosen[0]}"])
        found.append({"name": name, "from": enabled, "to": chosen[0], "action": action})
    return found


def offers(base: Any, request: dict[str, Any]) -> dict[str, list[list[Any]]]:
    """name -> [[version, arch, repository, why hidden or null]], newest first, of everything on offer."""
    hawkey: Any = importlib.import_module("hawkey")
    found = {}
    for name in request["names"]:
        everything = base.sack.query(flags=hawkey.IGNORE_EXCLUDES).available().filter(name=name)
        unlocked = set(base.sack.query(flags=hawkey.IGNORE_MODULAR_EXCLUDES).available().filter(name=name))
        streamed = set(base.sack.query(flags=hawkey.IGNORE_REGULAR_EXCLUDES).available().filter(name=name))
        found[name] = [
            [
                package.evr,
                package.arch,
                package.reponame,
                "stream" if package not in streamed else "lock" if package not in unlocked else None,
            ]
            for package in sorted(everything, reverse=True)
            if package.arch != "src"
        ]
    return found


def mark(base: Any, request: dict[str, Any]) -> None:
    """Put the exact packages into the goal."""
    query = base.sack.query().available()
    for name, version, arch, repository in request["install"]:
        chosen = [
            package
            for package in query.filter(name=name)
            if package.evr == version
            and package.arch == arch
            and (repository is None or package.reponame == repository)
        ]
        if not chosen:
            raise Refused("gone", f"{name} {version} is no longer on offer")
        there = base.sack.query().installed().filter(name=name, arch=arch)
        if any(package.evr_cmp(chosen[0]) > 0 for package in there):
            base.package_downgrade(chosen[0], strict=True)
        else:
            base.package_install(chosen[0])
    for name, version, arch in request["remove"]:
        for package in base.sack.query().installed().filter(name=name, arch=arch):
            if version in (None, package.evr):
                base.package_remove(package)


def changed(base: Any) -> list[Any]:
    """Every package of the transaction, coming or going."""
    return [*base.transaction.install_set, *base.transaction.remove_set]


def items(base: Any) -> list[dict[str, Any]]:
    """What the transaction does, one entry for each name and architecture."""
    old = {(package.name, package.arch): package for package in base.transaction.remove_set}
    found = []
    for package in base.transaction.install_set:
        former = old.pop((package.name, package.arch), None)
        if former is None:
            action = "install"
        else:
            order = former.evr_cmp(package)
            action = "upgrade" if order < 0 else "downgrade" if order > 0 else "reinstall"
        found.append(
            {
                "name": package.name,
                "arch": package.arch,
                "from": former.evr if former else None,
                "to": package.evr,
                "action": action,
                "repo": package.reponame,
                "size": package.downloadsize,
                "file": os.path.basename(package.location),
            }
        )
    gone = {"to": None, "action": "remove", "repo": None, "size": 0, "file": None}
    return found + [{"name": one.name, "arch": one.arch, "from": one.evr, **gone} for one in old.values()]


def check_signatures(base: Any, packages: list[Any]) -> None:
    """As dnf's own command does; a repository of the site may bring a key that is not imported yet."""
    for package in packages:
        result, text = base.package_signature_check(package)
        if result == 1:
            base.package_import_key(package, askcb=lambda *_arguments: True)
            result, text = base.package_signature_check(package)
        if result:
            raise Refused("signature", text)


def one_line(exc: Exception) -> str:
    """What an exception says, without line ends."""
    return " ".join(str(exc).split())[:800]


if __name__ == "__main__":
    main()
