# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What rdma and gpudirect both decide by: whether RDMA is required here, and which ports are the rails. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Check, Findings, Unknown

REQUIRED = "required"
INFORMATIVE = "informative"
NONE = "none"


@dataclass(frozen=True)
class Need:
    """How much RDMA matters here: required, informative (what is wrong only warns) or none; and why."""

    level: str
    why: str

    def bad(self, findings: Findings) -> Callable[..., None]:
        """How a thing that does not hold is answered: failed where RDMA is required, else warned."""
        return findings.failed if self.level == REQUIRED else findings.warned

    def settle(self, checks: list[Check]) -> list[Check]:
        """``checks``, of which an unknown one does not block where RDMA is not required."""
        for check in checks:
            check.blocking = check.blocking and self.level == REQUIRED
        return checks


@dataclass(frozen=True)
class Rail:
    """One port of one RDMA device that carries the deployment's traffic."""

    device: str
    number: str
    of: dict[str, Any]
    port: dict[str, Any]

    @property
    def name(self) -> str:
        """As NCCL_IB_HCA spells it: the device, with its port only where it has several."""
        ports = self.of["ports"]
        return f"{self.device}:{self.number}" if isinstance(ports, dict) and len(ports) > 1 else self.device

    @property
    def where(self) -> str:
        """Its folder, as evidence."""
        return f"/sys/class/infiniband/{self.device}/ports/{self.number}"

    @property
    def active(self) -> bool | Unknown:
        """ACTIVE and LinkUp; Unknown where either cannot be read."""
        for value in (self.port["state"], self.port["phys_state"]):
            if isinstance(value, Unknown):
                return value
        return self.port["state"] == "ACTIVE" and self.port["phys_state"] == "LinkUp"

    @property
    def shown(self) -> str:
        """``mlx5_0 (DOWN, Polling)``."""
        state, physical = (
            "unreadable" if isinstance(value, Unknown) else value
            for value in (self.port["state"], self.port["phys_state"])
        )
        return f"{self.name} ({state}, {physical})"


@dataclass(frozen=True)
class Rails:
    """The rails; declared names that this node does not have; and every other port of an adapter.

    ``how``: declared, or found as the active ports of the highest rate (peers 2.17). No rail name is ever assumed
    (facts 0.18).
    """

    rails: list[Rail]
    missing: list[str]
    others: list[Rail]
    how: str


def need(rdma: dict[str, Any], require: dict[str, Any]) -> Need | Unknown:
    """Whether RDMA is required, from the facts of rdma and ``interconnect``. Source: facts 0.4."""
    asked = require["interconnect"]
    if asked == "none":
        return Need(NONE, "the contract says that this node talks to no other (interconnect: none)")
    if asked == "rdma":
        return Need(REQUIRED, "the contract asks for RDMA (interconnect: rdma)")
    if require["gpudirect_gin"] and asked == "auto":
        return Need(REQUIRED, "the plan uses deepep_v2, which talks over RDMA")
    adapters, gpus = rdma["hcas"], rdma["gpus"]
    for unread in (adapters, gpus):
        if isinstance(unread, Unknown):
            return Unknown("whether RDMA is required cannot be told: " + unread.reason, unread.source)
    own = [item for item in adapters if item["switch_management"] is not True]
    forms = {gpu["form"] for gpu in gpus}
    by_nvlink = asked == "nvlink" or "tray" in forms
    if by_nvlink and own:
        return Need(INFORMATIVE, "nodes talk over NVLink here, so RDMA only matters for what leaves the domain")
    if by_nvlink:
        return Need(NONE, "nodes talk over NVLink here, and this node has no HCA")
    if own:
        return Need(REQUIRED, f"this node has {len(own)} HCAs and the contract leaves the interconnect open")
    if require["rdma_hcas"]:
        return Need(REQUIRED, "the contract declares rails (rdma_hcas)")
    return Need(NONE, "this node has no HCA, and the contract does not ask for RDMA")


def answer_need(findings: Findings, rdma: Any, require: dict[str, Any]) -> Need | Unknown:
    """need(); where it is Unknown or NONE, every check of ``findings`` is answered with that."""
    needed = rdma if isinstance(rdma, Unknown) else need(rdma, require)
    for name in findings.specs:
        if isinstance(needed, Unknown):
            findings.unknown(name, needed)
        elif needed.level == NONE:
            findings.not_applicable(name, needed.why)
    return needed


def rails(rdma: dict[str, Any], declared: list[str]) -> Rails | Unknown:
    """The rails among the devices that the facts of rdma name.

    Not declared: the active ports of the highest rate, without the HCAs of the NVSwitches and without emulated
    devices; a slower storage or management port is none. A port whose state or rate cannot be read makes it Unknown,
    because it might be one.
    """
    devices = rdma["devices"]
    if isinstance(devices, Unknown):
        return devices
    ports = []
    for device, facts in devices.items():
        if isinstance(facts["ports"], Unknown):
            return facts["ports"]
        ports += [Rail(device, number, facts, port) for number, port in facts["ports"].items()]
    if declared:
        chosen = [port for port in ports if port.device in declared or f"{port.device}:{port.number}" in declared]
        held = {port.device for port in chosen} | {f"{port.device}:{port.number}" for port in chosen}
        missing = [name for name in declared if name not in held]
        return Rails(chosen, missing, [port for port in ports if port not in chosen], "declared")
    real = [port for port in ports if not port.of["soft"] and port.of["switch_management"] is not True]
    for port in real:
        if isinstance(port.active, Unknown):
            return port.active
        if port.active and isinstance(port.port["rate_gbps"], Unknown):
            return port.port["rate_gbps"]
    active = [port for port in real if port.active]
    highest = max((port.port["rate_gbps"] for port in active), default=0.0)
    chosen = [port for port in active if port.port["rate_gbps"] == highest]
    return Rails(chosen, [], [port for port in real if port not in chosen], "the active ports of the highest rate")


def kin(port: Rail, chosen: list[Rail]) -> bool:
    """Whether a port is on the same kind of board, with the same link layer, as a rail: it may be meant to be one."""
    mark = "board_id" if port.of["board_id"] is not None else "hca_type"
    return port.of[mark] is not None and any(
        port.of[mark] == rail.of[mark] and port.port["link_layer"] == rail.port["link_layer"] for rail in chosen
    )
