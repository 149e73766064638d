#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`foretold.py CONTAINER FOLDER NODE EXPECTED`: holds what a dry run told against the run, and both against the node.

FOLDER has NODE.before.json (the node before, see manifest.py), NODE.check.told.json and NODE.run.told.json.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).resolve().parents[1] / "manifest.py"
PACKAGE = re.compile(r"package (\S+) (\S+) (?:-> (\S+)|removed)")
FILE = re.compile(r"(?:repository )?file (\S+?)(?:: (create|change|remove|made|changed))?$")
# A unit whose package is yet to come may be brought enabled; afterwards it is known.
UNTOLD = ", where its package brings it disabled"
SERVICE = re.compile(r"service (\S+?): enabled at boot")
LOCKS = "/etc/dnf/plugins/versionlock.list"
# Told as holds and as a module stream.
TOLD_OTHERWISE = (LOCKS, "/etc/dnf/modules.d/nvidia-driver.module")
SEVERAL = ("gpg-pubkey", "kernel-devel")
OWNER = {"apt": "dpkg-query -S {} 2>/dev/null || true", "dnf": "rpm -qf {} || true"}


def on_node(container: str, command: str, stdin: str = "") -> str:
    """Standard output of a shell text on the node."""
    argv = ["docker", "exec", "-i", container, "sh", "-c", command]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, input=stdin).stdout


def installed(manifest: dict[str, Any]) -> dict[str, str]:
    """name -> version as a plan spells it, without an epoch of 0."""
    lines = [line.split() for line in manifest["packages"]]
    return {name: version.removeprefix("0:") for name, version, state in lines if state == "installed"}


def faults(
    container: str, before: dict[str, Any], told: dict[str, list[str]], expected: dict[str, Any]
) -> Iterator[str]:
    """What does not fit, a line each."""
    now = json.loads(on_node(container, "python3 -", MANIFEST.read_text(encoding="utf-8")))
    check, run = told["check"], told["run"]
    # Whether the old packages are there already is the one thing in which the two differ.
    plain = [
        [line.removesuffix(UNTOLD) for line in lines if not line.startswith("rollback: ")] for lines in (check, run)
    ]
    yield from (f"only the check told: {line}" for line in plain[0] if line not in plain[1])
    yield from (f"only the run told: {line}" for line in plain[1] if line not in plain[0])
    yield from packages(installed(before), installed(now), check)
    yield from files(container, before, now, check, expected["manager"])
    yield from the_end(container, installed(now), expected)
    for name in (found.group(1) for found in map(SERVICE.match, check) if found):
        state = on_node(container, f"systemctl is-enabled {name} 2>/dev/null || true").strip()
        if state not in ("enabled", "", "not-found"):
            yield f"{name} was to be enabled at boot and is {state}"


def packages(before: dict[str, str], now: dict[str, str], check: list[str]) -> Iterator[str]:
    """Item by item: what was foretold is there, and what changed was foretold."""
    foretold = {found.group(1): found.group(2, 3) for found in map(PACKAGE.match, check) if found}
    if not foretold:
        yield "the check foretold no package"
    for name in sorted({*foretold, *before, *now}):
        old, new = foretold.get(name, (before.get(name, "absent"), before.get(name)))
        # Several versions of these are there at a time: the new one by itself, the keys as files.
        if name in SEVERAL and name in now:
            continue
        if now.get(name) != new:
            yield f"{name} is {now.get(name)}, and {new} was foretold"
        if before.get(name, "absent") != old:
            yield f"{name} was {before.get(name)}, and the check told {old}"


def files(container: str, before: dict[str, Any], now: dict[str, Any], check: list[str], manager: str) -> Iterator[str]:
    """The files of /etc, of the keys and of the kernel's options that changed are those that were foretold."""
    foretold = {found.group(1): found.group(2) for found in map(FILE.match, check) if found}
    old, new = ({path: (item[0], *item[6:]) for path, item in seen["files"].items() if watched(path)}
                for seen in (before, now))  # fmt: skip
    changed = {path for path in {*old, *new} if old.get(path) != new.get(path)}
    for path, action in foretold.items():
        if path not in changed:
            yield f"{path} was foretold to change, and did not"
        if action and (path in new) == (action == "remove"):
            yield f"{path}: {action} was foretold"
    units = {found.group(1) for found in map(SERVICE.match, check) if found}
    links = {path for path in changed if path.startswith("/etc/systemd/system/") and Path(path).name in units}
    for path in sorted(changed - {*foretold, *TOLD_OTHERWISE, *links}):
        owner = on_node(container, OWNER[manager].format(path))
        if path in new and owner and "not owned" not in owner:
            continue
        if path in old and path not in new and path in of_packages(before, now):
            continue
        yield f"{path} changed, and that was not foretold"


def watched(path: str) -> bool:
    """Whether what happens to a file is told as a file."""
    return path.startswith(("/etc/", "/usr/share/keyrings/")) and not path.endswith(
        # Written by every change of packages, of units and of their links.
        (".wants/nvidia-persistenced.service", "/ld.so.cache", ".wants")
    )


def of_packages(before: dict[str, Any], now: dict[str, Any]) -> set[str]:
    """Files that went with their packages: pins of the vendor's and options."""
    gone = set(installed(before)) - set(installed(now))
    return {f"/etc/apt/preferences.d/{name}" for name in gone} | {"/etc/modprobe.d/nvidia-stub.conf"}


def the_end(container: str, there: dict[str, str], expected: dict[str, Any]) -> Iterator[str]:
    """What the node is to be: one version, module for each kernel, held, the old packages kept."""
    version = expected["version"]
    ours = [name for name, full in there.items() if full.split(":")[-1].split("-")[0] == version]
    modules = on_node(
        container,
        "for k in /lib/modules/*; do modinfo -k ${k##*/} -F version nvidia; modinfo -k ${k##*/} -F license nvidia; done",
    ).splitlines()
    if set(modules) != {version, "Dual MIT/GPL"}:
        yield f"the kernels have the module as {modules}"
    if expected["manager"] == "apt":
        held = set(on_node(container, "apt-mark showhold").split())
        yield from (f"{name} is not held" for name in ours if name not in held)
    else:
        held = set(on_node(container, f"cat {LOCKS}").splitlines())
        yield from (f"{name} is not held" for name in ours if f"{name}-{there[name]}.*" not in held)
        stream = on_node(container, "sed -n 's/^stream *= *//p' /etc/dnf/modules.d/nvidia-driver.module 2>/dev/null||:")
        if stream.strip() != expected.get("stream", ""):
            yield f"the module stream is {stream.strip() or 'none'}"
    yield from (f"the site's hold of {name} is gone" for name in expected.get("held", []) if name not in held)
    yield from (f"{name} is still there" for name in expected.get("gone", []) if name in there)
    yield from (f"{name} is not there" for name in expected.get("also", []) if name not in there)
    kept = on_node(container, "ls /var/lib/gpufleet-kimi-k3/rollback 2>/dev/null || true").split()
    if kept != expected.get("kept", []):
        yield f"kept for a rollback: {kept}"


def main() -> None:
    container, folder, node = sys.argv[1:4]

    def read(name: str) -> Any:
        return json.loads(Path(folder, f"{node}.{name}.json").read_text(encoding="utf-8"))

    told = {name: read(f"{name}.told") for name in ("check", "run")}
    found = list(faults(container, read("before"), told, json.loads(sys.argv[4])))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
