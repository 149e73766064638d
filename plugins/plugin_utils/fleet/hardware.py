# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Equal hardware in a deployment: GPUs and rails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    NOT_APPLICABLE,
    UNKNOWN,
    WARN,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.agreement import compare, judge
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import Answer, Spec, not_applicable
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Member, Reading, Survey, Unread

NO_RAILS = "no rails"
PORTS = "rdma.ports"


def gpus(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer a deployment: model and number of the GPUs on the bus, whether the driver shows them or not."""
    return [
        judge(spec, scope, compare(members, gpu_kinds), "The set of GPUs", "/sys/bus/pci/devices")
        for scope, members in survey.deployments
    ]


def gpu_kinds(member: Member) -> Reading:
    """``8 x B200``; ``no GPU``."""
    found = member.fact("gpu", "pci")
    if isinstance(found, Unread):
        return found
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        return Unread("its answer has no list of GPUs")
    kinds = Counter(str(item.get("product") or f"{item.get('vendor')}:{item.get('device')}")[:80] for item in found)
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items())) or "no GPU"


def rails(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer a deployment. InfiniBand beside Ethernet cannot work; fewer or slower rails serve, but worse."""
    answers = []
    for scope, members in survey.deployments:
        found = compare(members, rail_kinds)
        if list(found.by_value) == [NO_RAILS] and not found.unread:
            answers.append(not_applicable(spec, scope, members, f"no node of {scope.words} has rails"))
            continue
        needed = any(member.checks.get(PORTS, {}).get("blocking") is True for member in members)
        layers = {layer for value in found.by_value for layer in ("InfiniBand", "Ethernet") if layer in value}
        differing = FAIL if needed and len(layers) > 1 else WARN
        source = "/sys/class/infiniband/*/ports/*/{rate,link_layer}"
        answers.append(judge(spec, scope, found, "The set of rails", source, differing, needed))
    return answers


def rail_kinds(member: Member) -> Reading:
    """``8 x 400 Gb/s InfiniBand``, of the ports that the node's own check takes for rails, declared or found."""
    devices = member.fact("rdma", "devices")
    check = member.checks.get(PORTS)
    if isinstance(devices, Unread) or check is None:
        return devices if isinstance(devices, Unread) else Unread(f"its answer has no check {PORTS}")
    if check["status"] == NOT_APPLICABLE:
        return NO_RAILS
    observed = check["observed"]
    names = observed.get("rails") if isinstance(observed, Mapping) else observed
    if check["status"] == UNKNOWN or not isinstance(names, list) or not isinstance(devices, Mapping):
        return Unread(str(check["reason"]))
    kinds: Counter[str] = Counter()
    for name in names:
        port = _port(devices, str(name))
        rate, layer = port.get("rate_gbps"), port.get("link_layer")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or layer not in ("InfiniBand", "Ethernet"):
            return Unread(f"rate and link layer of {str(name)[:80]} are not known")
        kinds[f"{rate:g} Gb/s {layer}"] += 1
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items())) or NO_RAILS


def _port(devices: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The port of a rail, as NCCL_IB_HCA spells it: the device, with its port only where it has several."""
    device, _colon, number = name.partition(":")
    ports = devices.get(device)
    ports = ports.get("ports") if isinstance(ports, Mapping) else None
    if not isinstance(ports, Mapping):
        return {}
    port = ports.get(number) if number else next(iter(ports.values()), None)
    return port if isinstance(port, Mapping) else {}
