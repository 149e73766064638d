#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`expect.py CONTAINER CHECK RUN EXPECTED`: holds what a dry run told against the run, and the node against its row."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def on_node(container: str, *argv: str) -> str:
    """Standard output of a command on the node, whatever it ends with."""
    done = subprocess.run(["docker", "exec", container, *argv], check=False, stdout=subprocess.PIPE, text=True)
    return done.stdout


def faults(container: str, check: list[str], run: list[str], expected: dict[str, Any]) -> list[str]:
    """What does not fit, a line each."""
    found = [f"only the check told: {line}" for line in check if line not in run]
    found += [f"only the run told: {line}" for line in run if line not in check]
    found += [f"nobody told: {text}" for text in expected["told"] if not any(text in line for line in run)]
    for unit, wanted in expected.get("units", {}).items():
        state = [on_node(container, "systemctl", how, unit).strip() for how in ("is-enabled", "is-active")]
        if state != wanted:
            found.append(f"{unit} is {state}, and not {wanted}")
    for path, text in expected.get("files", {}).items():
        there = on_node(container, "cat", path)
        # The first line names the role, in files that may have comments.
        body = there.split("\n", 1)[1] if there.startswith("#") else there
        if body != (text or ""):
            found.append(f"{path} holds {there!r}")
    for name in expected.get("packages", []):
        if " installed" not in on_node(container, "dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}", name):
            found.append(f"{name} is not installed")
    return found


def main() -> None:
    check, run = (json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[2:4])
    found = faults(sys.argv[1], check, run, json.loads(sys.argv[4]))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
