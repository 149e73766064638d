# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Answers from a cache, which anybody may have written: in the form of discovery's own they count, or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.topology import VARIABLES

WHEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


# Of a variable that is no text.
_FORMS: Mapping[str, Callable[[Any], bool]] = {"gpu_count": _number, "rdma_rate": _number, "k3_rdma_hcas": _texts}


def fault(kept: Any, hosts: Collection[str]) -> str:
    """Why what a cache kept are no answers of these hosts; empty where they are.

    Their form: ``{"questions": see fleet.questions(), "when": time in UTC, "hosts": see fleet.discover()}``.
    """
    if not isinstance(kept, Mapping):
        return "it is no mapping"
    if not isinstance(kept.get("questions"), str):
        return "it does not say what was asked"
    when, answers = kept.get("when"), kept.get("hosts")
    if not isinstance(when, str) or not WHEN.fullmatch(when):
        return "it does not say when the hosts were asked"
    if not isinstance(answers, Mapping) or set(answers) != set(hosts):
        return "it does not hold an answer of each host"
    host = next((name for name, answer in answers.items() if not _answer(answer)), None)
    return f"the answer of {host} has another form" if host is not None else ""


def _answer(answer: Any) -> bool:
    if not isinstance(answer, Mapping):
        return False
    if set(answer) == {"error"}:
        return _text(answer["error"])
    return set(answer) == {"observed"} and _observed(answer["observed"])


def _observed(found: Any) -> bool:
    """Whether it has the form of topology.observed()."""
    if not isinstance(found, Mapping) or not set(found) <= {*VARIABLES, "unknown"}:
        return False
    unknown = found.get("unknown")
    return (
        isinstance(unknown, Mapping)
        and all(_text(name) and _text(why) for name, why in unknown.items())
        and all(_FORMS.get(name, _text)(value) for name, value in found.items() if name != "unknown")
    )
