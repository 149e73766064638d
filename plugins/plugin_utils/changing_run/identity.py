# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who runs what: the id of a run, its user and process, and the folder in which its record is kept."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import run_folder

NAME = "run.json"


class RunFault(Exception):
    """The run cannot begin; the text is one sentence for a person."""


@dataclass(frozen=True)
class Identity:
    """A run as its folder remembers it. process_started: clock ticks after the control node's boot, 0 if unknown."""

    run_id: str
    playbook: str
    user: str
    controller: str
    process: int
    process_started: int
    begun: str
    check: bool


def new_id(when: datetime) -> str:
    """A readable id that no other run has: its time (UTC) and eight random digits."""
    return f"{when.strftime('%Y%m%dT%H%M%SZ')}-{secrets.token_hex(4)}"


def user() -> str:
    """Who gave the command, by the system and not by the environment; with sudo also who that was before."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"user {os.getuid()}"
    before = os.environ.get("SUDO_USER", "")
    return f"{before} as {name}" if before and before.isprintable() and before != name and os.getuid() == 0 else name


def identity(run_id: str, playbook: str, process: int, when: datetime, check: bool) -> Identity:
    """This run. process: the process that ends when the run does."""
    return Identity(
        run_id,
        playbook,
        user(),
        socket.gethostname(),
        process,
        started(process),
        when.strftime("%Y-%m-%dT%H:%M:%SZ"),
        check,
    )


def started(process: int) -> int:
    """When a process was started, in clock ticks after boot; 0 where it is not there or cannot be seen."""
    try:
        # The name stands in brackets and may hold anything; the 22nd field is the 20th after it.
        fields_after = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        return int(fields_after.split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def alive(run: Identity) -> bool:
    """Whether the process of a run is at work on this control node; false where that cannot be told."""
    return (
        run.controller == socket.gethostname()
        and run.process_started > 0
        and started(run.process) == run.process_started
    )


def begin(reports: Path, playbook: str, run_id: str, process: int, check: bool) -> tuple[Identity, Path, bool]:
    """Begin a run, or continue the one of this id: the run, its folder (mode 0700) and whether it is continued.

    Raises RunFault where the run of this id is of another playbook or still at work, and OSError.
    """
    when = datetime.now(UTC)
    earlier = find(reports, run_id) if run_id else None
    run = identity(run_id or new_id(when), playbook, process, when, check)
    if earlier is None:
        folder = run_folder.make(reports, when, playbook, 0o700)
    else:
        known, folder = earlier
        if known.playbook != playbook:
            raise RunFault(f"k3_run_id: {run_id} is a run of playbook {known.playbook}, not of {playbook}")
        if alive(known) and (known.process, known.process_started) != (run.process, run.process_started):
            raise RunFault(
                f"k3_run_id: run {run_id} is still at work here as process {known.process}; "
                "wait for it, or end it first"
            )
    _remember(folder, run)
    return run, folder, earlier is not None


def find(reports: Path, run_id: str) -> tuple[Identity, Path] | None:
    """The run of an id and its folder, where this control node has kept it."""
    for file, run in _runs(reports):
        if run.run_id == run_id:
            return run, file.parent
    return None


def at_work(reports: Path, run_ids: set[str]) -> dict[str, int]:
    """Of these runs those that are at work on this control node, with the process of each."""
    return {run.run_id: run.process for _file, run in _runs(reports) if run.run_id in run_ids and alive(run)}


def _runs(reports: Path) -> Iterator[tuple[Path, Identity]]:
    """Every run remembered below the folder, the newest first; what is no such file is passed over."""
    kinds = {"process": int, "process_started": int, "check": bool}
    for file in sorted(reports.glob(f"*/{NAME}"), reverse=True):
        with contextlib.suppress(OSError, ValueError, TypeError):
            found = json.loads(file.read_text(encoding="utf-8"))
            values = {field.name: found[field.name] for field in fields(Identity) if field.name in found}
            if all(isinstance(value, kinds.get(name, str)) for name, value in values.items()):
                yield file, Identity(**values)


def _remember(folder: Path, run: Identity) -> None:
    """Put run.json in place as a whole (mode 0600, as tempfile makes it)."""
    handle, fresh = tempfile.mkstemp(dir=folder, prefix=f".{NAME}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run), indent=1) + "\n")
        os.replace(fresh, folder / NAME)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
