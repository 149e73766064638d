# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The part of rdma that asks how GPUs and rails stand to each other: number, bridges between them, counters."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _rails
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Evidence, Findings, Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import infiniband, pci, pci_config

SHOWN_MAX = 6


def rails(findings: Findings, rdma: dict[str, Any], found: _rails.Rails) -> None:
    """Answers rdma.rails: rails against GPUs, in number and by NUMA node."""
    gpus = rdma["gpus"]
    required = "as many rails as GPUs or a multiple, spread as the GPUs are"
    if isinstance(gpus, Unknown):
        findings.unknown("rails", gpus, required=required)
        return
    count, wanted = len(found.rails), len(gpus)
    by_numa = {
        "gpus": _by_numa([gpu["numa"] for gpu in gpus]),
        "rails": _by_numa([rail.of["numa"] for rail in found.rails]),
    }
    observed = {"rails": count, "gpus": wanted, "numa": by_numa}
    evidence = Evidence(infiniband.CLASS, " ".join(rail.name for rail in found.rails))
    unsure = [rail for rail in found.rails if isinstance(rail.of["switch_management"], Unknown)]
    if unsure:
        # Without the vital product data an HCA of the NVSwitches looks like a rail.
        findings.unknown("rails", unsure[0].of["switch_management"], observed=observed, required=required)
    elif not wanted or count % wanted:
        findings.warned(
            "rails",
            f"This node has {count} rails for {wanted} GPUs ({found.how}).",
            observed=observed,
            required=required,
            evidence=evidence,
        )
    elif None not in by_numa["gpus"] and None not in by_numa["rails"] and _uneven(by_numa, count // wanted):
        findings.warned(
            "rails",
            "Rails and GPUs are not spread alike over the NUMA nodes: GPUs {}, rails {}.".format(
                _words(by_numa["gpus"]), _words(by_numa["rails"])
            ),
            observed=observed,
            required=required,
            evidence=evidence,
        )
    else:
        findings.passed(
            "rails", f"{count} rails for {wanted} GPUs.", observed=observed, required=required, evidence=evidence
        )


def _by_numa(nodes: list[int | None]) -> dict[int | None, int]:
    return dict(Counter(nodes))


def _uneven(by_numa: dict[str, dict[int | None, int]], each: int) -> bool:
    return by_numa["rails"] != {numa: number * each for numa, number in by_numa["gpus"].items()}


def _words(counts: dict[int | None, int]) -> str:
    return ", ".join(f"{number} on {numa}" for numa, number in sorted(counts.items(), key=str))


def acs(findings: Findings, rdma: dict[str, Any], needed: _rails.Need) -> None:
    """Answers rdma.acs: the redirect controls of the bridges, on bare metal only (C30)."""
    if rdma["virtual"]:
        findings.not_applicable("acs", f"this is a virtual machine ({rdma['virtual']}): its host decides")
        return
    bridges = rdma["bridges"]
    required = "ReqRedir and CmpltRedir off on every bridge above GPUs and HCAs"
    if isinstance(bridges, Unknown):
        findings.unknown("acs", bridges, required=required)
        return
    on = {bdf: controls for bdf, controls in bridges.items() if isinstance(controls, list) and controls}
    redirecting = {bdf: controls for bdf, controls in on.items() if set(controls) & set(pci_config.REDIRECTS)}
    unread = [(bdf, controls) for bdf, controls in bridges.items() if isinstance(controls, Unknown)]
    observed = {"bridges": len(bridges), "redirecting": redirecting, "unreadable": len(unread)}
    evidence = [
        Evidence(f"{pci.DEVICES}/{bdf}/config", "ACSCtl: " + " ".join(f"{name}+" for name in controls))
        for bdf, controls in (redirecting or on).items()
    ][:SHOWN_MAX]
    if redirecting:
        # A Grace tray translates at its SMMU and its vendors set ACS on purpose (peers trap 3); its GPUs talk by C2C.
        trays = not isinstance(rdma["gpus"], Unknown) and any(gpu["form"] == "tray" for gpu in rdma["gpus"])
        (findings.warned if trays else needed.bad(findings))(
            "acs",
            f"ACS redirects peer traffic on {len(redirecting)} of {len(bridges)} bridges (first: "
            f"{', '.join(sorted(redirecting)[:SHOWN_MAX])}), so GPU and HCA talk through the root complex.",
            observed=observed,
            required=required,
            evidence=evidence,
        )
    elif unread:
        findings.unknown("acs", unread[0][1], observed=observed, required=required)
    elif not bridges:
        findings.unknown("acs", "no PCI bridge is visible on what looks like bare metal", required=required)
    elif any("SrcValid" in controls for controls in on.values()):
        findings.warned(
            "acs",
            "No bridge redirects peer traffic; source validation alone (SrcValid) is on, which is not itself the "
            "redirect problem.",
            observed={**observed, "note": "acs_srcvalid_only"},
            required=required,
            evidence=evidence,
        )
    else:
        findings.passed(
            "acs",
            "No bridge redirects peer traffic.",
            observed=observed,
            required=required,
            evidence=Evidence(f"{pci.DEVICES}/*/config", f"{len(bridges)} bridges read"),
        )


def counters(findings: Findings, chosen: list[_rails.Rail], require: dict[str, Any]) -> None:
    """Answers rdma.counters: totals of flaps and damage per rail; congestion is only shown (C36)."""
    limits = {"flaps": require["rdma_flaps_max"], "errors": require["rdma_errors_max"]}
    read = {rail.name: rail.port["counters"] for rail in chosen}
    unread = [
        (f"{rail.name} {counter}", value)
        for rail in chosen
        for counter, value in rail.port["counters"].items()
        if isinstance(value, Unknown) and counter in infiniband.FLAPS + infiniband.DAMAGE
    ]
    silent = [name for name, values in read.items() if not set(values) & set(infiniband.FLAPS + infiniband.DAMAGE)]
    observed = {
        name: {counter: value for counter, value in values.items() if isinstance(value, Unknown) or value}
        for name, values in read.items()
    }
    over = []
    for rail in chosen:
        for names, limit in ((infiniband.FLAPS, limits["flaps"]), (infiniband.DAMAGE, limits["errors"])):
            for counter in names:
                value = rail.port["counters"].get(counter, 0)
                if not isinstance(value, Unknown) and value > limit:
                    over.append((rail, counter, value))
    if over:
        words = ", ".join(f"{rail.name} {counter} {value}" for rail, counter, value in over[:SHOWN_MAX])
        findings.warned(
            "counters",
            f"Error counters stand above the limits: {words}; they are totals since the driver was loaded, and no "
            "source names a figure that proves a fault.",
            observed=observed,
            required=limits,
            evidence=[
                Evidence(f"{rail.where}/(hw_)counters/{counter}", str(value))
                for rail, counter, value in over[:SHOWN_MAX]
            ],
        )
    elif unread:
        findings.unknown(
            "counters",
            f"{len(unread)} error counters cannot be read, the first is {unread[0][0]}: {unread[0][1].reason}",
            observed=observed,
            required=limits,
            evidence=[Evidence(value.source, name) for name, value in unread[:SHOWN_MAX]],
        )
    elif silent:
        findings.unknown(
            "counters", f"no error counter can be read of {', '.join(silent)}", observed=observed, required=limits
        )
    else:
        findings.passed(
            "counters",
            "The error counters of the rails are within limits; only a second reading shows that links are sound.",
            observed=observed,
            required=limits,
            evidence=Evidence(f"{infiniband.CLASS}/*/ports/*/counters", f"{len(read)} rails read"),
        )
