# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One line of the audit record: who, what, when, before and after; secrets do not get in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from ansible.parsing.vault import VaultHelper

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import MASK, redact, redact_all

SCHEMA = 1
RESULTS = ("ok", "changed", "failed", "refused", "unreachable")
# Texts end here; redact() searches no further either.
LONGEST = 8000
HIDDEN = "(no_log)"


@dataclass(frozen=True)
class Run:
    """A run: its id, the playbook's name, who runs it (user on controller) and the folder of its record."""

    run_id: str
    playbook: str
    user: str
    controller: str
    folder: str

    @classmethod
    def begun(cls, variables: Mapping[str, Any]) -> Run:
        """The run that the role changing_run has begun, by the variables of a host. Raises ValueError without one."""
        begun = variables.get("changing_run_begun")
        names = [field.name for field in fields(cls)]
        if not isinstance(begun, Mapping) or not all(isinstance(begun.get(name), str) for name in names):
            raise ValueError(
                "no changing run has begun on this host: import the role gpufleet.kimi_k3.changing_run with "
                "tasks_from: begin before anything is changed"
            )
        return cls(**{name: str(begun[name]) for name in names})


@dataclass(frozen=True)
class Deed:
    """What was done. node: empty for the run as a whole; check: in a dry run, so only foretold."""

    what: str
    result: str
    node: str = ""
    before: Any = None
    after: Any = None
    check: bool = False
    become_user: str = ""
    role: str = ""
    tags: tuple[str, ...] = ()
    no_log: bool = False


def entry(run: Run, deed: Deed, when: datetime | None = None) -> dict[str, Any]:
    """The line as a dict: schema, time (UTC), run_id, playbook, user, controller, become_user, node, role, tags, what,
    before, after, result, check. What is empty is null."""
    hidden = HIDDEN if deed.no_log else None
    moment = (when or datetime.now(UTC)).astimezone(UTC)
    return {
        "schema": SCHEMA,
        "time": moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z",
        "run_id": run.run_id,
        "playbook": run.playbook,
        "user": run.user,
        "controller": run.controller,
        "become_user": deed.become_user or None,
        "node": deed.node or None,
        "role": deed.role or None,
        "tags": list(deed.tags),
        "what": clean(deed.what),
        "before": hidden or clean(deed.before),
        "after": hidden or clean(deed.after),
        "result": deed.result,
        "check": deed.check,
    }


def sentence(line: Mapping[str, Any]) -> str:
    """The line for the node's journal."""
    who = f"{line['user']} on {line['controller']}" + (f" as {line['become_user']}" if line["become_user"] else "")
    told = f"{line['what']}: {line['result']} (run {line['run_id']} of playbook {line['playbook']}, {who})"
    for name in ("before", "after"):
        if line[name] is not None:
            told += f"; {name}: {json.dumps(line[name], ensure_ascii=True)}"
    return told


def clean(value: Any) -> Any:
    """The value as JSON can hold it, without secrets and control characters.

    A secret is known by its form, by the name it has in a dictionary or on a command line, and by having come out of
    a vault.
    """
    if VaultHelper.get_ciphertext(value, with_tags=False) is not None:
        return MASK
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_text(name): MASK if _secret(name) and item else clean(item) for name, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes, bytearray)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)
        return [MASK if place and _option(items[place - 1]) else clean(item) for place, item in enumerate(items)]
    return _text(value)


def _text(value: Any) -> str:
    return str(redact_all(value if isinstance(value, str) else str(value), LONGEST))


def _secret(name: Any) -> bool:
    """Whether a value of this name is a secret: redact() knows such names where they stand before a value."""
    return MASK in redact(f"{name}=value")


def _option(item: Any) -> bool:
    """Whether this is an option whose value, the next item, is a secret: --api-key."""
    return isinstance(item, str) and item.startswith("-") and MASK in redact(f"{item} value")
