# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where reports are kept: a new folder for each, and the link `latest`."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import run_folder
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import html, junit, prometheus
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.difference import difference

# Ten thousand nodes take a twentieth of it.
EARLIER_MAX = 2 << 30


def write(report: Mapping[str, Any], folder: Path, playbook: str, when: datetime) -> Path:
    """Write the report into a new folder ``<time>-<playbook>`` below ``folder`` and point ``latest`` to it.

    The folder holds readiness.json (its path is the answer), readiness.junit.xml, readiness.prom and readiness.html.
    The page tells the difference to the report ``latest`` pointed to before, whatever playbook wrote that one: after
    a cure it is the other playbook's report that one wants to compare with. An earlier report is never overwritten;
    a run that dies half-way leaves ``latest`` as it was. Raises OSError.
    """
    earlier, note = _earlier(folder / "latest")
    changes = difference(earlier, report) if earlier is not None else None
    target = run_folder.make(folder, when, playbook)
    file = target / "readiness.json"
    _write(file, (json.dumps(report, indent=1, sort_keys=False, ensure_ascii=True, allow_nan=False), "\n"))
    _write(target / "readiness.junit.xml", junit.chunks(report))
    _write(target / "readiness.prom", prometheus.chunks(report))
    _write(target / "readiness.html", html.chunks(report, changes, note))
    run_folder.point(folder / "latest", target.name)
    return file


def _earlier(latest: Path) -> tuple[dict[str, Any] | None, str]:
    """The report that ``latest`` points to; or None, and why there is nothing to compare with."""
    if not latest.is_symlink():
        return None, "This is the first report in its folder: there is none to compare with."
    name = latest.readlink().name
    try:
        report = json.loads(_read(latest / "readiness.json"))
    except (OSError, ValueError, RecursionError) as exc:
        return None, f"The earlier report, {name}, cannot be read, so there is nothing to compare with: {exc}"
    if not isinstance(report, dict) or not isinstance(report.get("nodes"), list):
        return None, f"The earlier report, {name}, does not have the form of one, so there is nothing to compare with."
    return report, ""


def _read(file: Path) -> str:
    """The text of a file that can be read to its end: no pipe that nobody writes to, and nothing endless."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > EARLIER_MAX:
        raise ValueError(f"{file.name} is no file of at most {EARLIER_MAX >> 20} MiB")
    return file.read_text(encoding="utf-8")


def _write(file: Path, chunks: Iterable[str]) -> None:
    # A node may have sent half of a character (a lone surrogate), which UTF-8 cannot hold: written as its number.
    with file.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as handle:
        handle.writelines(chunks)
