# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All hosts side by side, within one time limit. One that fails is told, and the others go on."""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact, redact_all
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import HostError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Address, Limits

# A host with less than this left is not begun.
LEAST_S = 1.0
GRACE_S = 3.0

Answer = dict[str, Any]


def discover(
    addresses: Mapping[str, Address],
    ask: Callable[[Address, Limits], dict[str, Any]],
    limits: Limits,
    workers: int,
    whole: float,
) -> dict[str, Answer]:
    """Each host's answer: ``{"observed": what ask() told}``, or ``{"error": a sentence}``.

    ``whole``: seconds for all together. Never raises for a host.
    """
    deadline = time.monotonic() + whole
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in addresses:
        waiting.put(name)
    answers: dict[str, Answer] = {}

    def work() -> None:
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                return
            answers[name] = _answer(addresses[name], ask, limits, deadline - time.monotonic())

    # Daemon threads: looking up a name may hang in the system's library, for which there is no limit.
    threads = [threading.Thread(target=work, daemon=True) for _number in range(min(workers, len(addresses)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline + GRACE_S - time.monotonic()))
    late = {"error": f"not finished within the {whole:g} s of the whole discovery"}
    # A copy: a late thread must not change what was decided.
    return {name: dict(answers.get(name, late)) for name in addresses}


def _answer(address: Address, ask: Callable[[Address, Limits], dict[str, Any]], limits: Limits, left: float) -> Answer:
    if left < LEAST_S:
        return {"error": "not begun: the time for the whole discovery was over"}
    own = replace(limits, connect=min(limits.connect, left), session=min(limits.session, left))
    try:
        # What a node says ends on a terminal and in the cache.
        return {"observed": redact_all(ask(address, own))}
    except HostError as exc:
        return {"error": redact(str(exc))}
    except Exception as exc:  # the promise: one host does not cost the others
        return {"error": f"reading it failed: {type(exc).__name__}: {redact_all(str(exc), 200)}"}


def questions(addresses: Mapping[str, Address]) -> str:
    """Who is asked where and as whom, as a short text without secrets: kept answers are good for the same only."""
    asked = [(name, item.host, item.port, item.user, item.proxy_command) for name, item in addresses.items()]
    return hashlib.sha256(repr(asked).encode("utf-8", "backslashreplace")).hexdigest()[:16]
