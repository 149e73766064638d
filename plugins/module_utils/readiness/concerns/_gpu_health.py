# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the GPUs are sound: recovery action, Xid, ECC, row remapping, throttling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._gpu_tally import (
    Tally,
    named,
    whole,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    UNKNOWN,
    WARN,
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import Product
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import xid

NO_ACTION = "None"
REPLACE = Remedy("Drain the node and have the GPU replaced.", "drain")
RESET = Remedy("Drain the node and reset the GPU.", "drain")
REBOOT = Remedy("Drain the node and reboot it.", "reboot")
IMEX = Remedy("Drain the nodes of the NVLink domain and restart IMEX on them.", "drain")
POWER = Remedy("Drain the node and power-cycle it.", "reboot")

# The words of nvidia-smi for NVML's recovery actions, gravest first: the node's cure is that of its worst GPU.
# Source: peers section 6 (0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover IMEX domain,
# 6 bus reset, 7 system reboot).
ACTIONS = (
    ("system reboot", POWER),
    ("reboot", REBOOT),
    ("bus reset", Remedy("Drain the node and reboot it: the GPU's PCIe bus has to be reset.", "reboot")),
    ("imex", IMEX),
    ("drain p2p", Remedy("Drain the node: the GPU must not talk to its peers; then reset it.", "drain")),
    ("reset", RESET),
)


def assess_recovery(findings: Findings, gpus: Sequence[dict[str, Any]]) -> None:
    """``None`` on every GPU; everything else is the driver's own demand, known wording or not."""
    tally = Tally()
    ranked = []
    for gpu in gpus:
        value = gpu["recovery_action"]
        line = f"{gpu['bdf']}: gpu_recovery_action = {value}"
        if value == NO_ACTION:
            continue
        if value in (None, "", "N/A", "[N/A]", "Unknown Error", "[Unknown Error]", "ERR!"):
            tally.add(UNKNOWN, gpu["bdf"], "the driver does not tell its recovery action", line)
            continue
        rank = next((number for number, (word, _cure) in enumerate(ACTIONS) if word in value.lower()), len(ACTIONS))
        ranked.append((rank, gpu["bdf"], value, line))
    for rank, bdf, value, line in sorted(ranked):
        tally.add(FAIL, bdf, f"the driver asks for: {value}", line, ACTIONS[rank][1] if rank < len(ACTIONS) else None)
    observed = sorted({str(gpu["recovery_action"]) for gpu in gpus})
    tally.answer(findings, "recovery_action", "The driver asks for nothing on any GPU.", observed, NO_ACTION)


def assess_xid(findings: Findings, found: Any, actions: dict[str, Any]) -> None:
    """``actions`` is ``{bdf: recovery action}``, empty where nvidia-smi did not answer.

    A GPU whose recovery action is None has been recovered since (a reset leaves its Xid in the log until the next
    boot), so its event only warns. Without that word a broken-class event fails.
    """
    required = "no open reset, reboot or service event"
    if isinstance(found, Unknown):
        findings.unknown("xid", found, required=required)
        return
    # Information is shown, but speaks of no fault.
    events = [event for event in found["events"] if event["action"] != xid.INFORMATION]
    observed = [
        f"{event['kind']} {event['code']} on {event['device']} ({event['action']})" for event in found["events"]
    ]
    if not events and not found["complete"]:
        why = "the kernel log no longer goes back to the beginning of this boot, and what is left shows no fault"
        findings.unknown("xid", why, observed, required, Evidence(found["source"]))
        return
    if not events:
        findings.passed(
            "xid",
            f"The kernel log of this boot shows no fault of a GPU or NVSwitch ({len(observed)} informative events).",
            observed,
            required,
            Evidence(found["source"]),
        )
        return
    failing = [event for event in events if event["action"] in xid.BROKEN and not _recovered(event, actions)]
    shown = (failing or events)[:4]
    evidence = [Evidence(found["source"], event["line"]) for event in shown]
    texts = []
    for event in shown:
        times = f", {event['times']} times" if event["times"] > 1 else ""
        texts.append(f"{event['kind']} {event['code']} on {event['device']} (class {event['action']}{times})")
    told = "; ".join(texts)
    if failing:
        worst = failing[0]["action"]
        remedy = {xid.REBOOT: REBOOT, xid.SERVICE: REPLACE}.get(worst, RESET)
        findings.failed("xid", f"The kernel log of this boot shows {told}.", observed, required, evidence, remedy)
        return
    asks = any(event["action"] in xid.BROKEN for event in events)
    why = "the driver asks for nothing now" if asks else "none of them is known to ask for a reset"
    remedy = Remedy("Watch this node; have the GPU looked at where the event comes back.")
    findings.warned("xid", f"The kernel log of this boot shows {told}; {why}.", observed, required, evidence, remedy)


def _recovered(event: dict[str, Any], actions: dict[str, Any]) -> bool:
    """Whether the driver asks for nothing. An NVSwitch has no such word: all GPUs behind it must agree."""
    of_device = [action for bdf, action in actions.items() if bdf.startswith(event["device"] + ".")]
    asked = of_device if event["kind"] == "Xid" else list(actions.values())
    return bool(asked) and all(action == NO_ACTION for action in asked)


def assess_ecc(findings: Findings, gpus: Sequence[dict[str, Any]], products: Sequence[Product | None]) -> None:
    """Mode, uncorrectable errors since the driver was loaded, and repairs that are due."""
    off = Remedy("Drain the node, turn ECC on and reset the GPUs.", "drain", "nvidia-smi -e 1")
    # Fields that only newer branches and GPUs have: absent they say nothing. N/A is an answer before Blackwell only.
    old = bool(products) and all(item is not None and not item.open_only for item in products)
    optional: tuple[str | None, ...] = ("No", None, "N/A") if old else ("No", None)
    tally = Tally()
    for gpu in gpus:
        bdf = gpu["bdf"]
        tally.flag(bdf, "current_ecc", gpu["ecc_current"], ("Enabled",), {"Disabled": (FAIL, "ECC is off", off)})
        tally.flag(
            bdf,
            "pending_ecc",
            gpu["ecc_pending"],
            ("Enabled",),
            {"Disabled": (FAIL, "ECC will be off after the next reset", off)},
        )
        for name in ("volatile_dram", "volatile_sram_parity", "volatile_sram_secded"):
            count = whole(gpu[name])
            line = f"{bdf}: {name} uncorrectable = {gpu[name]}"
            if count is None:
                tally.add(UNKNOWN, bdf, f"its {name.replace('_', ' ')} errors are not told", line)
            elif count > 0:
                where = "memory" if name == "volatile_dram" else "SRAM"
                tally.add(FAIL, bdf, f"{count} uncorrectable {where} errors since the driver was loaded", line)
        worn = {"Yes": (FAIL, "its SRAM errors crossed NVIDIA's threshold for replacement", REPLACE)}
        tally.flag(bdf, "sram_threshold_exceeded", gpu["sram_threshold"], ("No",), worn)
        for name, text in (("channel_repair", "a memory channel"), ("tpc_repair", "a compute cluster")):
            due = {"Yes": (FAIL, f"the repair of {text} waits for a reset", RESET)}
            tally.flag(bdf, f"{name}_pending", gpu[name], optional, due)
        dead = {"Yes": (FAIL, "it has memory that cannot be repaired", REPLACE)}
        tally.flag(bdf, "unrepairable_memory", gpu["unrepairable"], optional, dead)
    observed = {
        "mode": sorted({str(gpu["ecc_current"]) for gpu in gpus}),
        "volatile_uncorrectable": _total(gpus, ("volatile_dram", "volatile_sram_parity", "volatile_sram_secded")),
        "aggregate_dram_uncorrectable": _total(gpus, ("aggregate_dram",)),
    }
    tally.answer(
        findings, "ecc", "ECC is on, without uncorrectable errors or repairs due.", observed, "Enabled, 0 errors"
    )


def _total(gpus: Sequence[dict[str, Any]], names: Sequence[str]) -> int | str:
    counts = [whole(gpu[name]) for gpu in gpus for name in names]
    return "not told" if None in counts else sum(count or 0 for count in counts)


def assess_row_remap(findings: Findings, gpus: Sequence[dict[str, Any]]) -> None:
    """A pending remapping waits for a reset; one that failed means new hardware."""
    tally = Tally()
    failed = {"Yes": (FAIL, "a row could not be remapped", REPLACE)}
    pending = {"Yes": (FAIL, "a row waits for its remapping until the GPU is reset", RESET)}
    for gpu in gpus:
        tally.flag(gpu["bdf"], "remapped_row_failure", gpu["remap_failure"], ("No",), failed)
        tally.flag(gpu["bdf"], "remapped_row_pending", gpu["remap_pending"], ("No",), pending)
    observed = {
        "pending": named([gpu["bdf"] for gpu in gpus if gpu["remap_pending"] == "Yes"]) or "none",
        "failure": named([gpu["bdf"] for gpu in gpus if gpu["remap_failure"] == "Yes"]) or "none",
    }
    tally.answer(findings, "row_remap", "No row waits for its remapping, and none failed.", observed, "none pending")


def assess_throttle(findings: Findings, gpus: Sequence[dict[str, Any]]) -> None:
    """Heat and supply are faults of the machine; power caps and application clocks are somebody's setting."""
    tally = Tally()
    table = (
        ("slow_hw_thermal", "hw_thermal_slowdown", FAIL, "the hardware slows it down because it is too hot"),
        (
            "slow_power_brake",
            "hw_power_brake_slowdown",
            FAIL,
            "the power supply holds its brake (power brake slowdown)",
        ),
        ("slow_hw", "hw_slowdown", FAIL, "the hardware slows it down"),
        ("slow_sw_thermal", "sw_thermal_slowdown", WARN, "the driver slows it down because it is warm"),
    )
    for gpu in gpus:
        for key, name, status, text in table:
            tally.flag(gpu["bdf"], name, gpu[key], ("Not Active",), {"Active": (status, text, None)})
    observed = {
        name: named([gpu["bdf"] for gpu in gpus if gpu[key] == "Active"]) or "none"
        for key, name, _status, _why in table
    }
    tally.answer(findings, "throttle", "Nothing slows the GPUs down for heat or power.", observed, "none")
