#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`foretold.py CONTAINER CHECK RUN EXPECTED`: holds what a dry run told against the run, and both against the node."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = re.compile(r"package (\S+) (\S+) (?:-> (\S+)|removed)")


def on_node(container: str, command: str) -> str:
    """Standard output of a shell text on the node."""
    argv = ["docker", "exec", container, "sh", "-c", command]
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def faults(container: str, check: list[str], run: list[str], expected: dict[str, str]) -> list[str]:
    """What does not fit, a line each."""
    # Whether the old packages are there already is the one thing in which the two differ.
    told, done = ([line for line in lines if not line.startswith("rollback: ")] for lines in (check, run))
    found = [f"only the check told: {line}" for line in told if line not in done]
    found += [f"only the run told: {line}" for line in done if line not in told]
    listed = on_node(container, "dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'")
    there = {line.split()[0]: line.split()[1:] for line in listed.splitlines() if line.split()[2][1] == "i"}
    foretold = [match.groups() for match in map(PACKAGE.match, check) if match]
    if not foretold:
        found.append("the check foretold no package")
    for name, _old, new in foretold:
        version = there.get(name, [None])[0]
        if version != new:
            found.append(f"{name} is {version}, and {new} was foretold")
    modules = on_node(container, "for k in /lib/modules/*; do modinfo -k ${k##*/} -F version nvidia; done").split()
    if set(modules) != {expected["version"]}:
        found.append(f"the kernels have the module as {modules}")
    held = set(on_node(container, "apt-mark showhold").split())
    ours = [name for name, (version, _state) in there.items() if version.startswith(expected["version"])]
    found += [f"{name} is not held" for name in ours if name not in held]
    found += [f"the site's hold of {name} is gone" for name in expected.get("held", "").split() if name not in held]
    kept = on_node(container, "ls /var/lib/gpufleet-kimi-k3/rollback 2>/dev/null || true").split()
    if kept != expected.get("kept", "").split():
        found.append(f"kept for a rollback: {kept}")
    return found


def main() -> None:
    check, run = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[2:4])
    found = faults(sys.argv[1], check, run, json.loads(sys.argv[4]))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
