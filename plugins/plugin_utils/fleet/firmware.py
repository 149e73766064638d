# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One firmware for each kind of GPU and adapter in a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import UNKNOWN, WARN
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.agreement import Comparison, compared
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import (
    Answer,
    Scope,
    Spec,
    nodes,
    not_applicable,
    not_known,
    passed,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import TEXT_KEPT, Member, Survey, Unread

SHOWN = 8


def firmware(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer a deployment, over every kind of adapter and GPU in it."""
    return [_answer(spec, scope, members) for scope, members in survey.deployments]


def _answer(spec: Spec, scope: Scope, members: list[Member]) -> Answer:
    by_kind: dict[str, list[tuple[Member, str]]] = {}
    unread = []
    for member in members:
        found = versions(member)
        if isinstance(found, Unread):
            unread.append((member, found.why))
            continue
        for kind, version in found.items():
            by_kind.setdefault(kind, []).append((member, version))
    comparisons = {kind: compared(held) for kind, held in by_kind.items()}
    differing = {kind: found for kind, found in comparisons.items() if found.differs}
    observed = {kind: list(found.by_value)[:SHOWN] for kind, found in list(comparisons.items())[:SHOWN]}
    if differing:
        return _differing(spec, scope, members, differing, observed, not_known(unread))
    if unread:
        reason = f"Whether the firmware is the same in all of {scope.words} is not known. {not_known(unread)}."
        return Answer(spec, scope, members, UNKNOWN, reason, [member for member, _why in unread], observed)
    if not by_kind:
        return not_applicable(spec, scope, members, f"no node of {scope.words} has a GPU or an adapter with firmware")
    reason = f"Each kind of GPU and adapter has one firmware on all {nodes(len(members))} of {scope.words}."
    if len(members) == 1:
        reason = f"{members[0].host} is the only node of {scope.words} in this run."
    return passed(spec, scope, members, reason, observed)


def _differing(
    spec: Spec, scope: Scope, members: list[Member], differing: dict[str, Comparison], observed: Any, unread: str
) -> Answer:
    words = "; ".join(f"{kind}: {found.words()}" for kind, found in list(differing.items())[:4])
    reason = f"Firmware differs in {scope.words}: {words}."
    blamed = {member.host: member for found in differing.values() for member in found.outliers()}
    evidence = [item for kind, found in differing.items() for item in found.evidence(f"firmware of {kind}")]
    told = f"{reason} {unread}." if unread else reason
    return Answer(spec, scope, members, WARN, told, list(blamed.values()), observed, evidence)


def versions(member: Member) -> dict[str, str] | Unread:
    """``{"adapter MT_0000000838": "28.43.2026", "GPU NVIDIA B200": "97.00.9A.00.0F"}``; several: joined by a comma."""
    found: dict[str, set[str]] = {}
    for part in (_cards(member), _adapters(member)):
        if isinstance(part, Unread):
            return part
        for kind, version in part:
            found.setdefault(kind[:TEXT_KEPT], set()).add(version[:TEXT_KEPT])
    return {kind: ", ".join(sorted(held)) for kind, held in found.items()}


def _cards(member: Member) -> list[tuple[str, str]] | Unread:
    """Model and VBIOS of each GPU; none on a node without a GPU."""
    bus = member.fact("gpu", "pci")
    if isinstance(bus, Unread) or bus == []:
        return bus
    cards = member.fact("gpu", "smi", "gpus")
    if isinstance(cards, Unread):
        return cards
    found = []
    for card in cards if isinstance(cards, list) else [None]:
        name, version = (card.get("name"), card.get("vbios")) if isinstance(card, Mapping) else (None, None)
        if not isinstance(version, str) or version == "N/A":
            return Unread("nvidia-smi does not tell the VBIOS of every GPU")
        found.append((f"GPU {name if isinstance(name, str) else 'of an unknown model'}", version))
    return found


def _adapters(member: Member) -> list[tuple[str, str]] | Unread:
    """Kind (board, else model) and firmware of each RDMA adapter; emulated ones have none."""
    devices = member.fact("rdma", "devices")
    if isinstance(devices, Unread):
        return devices
    found = []
    for name, device in devices.items() if isinstance(devices, Mapping) else ():
        if not isinstance(device, Mapping) or device.get("soft") is True:
            continue
        version, kind = device.get("firmware"), device.get("board_id") or device.get("hca_type")
        if not isinstance(version, str):
            return Unread(f"{str(name)[:TEXT_KEPT]} does not tell its firmware")
        found.append((f"adapter {kind if isinstance(kind, str) else 'of an unknown kind'}", version))
    return found
