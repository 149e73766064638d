# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From what a host said to what it is: the probe's own collectors read the snapshot."""

from __future__ import annotations

import secrets
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import fabric, gpu
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import infiniband
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.topology import observed
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import HostError, last_words
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.frames import (
    AnswerError,
    complaints,
    last,
    records,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.script import script
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Address, Limits, Said, exchange
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.snapshot import NOT_ASKED, SnapshotNode


def read(address: Address, limits: Limits) -> dict[str, Any]:
    """What the host at ``address`` is, in the form of topology.observed(). HostError where that is not known."""
    nonce = secrets.token_hex(12)
    said = exchange(address, script(nonce, limits.command), limits)
    return observed(facts(snapshot(said, nonce, limits.command)))


def snapshot(said: Said, nonce: str, limit: float) -> SnapshotNode:
    """The node as the host told it. HostError where it did not answer the script, or stopped in the middle."""
    try:
        found = records(said.output, nonce)
    except AnswerError as exc:
        if said.ended and not said.output:
            raise HostError(f"after login it gave no answer: {said.ended}{_words(said)}") from exc
        raise HostError(f"after login it did not answer as a node does: {exc}{_words(said)}") from exc
    marks = {record.kind for record in found}
    if "end" not in marks and not (said.ended and "files" in marks):
        raise HostError(
            f"its answer stops in the middle, after {last(found)}: {said.ended or 'the connection was closed'}"
        )
    return SnapshotNode(found, complaints(said.errors, nonce), limit, said.ended if "end" not in marks else "")


def _words(said: Said) -> str:
    """What came in place of an answer, for a person to recognise it."""
    parts = [f"exit status {said.status}"] if said.status is not None else []
    parts += [said.ended] if said.ended and said.output else []
    for name, data in (("output", said.output), ("error output", said.errors)):
        text = last_words(data, 160)
        parts += [f"{name}: {text}"] if text else []
    return f" ({'; '.join(parts)})" if parts else ""


def facts(node: SnapshotNode) -> dict[str, Any]:
    """The facts by concern, as far as topology needs them; Unknown for what was not asked.

    Concerns that have more to say (services, packages, the kernel log) are asked by the probe.
    """
    not_asked = Unknown(NOT_ASKED)
    return {
        "gpu": gpu.collect(node),
        "fabric": fabric.collect(node),
        "rdma": {"devices": infiniband.devices(node)},
        "host": {"arch": node.architecture()},
        "network": not_asked,
        "gpudirect": not_asked,
    }
