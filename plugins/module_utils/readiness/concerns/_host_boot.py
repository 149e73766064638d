# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the host booted: kernel, Secure Boot, boot arguments, and whether a reboot is due."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Evidence, Findings, Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import boot, pci
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.kernels import GIN_KERNEL

DMABUF_KERNEL = (5, 12)
# Forms whose GPUs share memory with a Grace processor.
COHERENT = ("tray", "superchip")
X86_IOMMU = ("iommu=pt", "iommu.passthrough=1", "iommu=off", "intel_iommu=off", "amd_iommu=off")
ARM_IOMMU = ("iommu.passthrough=1",)
GRACE_ARGUMENTS = ("init_on_alloc=0", "numa_balancing=disable")


def coherent(gpus: Any) -> bool:
    """Whether a GPU here is known to share memory with the processor (Grace)."""
    return isinstance(gpus, list) and any(kind["form"] in COHERENT for kind in gpus)


def wanted_arguments(arch: str, gpus: Any) -> list[str]:
    """The boot arguments this machine should have. Source: facts, corrections (kernel argument) and 1.45."""
    iommu = ARM_IOMMU[0] if arch == "aarch64" else X86_IOMMU[0]
    return [iommu, *(GRACE_ARGUMENTS if coherent(gpus) else ())]


def read_iommu(node: Node) -> dict[str, Any]:
    """``{"active": bool or Unknown, "types": [...]}``: whether an IOMMU translates, and how for the GPUs' groups."""
    units = node.listdir("/sys/class/iommu")
    gpus = pci.gpus(node)
    types = set()
    for device in gpus if isinstance(gpus, list) else []:
        kind = node.value(f"{device.folder}/iommu_group/type")
        if isinstance(kind, str):
            types.add(kind)
    return {"active": units if isinstance(units, Unknown) else bool(units), "types": sorted(types)}


def assess_kernel(findings: Findings, host: dict[str, Any], require: dict[str, Any]) -> None:
    release = host["kernel"]
    evidence = Evidence("/proc/sys/kernel/osrelease", str(release))
    match = re.match(r"(\d{1,5})\.(\d{1,5})", release) if isinstance(release, str) else None
    if match is None:
        findings.unknown("kernel", f"the kernel's release reads {release!r:.80}", evidence=evidence)
        return
    number = (int(match.group(1)), int(match.group(2)))
    required = "5.12 or newer"
    observed = {"release": release, "page_size": host["page_size"]}
    # Red Hat brings newer RDMA code back into its older numbers; the registration itself is tried by gpudirect.dmabuf.
    backported = re.search(r"\.el[89](_\d+)?\b", release) is not None
    if number < DMABUF_KERNEL and not backported:
        findings.warned(
            "kernel",
            f"Kernel {release} is older than 5.12, so it has no registration of GPU memory by dmabuf unless its vendor "
            "brought it back; gpudirect.dmabuf tells.",
            observed,
            required,
            evidence,
        )
    elif require["gpudirect_gin"] and number < GIN_KERNEL:
        findings.warned(
            "kernel",
            f"Kernel {release} is older than 6.1, so direct GPU-initiated transfers (GIN) need nvidia_peermem; by "
            "dmabuf they need 6.1.",
            observed,
            "6.1 or newer with gpudirect_gin",
            evidence,
        )
    else:
        note = ""
        if coherent(host["gpus"]) and host["page_size"] == 4096:
            note = ", with 4 KiB pages (64 KiB are recommended on Grace, not required)"
        findings.passed("kernel", f"Kernel {release} runs{note}.", observed, required, evidence)


def assess_secure_boot(findings: Findings, host: dict[str, Any]) -> None:
    """C19. What is loaded was accepted; only a module that is missing raises the question of its signature."""
    facts = host["boot"]
    secure, loaded = facts["secure_boot"], facts["nvidia_loaded"]
    name, required = "secure_boot", "off, or the nvidia module is loaded"
    evidence = Evidence(boot.SECURE_BOOT, "on" if secure else "off")
    if isinstance(secure, Unknown):
        if loaded is True:
            findings.passed(
                name,
                f"Whether Secure Boot is on could not be read ({secure.reason}), but the nvidia module was accepted.",
                "nvidia is loaded",
                required,
                Evidence("/sys/module/nvidia"),
            )
        else:
            findings.unknown(name, secure, required=required)
        return
    if not secure and not facts["signatures_enforced"]:
        state = "This node did not boot by UEFI: there is no Secure Boot." if secure is None else "Secure Boot is off."
        findings.passed(name, state, "off", required, Evidence(boot.EFI) if secure is None else evidence)
        return
    what = "Secure Boot is on" if secure else "This kernel takes signed modules only (module.sig_enforce)"
    if not secure:
        evidence = Evidence(boot.SIG_ENFORCE, "Y")
    gpus = host["gpus"]
    if isinstance(gpus, list) and not any(kind["vendor"] == "10de" for kind in gpus):
        findings.passed(name, f"{what}, and no NVIDIA driver is needed here.", "on", required, evidence)
    elif loaded is True:
        findings.passed(name, f"{what}, and the nvidia module was accepted.", "on", required, evidence)
    elif isinstance(loaded, Unknown):
        findings.unknown(name, loaded, "on", required)
    else:
        _assess_refused(findings, facts, what, evidence)


def _assess_refused(findings: Findings, facts: dict[str, Any], what: str, evidence: Evidence) -> None:
    """Signatures are enforced and nvidia is not loaded: was it refused, will it be, or is it just not installed?"""
    refusals, signer = facts["refusals"], facts["nvidia_signer"]
    name, required = "secure_boot", "off, or the nvidia module is loaded"
    observed = {"enforced": True, "nvidia_loaded": False, "signer": signer}
    if isinstance(refusals, list) and refusals:
        findings.failed(
            name,
            f"{what}, and the kernel refused a module whose key it does not know, so nvidia is not loaded.",
            observed,
            required,
            [evidence, *(Evidence("kernel log", line) for line in refusals)],
        )
    elif signer == "":
        findings.failed(
            name,
            f"{what}, and the nvidia module on disk carries no signature, so it cannot be loaded.",
            observed,
            required,
            [evidence, Evidence("modinfo nvidia", "no signer")],
        )
    elif isinstance(refusals, Unknown):
        findings.unknown(name, f"{what}, nvidia is not loaded, and the log cannot be read: {refusals.reason}", observed)
    elif isinstance(signer, Unknown):
        findings.unknown(name, f"{what}, nvidia is not loaded, and its signature is unknown: {signer.reason}", observed)
    else:
        disk = "no nvidia module is on disk yet" if signer is None else f"the module on disk is signed by {signer}"
        findings.warned(
            name,
            f"{what} and nvidia is not loaded ({disk}); it will be refused unless the key that signs it is enrolled.",
            observed,
            required,
            evidence,
        )


def assess_kernel_args(findings: Findings, host: dict[str, Any]) -> None:
    facts = host["boot"]
    args = facts["arguments"]
    wanted = wanted_arguments(host["arch"], host["gpus"])
    if isinstance(args, Unknown):
        findings.unknown("kernel_args", args, required=wanted)
        return
    if isinstance(host["gpus"], Unknown):
        findings.unknown("kernel_args", host["gpus"], required=wanted)
        return
    missing, notes = [], []
    if facts["virtual"]:
        notes.append("the IOMMU of a virtual machine is its host's")
    elif not _passthrough(facts, args, host["arch"]):
        missing.append(wanted[0])
    if coherent(host["gpus"]):
        if boot.value(args, "init_on_alloc") != "0":
            missing.append(GRACE_ARGUMENTS[0])
        balancing = facts["numa_balancing"]
        # The kernel's own answer counts: a later setting can undo the argument, and another can stand in for it.
        off = balancing == "0" if isinstance(balancing, str) else boot.value(args, "numa_balancing") == "disable"
        if not off:
            missing.append(GRACE_ARGUMENTS[1])
    iommu = facts["iommu"]
    observed = {
        "missing": missing,
        "iommu_types": iommu["types"],
        "iommu_active": None if isinstance(iommu["active"], Unknown) else iommu["active"],
        "virtual": facts["virtual"],
    }
    evidence = Evidence("/proc/cmdline", " ".join(args))
    if missing:
        written = [argument for argument in missing if argument in facts["configured"]]
        later = f" ({', '.join(written)} is configured and waits for a reboot)" if written else ""
        findings.warned(
            "kernel_args",
            f"Not in effect: {', '.join(missing)}{later}; traffic between GPU and network card may be slower.",
            observed,
            wanted,
            evidence,
        )
    else:
        note = f" ({'; '.join(notes)})" if notes else ""
        findings.passed("kernel_args", f"The boot arguments are as wanted{note}.", observed, wanted, evidence)


def _passthrough(facts: dict[str, Any], args: list[str], arch: str) -> bool:
    """Whether devices reach memory untranslated. The GPUs' groups tell the effect; where they do not, the arguments."""
    types = facts["iommu"]["types"]
    if types:
        return types == ["identity"]
    if facts["iommu"]["active"] is False:
        return True
    given = X86_IOMMU if arch != "aarch64" else ARM_IOMMU
    for argument in given:
        key, wanted = argument.split("=", 1)
        if wanted in (boot.value(args, key) or "").split(","):
            return True
    return False


def assess_reboot_due(findings: Findings, host: dict[str, Any]) -> None:
    """Every reason at once. The hint file alone proves nothing by its absence (C22)."""
    facts = host["reboot"]
    reasons: list[str] = []
    evidence: list[Evidence] = []
    unread: list[Unknown] = []
    coming = facts["next_kernel"]
    if isinstance(coming, Unknown):
        unread.append(coming)
    else:
        evidence.append(Evidence(facts["next_kernel_how"] or "/boot", f"next {coming}"))
        if coming != host["kernel"]:
            reasons.append(f"kernel {host['kernel']} runs and {coming} boots next")
    loaded, on_disk = facts["driver_loaded"], facts["driver_on_disk"]
    if isinstance(loaded, Unknown):
        unread.append(loaded)
    elif isinstance(loaded, str):
        evidence.append(Evidence("/sys/module/nvidia/version", loaded))
        if isinstance(on_disk, str) and on_disk != loaded:
            reasons.append(f"driver {loaded} is loaded and {on_disk} is on disk")
        elif not isinstance(on_disk, str):
            unread.append(on_disk if isinstance(on_disk, Unknown) else Unknown("modinfo knows no nvidia module"))
    if facts["hint"]:
        told = f" (for {', '.join(facts['packages'])})" if facts["packages"] else ""
        reasons.append(f"the system asks for a reboot{told}")
        evidence.append(Evidence(facts["hint"], ", ".join(facts["packages"])))
    args = host["boot"]["arguments"]
    if isinstance(args, list):
        reasons += [
            f"boot argument {argument} is configured and not in effect"
            for argument in host["boot"]["configured"]
            if argument not in args
        ]
    if reasons:
        findings.warned(
            "reboot_due", f"A reboot is due: {'; '.join(reasons)}.", observed=reasons, required=[], evidence=evidence
        )
    elif unread:
        findings.unknown("reboot_due", unread[0], required=[])
    else:
        findings.passed("reboot_due", "The next boot would bring what runs now.", [], [], evidence)
