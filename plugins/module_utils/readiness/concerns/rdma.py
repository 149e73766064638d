# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""RDMA between nodes: its kernel modules, the ports of the rails, their GIDs, and what stands between GPU and HCA."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.rdma import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import (
    _rails,
    _rdma_paths,
    _rdma_ports,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import product
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import (
    boot,
    infiniband,
    pci,
    pci_config,
    rdma_stack,
)


def collect(node: Node) -> dict[str, Any]:
    """``{"gpus", "hcas", "devices", "stack", "virtual", "bridges"}``; see the sources for the shape of each part."""
    gpus = _gpus(node)
    adapters = infiniband.hcas(node)
    ends = [item["bdf"] for part in (gpus, adapters) if not isinstance(part, Unknown) for item in part]
    virtual = boot.virtual(node)
    return {
        "gpus": gpus,
        "hcas": adapters,
        "devices": infiniband.devices(node),
        "stack": rdma_stack.collect(node),
        "virtual": virtual,
        # A guest sees its host's bridges in part or not at all, and must not touch them (C30).
        "bridges": {} if virtual else pci_config.bridges(node, ends),
    }


def _gpus(node: Node) -> list[dict[str, Any]] | Unknown:
    """``[{"bdf", "name", "form", "nvlsm", "numa"}]``; name and form None where the product is not in the table."""
    found = pci.gpus(node)
    if isinstance(found, Unknown):
        return found
    gpus = []
    for item in found:
        kind = product(item.vendor, item.device)
        numa = node.value(item.folder + "/numa_node")
        gpus.append(
            {
                "bdf": item.bdf,
                "name": kind.name if kind else None,
                "form": kind.form if kind else None,
                "nvlsm": bool(kind and kind.nvlsm),
                "numa": int(numa) if isinstance(numa, str) and re.fullmatch("[0-9]{1,4}", numa) else None,
            }
        )
    return gpus


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for stack, ports, rate, gid, rails, acs and counters."""
    findings = Findings("rdma", CHECKS)
    rdma = facts["rdma"]
    needed = _rails.answer_need(findings, rdma, require)
    if isinstance(needed, Unknown):
        return findings.checks()
    if needed.level == _rails.NONE:
        _without_rdma(findings, rdma, require["interconnect"])
        return findings.checks()
    _stack(findings, rdma, needed)
    found = _rails.rails(rdma, require["rdma_hcas"])
    if isinstance(found, Unknown):
        for name in ("ports", "rate", "gid", "rails", "counters"):
            findings.unknown(name, found)
    else:
        _rdma_ports.ports(findings, rdma, found, needed)
        if found.rails:
            _rdma_ports.rate(findings, found, require, needed)
            _rdma_ports.gid(findings, found.rails, needed)
            _rdma_paths.rails(findings, rdma, found)
            _rdma_paths.counters(findings, found.rails, require)
        else:
            for name in ("rate", "gid", "rails", "counters"):
                findings.unknown(name, "this node has no rail, see rdma.ports")
    _rdma_paths.acs(findings, rdma, needed)
    return needed.settle(findings.checks())


def _without_rdma(findings: Findings, rdma: dict[str, Any], asked: str) -> None:
    """What matters even where nodes do not talk over RDMA."""
    adapters, gpus = rdma["hcas"], rdma["gpus"]
    if isinstance(gpus, Unknown) or isinstance(adapters, Unknown):
        return
    if adapters and any(gpu["nvlsm"] for gpu in gpus):
        # The NVSwitches of an NVLink 5 baseboard are managed over InfiniBand devices (C15).
        _stack(findings, rdma, _rails.Need(_rails.REQUIRED, "its NVSwitches are managed over InfiniBand devices"))
    if asked == "auto" and any(gpu["form"] in ("hgx", "oam") for gpu in gpus):
        findings.warned(
            "ports",
            "This node shows no HCA for traffic between nodes and the contract leaves the interconnect open, so it can "
            "only serve what fits on one node.",
            observed=[],
            required="an HCA, or `interconnect: none`",
            evidence=Evidence(pci.DEVICES, "no adapter of class 0207 and none of a known RDMA vendor"),
            remedy=Remedy("Declare `interconnect: none` for a single node, or look for the adapters that are missing."),
        )


def _stack(findings: Findings, rdma: dict[str, Any], needed: _rails.Need) -> None:
    stack, adapters = rdma["stack"], rdma["hcas"]
    if isinstance(adapters, Unknown):
        findings.unknown("stack", adapters)
        return
    if not adapters and rdma["devices"] == {}:
        findings.not_applicable("stack", "this node has no HCA on its PCI bus, see rdma.ports")
        return
    wanted = _modules_wanted(rdma)
    observed = {
        "stack": stack["kind"],
        "ofed": stack["ofed"],
        "ib_core": stack["ib_core"].get("filename") if isinstance(stack["ib_core"], dict) else stack["ib_core"],
        "missing": [name for name in wanted if stack["modules"][name] is False],
    }
    bad = needed.bad(findings)
    if observed["missing"]:
        missing = observed["missing"]
        bad(
            "stack",
            f"Not loaded, so that HCAs or the NVLink 5 fabric stay out of reach: {', '.join(missing)}.",
            observed=observed,
            required=wanted,
            evidence=Evidence("/proc/modules", "not there: " + " ".join(missing)),
            remedy=Remedy(
                "Load them now and at boot (a file in /etc/modules-load.d); on Ubuntu they come with "
                "linux-modules-extra of the running kernel.",
                command="modprobe -a " + " ".join(missing),
            ),
        )
        return
    unread = next((stack["modules"][name] for name in wanted if isinstance(stack["modules"][name], Unknown)), None)
    if unread is not None:
        findings.unknown("stack", unread, observed=observed, required=wanted)
        return
    _vendor_stack(findings, stack, observed, bad)


def _modules_wanted(rdma: dict[str, Any]) -> list[str]:
    """The modules this node's adapters need, by the driver that is bound or, for Mellanox, would be."""
    wanted: list[str] = []
    for item in rdma["hcas"]:
        driver = item["driver"]
        if driver is None and item["vendor"] == infiniband.MELLANOX:
            driver = "mlx5_core"
        if driver in rdma_stack.RDMA_MODULE:
            wanted += [driver, rdma_stack.RDMA_MODULE[driver]]
    devices = rdma["devices"]
    ports = [
        port
        for device in (devices.values() if isinstance(devices, dict) else [])
        for port in (device["ports"].values() if isinstance(device["ports"], dict) else [])
    ]
    infiniband_ports = any(port["link_layer"] == "InfiniBand" for port in ports)
    baseboard = not isinstance(rdma["gpus"], Unknown) and any(gpu["nvlsm"] for gpu in rdma["gpus"])
    undecided = not ports and any(item["vendor"] == infiniband.MELLANOX for item in rdma["hcas"])
    common = ["ib_uverbs"] + (["ib_umad"] if infiniband_ports or baseboard or undecided else [])
    return list(dict.fromkeys(wanted + common))


def _vendor_stack(findings: Findings, stack: dict[str, Any], observed: dict[str, Any], bad: Any) -> None:
    """The stack whose modules are loaded: the kernel's own or the vendor's, and whether that is meant (C25)."""
    ofed, kind = stack["ofed"], stack["kind"]
    required = "the installed stack is the one in use"
    evidence = [Evidence("modinfo ib_core", f"filename: {observed['ib_core']}"), Evidence("ofed_info -s", str(ofed))]
    if isinstance(kind, Unknown):
        findings.unknown("stack", kind, observed=observed, required=required)
    elif isinstance(ofed, Unknown) and kind == rdma_stack.INBOX:
        findings.unknown("stack", ofed, observed=observed, required=required)
    elif ofed is not None and kind == rdma_stack.INBOX and not stack["userspace_only"]:
        bad(
            "stack",
            f"{ofed} is installed but not active for this kernel: ib_core comes from the kernel's own tree "
            "(ofed_not_active_for_kernel).",
            observed={**observed, "cause": "ofed_not_active_for_kernel"},
            required=required,
            evidence=evidence,
            remedy=Remedy(
                "Rebuild the vendor's stack for the running kernel and reboot, or remove it where the kernel's own "
                "stack and dma-buf are meant.",
                "reboot",
            ),
        )
    elif stack["reload_due"] is True:
        findings.warned(
            "stack",
            "The loaded ib_core is another build than the one on disk: a restart of the RDMA stack is due.",
            observed=observed,
            required=required,
            evidence=[Evidence("/sys/module/ib_core/srcversion", "differs from modinfo ib_core"), *evidence],
            remedy=Remedy("Drain the node and reboot it, so that the stack on disk is the one that runs.", "reboot"),
        )
    else:
        name = str(ofed) if kind == rdma_stack.OUT_OF_TREE and ofed is not None else kind
        findings.passed(
            "stack",
            f"The modules of the HCAs are loaded; the stack is {name}.",
            observed=observed,
            required=required,
            evidence=evidence[: 1 if ofed is None else 2],
        )
