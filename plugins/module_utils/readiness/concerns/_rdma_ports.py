# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The part of rdma that asks of each rail by itself: state, rate, address."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _rails
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import infiniband


def ports(findings: Findings, rdma: dict[str, Any], found: _rails.Rails, needed: _rails.Need) -> None:
    """Answers rdma.ports: state of the rails, declared or found."""
    bad = needed.bad(findings)
    down = [port for port in found.rails if port.active is False]
    idle = [port for port in found.others if port.active is False]
    observed = {
        "rails": [port.name for port in found.rails],
        "chosen_by": found.how,
        "missing": found.missing,
        "down": [port.shown for port in down + idle],
        "others": [port.name for port in found.others if port.active is True],
    }
    required = "every rail ACTIVE and LinkUp"
    if not rdma["devices"]:
        adapters = rdma["hcas"]
        count = "an unknown number of" if isinstance(adapters, Unknown) else str(len(adapters))
        bad(
            "ports",
            f"The kernel shows no RDMA device, and the PCI bus shows {count} HCAs.",
            observed=observed,
            required=required,
            evidence=Evidence(infiniband.CLASS, "empty or not there"),
            remedy=Remedy("Load the HCA's RDMA module (see rdma.stack), or look for the adapter that is missing."),
        )
        return
    if found.missing or down:
        named = [f"{name} (not on this node)" for name in found.missing] + [port.shown for port in down]
        bad(
            "ports",
            "Declared rails do not work: {}.{}".format(", ".join(named), _subnet_hint(down)),
            observed=observed,
            required=required,
            evidence=[Evidence(port.where + "/state", str(port.port["state"])) for port in down]
            or Evidence(infiniband.CLASS, " ".join(rdma["devices"])),
        )
        return
    if not found.rails:
        bad(
            "ports",
            f"No RDMA port is active: {', '.join(port.shown for port in idle) or 'none'}.{_subnet_hint(idle)}",
            observed=observed,
            required=required,
            evidence=[Evidence(port.where + "/state", str(port.port["state"])) for port in idle],
        )
        return
    unread = next((port.active for port in found.rails if isinstance(port.active, Unknown)), None)
    if unread is not None:
        findings.unknown("ports", unread, observed=observed, required=required)
        return
    evidence = [Evidence(port.where + "/state", str(port.port["state"])) for port in found.rails]
    gpus = [] if isinstance(rdma["gpus"], Unknown) else rdma["gpus"]
    suspects = [port for port in idle if _rails.kin(port, found.rails)]
    # Some platforms leave an adapter unused (facts 0.18): a port that is down tells something while rails are short.
    if found.how != "declared" and suspects and gpus and len(found.rails) < len(gpus):
        findings.warned(
            "ports",
            f"{len(found.rails)} rails are up for {len(gpus)} GPUs, and ports of the same board are down: "
            f"{', '.join(port.shown for port in suspects)}.",
            observed=observed,
            required=required,
            evidence=[Evidence(port.where + "/state", str(port.port["state"])) for port in suspects],
        )
        return
    findings.passed(
        "ports",
        f"{len(found.rails)} rails are ACTIVE and LinkUp ({found.how}).",
        observed=observed,
        required=required,
        evidence=evidence,
    )


def _subnet_hint(ports: list[_rails.Rail]) -> str:
    waiting = [port.name for port in ports if port.port["state"] in ("INIT", "ARMED")]
    return f" {', '.join(waiting)} has link and waits for a subnet manager." if waiting else ""


def rate(findings: Findings, found: _rails.Rails, require: dict[str, Any], needed: _rails.Need) -> None:
    """Answers rdma.rate: rails equal and fast enough; a slower port of the same board is named."""
    least = require["rdma_rate_min_gbps"]
    required = "all rails equal" + (f", at least {least} Gb/s" if least else "")
    rates = {port.name: port.port["rate_gbps"] for port in found.rails}
    evidence = [Evidence(port.where + "/rate", f"{port.name}: {port.port['rate_gbps']} Gb/s") for port in found.rails]
    unread = next((rate for rate in rates.values() if isinstance(rate, Unknown)), None)
    if unread is not None:
        findings.unknown("rate", unread, observed=rates, required=required)
        return
    slow = {name: rate for name, rate in rates.items() if rate < least}
    slower = [
        port
        for port in found.others
        if found.how != "declared"
        and port.active is True
        and not isinstance(port.port["rate_gbps"], Unknown)
        and _rails.kin(port, found.rails)
    ]
    if slow:
        words = ", ".join(f"{name} at {rate:g}" for name, rate in slow.items())
        needed.bad(findings)(
            "rate",
            f"Rails are slower than the {least} Gb/s that the contract asks for: {words}.",
            observed=rates,
            required=required,
            evidence=evidence,
        )
    elif len(set(rates.values())) > 1:
        words = ", ".join(f"{name} at {rate:g}" for name, rate in rates.items())
        needed.bad(findings)(
            "rate", f"The rails differ in rate: {words} Gb/s.", observed=rates, required=required, evidence=evidence
        )
    elif slower:
        words = ", ".join(f"{port.name} at {port.port['rate_gbps']:g}" for port in slower)
        findings.warned(
            "rate",
            f"Ports of the rails' own board run slower and were left out: {words} instead of "
            f"{max(rates.values()):g} Gb/s; declare `rdma_hcas` to make them count or to leave them out.",
            observed={**rates, **{port.name: port.port["rate_gbps"] for port in slower}},
            required=required,
            evidence=[Evidence(port.where + "/rate", f"{port.port['rate_gbps']} Gb/s") for port in slower],
        )
    else:
        findings.passed(
            "rate",
            f"Every rail runs at {max(rates.values()):g} Gb/s.",
            observed=rates,
            required=required,
            evidence=evidence[:1],
        )


def gid(findings: Findings, rails: list[_rails.Rail], needed: _rails.Need) -> None:
    """Answers rdma.gid: the address of RoCE rails, and the index NCCL would be given (C31)."""
    unread = next((rail.port["link_layer"] for rail in rails if isinstance(rail.port["link_layer"], Unknown)), None)
    if unread is not None:
        findings.unknown("gid", unread)
        return
    ethernet = [rail for rail in rails if rail.port["link_layer"] == "Ethernet"]
    if not ethernet:
        findings.not_applicable("gid", "no rail is RoCE: GID indexes only matter on Ethernet")
        return
    required = "a GID of type RoCE v2 with an IPv4 address on every RoCE rail"
    indexes: dict[str, list[int]] = {}
    other: dict[str, list[int]] = {}
    for rail in ethernet:
        if isinstance(rail.port["gids"], Unknown):
            findings.unknown("gid", rail.port["gids"], required=required)
            return
        second = [gid for gid in rail.port["gids"] if (gid["type"] or "").strip() == "RoCE v2"]
        indexes[rail.name] = [gid["index"] for gid in second if gid["gid"].startswith("0000:0000:0000:0000:0000:ffff:")]
        other[rail.name] = [gid["index"] for gid in second if not gid["gid"].startswith(("0000:", "fe80:"))]
    evidence = [
        Evidence(f"{rail.where}/gids", f"{rail.name}: RoCE v2 with IPv4 at {indexes[rail.name] or 'no index'}")
        for rail in ethernet
    ]
    without = [name for name, found in indexes.items() if not found]
    common = sorted(set.intersection(*(set(found) for found in indexes.values())))
    observed = {"indexes": indexes, "nccl_ib_gid_index": common[0] if common else None}
    if without and all(other[name] for name in without):
        findings.warned(
            "gid",
            "{} can only be reached by RoCE v2 over IPv6, which NCCL uses with NCCL_IB_ADDR_FAMILY=AF_INET6.".format(
                ", ".join(without)
            ),
            observed={**observed, "ipv6": other},
            required=required,
            evidence=evidence,
        )
    elif without:
        needed.bad(findings)(
            "gid",
            "No GID of type RoCE v2 with an IPv4 address on {}.".format(", ".join(without)),
            observed=observed,
            required=required,
            evidence=evidence,
        )
    elif not common:
        findings.warned(
            "gid",
            "The rails have their RoCE v2 GID at different indexes, so that no one NCCL_IB_GID_INDEX fits all.",
            observed=observed,
            required=required,
            evidence=evidence,
            remedy=Remedy("Leave NCCL_IB_GID_INDEX unset, or give every rail's interface the same set of addresses."),
        )
    else:
        findings.passed(
            "gid",
            f"Every RoCE rail has its RoCE v2 GID with IPv4; NCCL_IB_GID_INDEX is {common[0]} here.",
            observed=observed,
            required=required,
            evidence=evidence,
        )
