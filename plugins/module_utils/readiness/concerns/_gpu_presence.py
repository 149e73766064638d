# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How many GPUs there are and which: the PCI bus, nvidia-smi and the product table held against each other."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._gpu_tally import named, whole
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import (
    NVIDIA_VENDOR,
    SERVES_K3,
    Product,
    product,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_smi, pci

# The recipe's memory budget for the model. Source: recipe `vram_minimum_gb`; facts, corrections (Sizing).
MODEL_MEMORY_GB = 1680
ROWS_SHOWN = 64


def products_of(rows: Any) -> list[Product | None]:
    """The distinct products on the bus; None stands for an unlisted id. Empty where the bus is unread."""
    if isinstance(rows, Unknown):
        return []
    return list({(row["vendor"], row["device"]): product(row["vendor"], row["device"]) for row in rows}.values())


def assess_count(findings: Findings, gpu: dict[str, Any], require: dict[str, Any]) -> None:
    """Bus, driver and product have to agree; without a GPU this is the machine's one failure."""
    rows = gpu["pci"]
    if isinstance(rows, Unknown):
        findings.unknown("count", rows)
        return
    if not rows:
        findings.failed(
            "count",
            "This machine has no GPU: no NVIDIA or AMD graphics device is on its PCI bus.",
            observed={"pci": 0},
            required=require["gpu_count"] or "GPUs",
            evidence=Evidence(pci.DEVICES, "no device of vendor 10de or 1002 and class 03 or 12"),
            remedy=Remedy("Take this machine out of the inventory, or give it GPUs."),
        )
        return
    products = products_of(rows)
    expected = require["gpu_count"]
    if not expected and len(products) == 1 and products[0]:
        expected = products[0].per_node
    observed: dict[str, Any] = {"pci": len(rows)}
    line = ", ".join(f"{row['bdf']} {row['vendor']}:{row['device']}" for row in rows[:ROWS_SHOWN])
    evidence = [Evidence(pci.DEVICES, line)]
    smi = gpu["smi"]
    told = any(row["vendor"] == NVIDIA_VENDOR for row in rows) and not isinstance(smi, Unknown)
    if told:
        observed.update(attached=smi["attached"], listed=smi["blocks"])
        evidence.append(Evidence(nvidia_smi.SOURCE, f"attached_gpus {smi['attached']}, {smi['blocks']} listed"))
        fault = _disagreement(rows, smi)
        if fault:
            findings.failed("count", fault, observed, expected or None, evidence)
            return
    if expected and len(rows) != expected:
        findings.failed(
            "count", f"{len(rows)} GPUs are on the PCI bus, and {expected} are required.", observed, expected, evidence
        )
    elif not expected:
        findings.unknown(
            "count",
            f"{len(rows)} GPUs are seen, and how many this node must have is not known: declare `gpu_count`.",
            observed,
            evidence=evidence,
        )
    elif any(row["vendor"] == NVIDIA_VENDOR for row in rows) and not told:
        findings.unknown(
            "count",
            f"{len(rows)} GPUs are on the PCI bus, as required, but whether the driver sees them is not known: "
            f"{smi.reason}",
            observed,
            expected,
            [*evidence, Evidence(nvidia_smi.SOURCE)],
        )
    elif told and smi["attached"] is None:
        findings.unknown("count", "nvidia-smi does not tell how many GPUs it has.", observed, expected, evidence)
    else:
        findings.passed("count", f"All {expected} GPUs are there.", observed, expected, evidence)


def _disagreement(rows: list[dict[str, Any]], smi: dict[str, Any]) -> str:
    """How the bus and nvidia-smi contradict each other; empty where they agree."""
    on_bus = [row["bdf"] for row in rows if row["vendor"] == NVIDIA_VENDOR]
    listed = [row["bdf"] for row in smi["gpus"]]
    lost = sorted(set(on_bus) - set(listed))
    if lost:
        return (
            f"GPU {named(lost)} is on the PCI bus, but nvidia-smi does not list it: it fell off or did not initialise."
        )
    extra = sorted(set(listed) - set(on_bus))
    if extra:
        return f"nvidia-smi lists GPU {named(extra)}, which is not on the PCI bus."
    if smi["attached"] not in (None, smi["blocks"]) or smi["blocks"] != len(set(listed)):
        return (
            f"nvidia-smi contradicts itself: it announces {smi['attached']} GPUs and lists {smi['blocks']} "
            f"({len(set(listed))} different)."
        )
    return ""


def assess_model(findings: Findings, gpu: dict[str, Any]) -> None:
    """One product, and one that the recipe serves; that a node is too small alone is no fault of it."""
    rows = gpu["pci"]
    if isinstance(rows, Unknown):
        findings.unknown("model", rows)
        return
    if not rows:
        findings.not_applicable("model", "this machine has no GPU")
        return
    products = products_of(rows)
    ids = sorted({f"{row['vendor']}:{row['device']}" for row in rows})
    names = sorted({item.name for item in products if item})
    observed = {"products": names, "pci_ids": ids}
    required = list(SERVES_K3)
    evidence = Evidence(pci.DEVICES, ", ".join(ids))
    unlisted = sorted({f"{row['vendor']}:{row['device']}" for row in rows if row["product"] is None})
    if unlisted:
        findings.unknown(
            "model",
            f"The product of PCI id {', '.join(unlisted)} is not in the table of known GPUs.",
            observed,
            required,
            evidence,
        )
    elif len(names) != 1:
        findings.failed(
            "model",
            f"This node mixes GPUs: {', '.join(names)}.",
            observed,
            required,
            evidence,
            Remedy("Serve Kimi K3 on a node with GPUs of one product."),
        )
    elif names[0] not in SERVES_K3:
        findings.failed("model", f"Kimi K3 is not served on {names[0]}.", observed, required, evidence)
    else:
        text = f"{len(rows)} {names[0]} GPUs, on which Kimi K3 is served.{_memory_note(gpu['smi'])}"
        findings.passed("model", text, observed, required, evidence)


def _memory_note(smi: Any) -> str:
    """Whether one node could hold the model: information for the plan, no finding about this node."""
    if isinstance(smi, Unknown):
        return ""
    sizes = [whole(row["memory_total"]) for row in smi["gpus"]]
    if not sizes or None in sizes:
        return ""
    total = sum(size or 0 for size in sizes) * 1048576 // 10**9
    if total >= MODEL_MEMORY_GB:
        return f" Their {total} GB hold the model (budget {MODEL_MEMORY_GB} GB)."
    return (
        f" Their {total} GB are too little for one node alone (budget {MODEL_MEMORY_GB} GB): it needs others beside it."
    )
