# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The host as a system: its owners, architecture, OS, Python, SELinux, memory, clock and uptime."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.host import OS_REQUIRED
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._host_boot import coherent
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.ownership import PARTS

# What the roles manage: ID of os-release, and its releases (of Red Hat's kin the major number). Source: facts 1.12.
EL = ("rhel", "rocky", "almalinux", "ol", "centos")
MANAGED = {"ubuntu": ("22.04", "24.04", "26.04"), "debian": ("12", "13"), "amzn": ("2023",)}
EL_RELEASES = ("9", "10")
# Managed by their vendor's own packages. Source: facts 1.26, 1.28.
ELSEWHERE = {"azurelinux": "Azure Linux", "mariner": "Azure Linux"}
DGX_RELEASE = "/etc/dgx-release"
OS_FILES = ("/etc/os-release", "/usr/lib/os-release")
ARCHITECTURES = ("x86_64", "aarch64")
PYTHON_MIN = (3, 9)
NODES = "/sys/devices/system/node"
# peers 2.17: seen on Blackwell HGX.
UPTIME_PRODUCTS = ("b200", "b300")
GIB = 1 << 30
DAY = 86400
CHRONY = ["chronyc", "-n", "tracking"]
TIMEDATE = ["timedatectl", "show", "-p", "NTPSynchronized"]


# ---- reading -------------------------------------------------------------------------------------------------------


def read_os(node: Node) -> dict[str, Any] | Unknown:
    """``{"id", "version", "name", "dgx", "source"}`` of os-release."""
    for path in OS_FILES:
        text = node.read(path, 65536)
        if isinstance(text, Unknown):
            return text
        if text is None:
            continue
        values = dict(re.findall(r"(?m)^([A-Z_]+)=[\"']?([^\"'\n]*)", text))
        if not values.get("ID"):
            return Unknown(f"{path} tells no ID", path)
        return {
            "id": values["ID"].lower(),
            "version": values.get("VERSION_ID", ""),
            "name": values.get("PRETTY_NAME", values["ID"]),
            "dgx": node.exists(DGX_RELEASE) is True,
            "source": path,
        }
    return Unknown("this node has no os-release", OS_FILES[0])


def read_selinux(node: Node) -> str | Unknown:
    """``enforcing``, ``permissive``, or ``off`` where the kernel has no SELinux."""
    path = "/sys/fs/selinux/enforce"
    told = node.value(path)
    if told is None:
        return "off"
    if isinstance(told, Unknown):
        return told
    return {"1": "enforcing", "0": "permissive"}.get(told) or Unknown(f"{path} reads {told!r:.40}", path)


def read_memory(node: Node) -> dict[str, Any]:
    """``{"total": bytes, "cpuless": [NUMA nodes that have memory and no processor]}``, each possibly Unknown."""
    text = node.read("/proc/meminfo", 65536)
    match = re.search(r"(?m)^MemTotal:\s+(\d{1,15}) kB", text) if isinstance(text, str) else None
    total: Any = int(match.group(1)) * 1024 if match else text
    if not isinstance(total, (int, Unknown)):
        total = Unknown("/proc/meminfo tells no MemTotal", "/proc/meminfo")
    with_memory, with_cpu = _numbers(node, f"{NODES}/has_memory"), _numbers(node, f"{NODES}/has_cpu")
    cpuless: Any = []
    if isinstance(with_memory, Unknown) or isinstance(with_cpu, Unknown):
        cpuless = with_memory if isinstance(with_memory, Unknown) else with_cpu
    elif with_memory is not None and with_cpu is not None:
        cpuless = sorted(with_memory - with_cpu)
    # A kernel without NUMA has neither file, and no node that GPU memory could be.
    return {"total": total, "cpuless": cpuless}


def _numbers(node: Node, path: str) -> set[int] | Unknown | None:
    """A kernel list such as ``0-1,10`` as numbers."""
    told = node.value(path)
    if not isinstance(told, str):
        return told
    numbers: set[int] = set()
    for part in told.split(","):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if match is None:
            return Unknown(f"{path} reads {told!r:.60}", path)
        numbers |= set(range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1))
    return numbers


def read_clock(node: Node) -> dict[str, Any]:
    """``{"synchronised": bool or Unknown, "source"}``.

    systemd looks at a flag of the kernel, which chrony leaves alone without its rtcsync: chrony is asked about its no.
    """
    result = node.run(TIMEDATE)
    told = re.search(r"(?m)^NTPSynchronized=(yes|no)\s*$", result.stdout) if result.ok else None
    if told and told.group(1) == "yes":
        return {"synchronised": True, "source": result.source}
    chrony = node.run(CHRONY)
    leap = re.search(r"(?m)^Leap status\s*:\s*(.+?)\s*$", chrony.stdout) if chrony.ok else None
    if leap:
        return {"synchronised": leap.group(1) != "Not synchronised", "source": chrony.source}
    if told:
        return {"synchronised": False, "source": result.source}
    why = result.unknown() if not result.ok else Unknown(f"`{result.source}` did not tell NTPSynchronized")
    return {"synchronised": why, "source": result.source}


def read_uptime(node: Node) -> float | Unknown:
    """Seconds since the boot."""
    told = node.value("/proc/uptime")
    match = re.match(r"(\d{1,12}(?:\.\d{1,6})?)\s", told + " ") if isinstance(told, str) else None
    if match:
        return float(match.group(1))
    return told if isinstance(told, Unknown) else Unknown("/proc/uptime tells no time", "/proc/uptime")


# ---- judging -------------------------------------------------------------------------------------------------------


def assess_managed_by(findings: Findings, owners: Any) -> None:
    required = "nobody else, or known who"
    if not isinstance(owners, dict):
        why = owners if isinstance(owners, Unknown) else Unknown("nobody looked for other owners of this node")
        findings.unknown("managed_by", why, required=required)
        return
    parts = {part: owners.get(part) for part in PARTS}
    schedulers = owners.get("schedulers")
    foreign: dict[str, list[str]] = {}
    for part, owner in parts.items():
        if isinstance(owner, str):
            foreign.setdefault(owner, []).append(part)
    running = schedulers if isinstance(schedulers, list) else []
    observed = {"schedulers": schedulers, **parts}
    said = [f"{owner} manages {' and '.join(owned)}" for owner, owned in foreign.items()]
    said += [f"{name} schedules work here" for name in running]
    evidence = [Evidence("files of other owners", text) for text in said]
    if said:
        action = "; ".join(
            [f"Have changes to {' and '.join(owned)} made through {owner}" for owner, owned in foreign.items()]
            + [f"Drain the node in {name} before anything is changed on it" for name in running]
        )
        findings.warned(
            "managed_by", f"{'; '.join(said)}.", observed, required, evidence, Remedy(f"{action}.", "drain")
        )
        return
    if not isinstance(schedulers, (list, Unknown)):
        schedulers = Unknown("nobody looked for schedulers on this node")
    for unread in (*parts.values(), schedulers):
        if isinstance(unread, Unknown):
            findings.unknown("managed_by", unread, observed, required)
            return
    findings.passed("managed_by", "Nothing else manages this node.", observed, required)


def assess_arch(findings: Findings, host: dict[str, Any]) -> None:
    arch, gpus = host["arch"], host["gpus"]
    evidence = Evidence("/proc/sys/kernel/arch", arch)
    required = "x86_64 or aarch64"
    if arch not in ARCHITECTURES:
        findings.failed("arch", f"The image has no build for {arch}.", arch, required, evidence)
        return
    # Only of Grace superchips does the table know that their processor is always Arm.
    if coherent(gpus) and arch != "aarch64":
        names = ", ".join(str(kind["product"]) for kind in gpus if kind["form"])
        findings.failed(
            "arch",
            f"The PCI bus shows {names}, which comes with an Arm processor, and the kernel says {arch}.",
            arch,
            "aarch64",
            evidence,
        )
        return
    findings.passed("arch", f"The architecture is {arch}.", arch, required, evidence)


def assess_os(findings: Findings, host: dict[str, Any]) -> None:
    found = host["os"]
    if isinstance(found, Unknown):
        findings.unknown("os", found, required=OS_REQUIRED)
        return
    identity, version, name = found["id"], found["version"], found["name"]
    evidence = Evidence(found["source"], f"ID={identity} VERSION_ID={version}")
    observed = {"id": identity, "version": version, "name": name}
    major = version.split(".", 1)[0]
    if identity in EL and major.isascii() and major.isdigit() and int(major) <= 8:
        findings.failed(
            "os",
            f"{name} is refused: its dnf speaks only to Python 3.6, which ansible-core of today no longer runs on.",
            observed,
            OS_REQUIRED,
            evidence,
        )
    elif found["dgx"] or identity in ELSEWHERE:
        vendor = "DGX OS" if found["dgx"] else ELSEWHERE[identity]
        findings.warned(
            "os",
            f"{name} is {vendor}, whose vendor manages driver and fabric by its own packages; the roles do not.",
            observed,
            OS_REQUIRED,
            evidence,
        )
    elif (identity in EL and major in EL_RELEASES) or version in MANAGED.get(identity, ()):
        findings.passed("os", f"The roles manage {name}.", observed, OS_REQUIRED, evidence)
    else:
        findings.warned(
            "os", f"The roles do not manage {name}; the other checks still answer.", observed, OS_REQUIRED, evidence
        )


def assess_python(findings: Findings, host: dict[str, Any]) -> None:
    version = host["python"]
    shown = ".".join(str(number) for number in version)
    evidence = Evidence(host["interpreter"] or "sys.version_info", shown)
    if tuple(version[:2]) >= PYTHON_MIN:
        findings.passed("python", f"Python {shown} runs the modules.", shown, "3.9 or newer", evidence)
    else:
        findings.failed("python", f"Python {shown} is older than 3.9.", shown, "3.9 or newer", evidence)


def assess_selinux(findings: Findings, host: dict[str, Any], container: Any) -> None:
    mode = host["selinux"]
    required = "not in the way of GPU devices"
    if isinstance(mode, Unknown):
        findings.unknown("selinux", mode, required=required)
        return
    evidence = Evidence("/sys/fs/selinux/enforce", mode)
    engine = container.get("engine") if isinstance(container, dict) else None
    labels = engine.get("labels") if isinstance(engine, dict) else None
    if mode != "enforcing":
        findings.passed("selinux", f"SELinux is {mode}.", mode, required, evidence)
    elif labels is False:
        findings.passed("selinux", "SELinux is enforcing, but not for containers.", mode, required, evidence)
    else:
        findings.warned(
            "selinux",
            "SELinux is enforcing: a container with GPU devices by CDI starts only with --security-opt label=disable.",
            mode,
            required,
            evidence,
        )


def assess_memory(findings: Findings, host: dict[str, Any], require: dict[str, Any]) -> None:
    total, cpuless = host["memory"]["total"], host["memory"]["cpuless"]
    least = require["host_memory_min_gib"]
    grace = coherent(host["gpus"])
    if isinstance(total, Unknown):
        findings.unknown("memory", total, required=least)
        return
    evidence = [Evidence("/proc/meminfo", f"MemTotal {total // 1024} kB")]
    observed = {"gib": total // GIB, "gpu_numa_nodes": cpuless if grace else []}
    if grace and cpuless:
        shown = ", ".join(str(number) for number in cpuless)
        findings.warned(
            "memory",
            f"GPU memory appears as NUMA node {shown} of the host, where the page cache can take it from the model.",
            observed,
            least,
            [*evidence, Evidence(f"{NODES}/has_memory", f"without processor: {shown}")],
        )
    elif total < least * GIB:
        findings.warned(
            "memory",
            f"The host has {total // GIB} GiB of memory, less than {least} GiB (a figure of this collection, no source "
            "names one).",
            observed,
            least,
            evidence,
            Remedy("Check in the machine's event log whether a memory module is missing."),
        )
    elif grace and isinstance(cpuless, Unknown):
        findings.unknown("memory", cpuless, observed, least)
    else:
        findings.passed("memory", f"The host has {total // GIB} GiB of memory.", observed, least, evidence)


def assess_clock(findings: Findings, host: dict[str, Any]) -> None:
    synchronised, source = host["clock"]["synchronised"], host["clock"]["source"]
    if isinstance(synchronised, Unknown):
        findings.unknown("clock", synchronised, required="synchronised")
    elif synchronised:
        findings.passed("clock", "The clock is synchronised.", True, "synchronised", Evidence(source, "yes"))
    else:
        findings.warned(
            "clock",
            "The clock is not synchronised, so the first error among several nodes cannot be told by its time.",
            False,
            "synchronised",
            Evidence(source, "no"),
        )


def assess_uptime(findings: Findings, host: dict[str, Any], require: dict[str, Any]) -> None:
    seconds, gpus, most = host["uptime_s"], host["gpus"], require["host_uptime_max_days"]
    if isinstance(seconds, Unknown):
        findings.unknown("uptime", seconds, required=most)
        return
    days = int(seconds // DAY)
    evidence = Evidence("/proc/uptime", f"{seconds:.0f} s")
    if isinstance(gpus, Unknown):
        if days >= most:
            findings.unknown(
                "uptime", f"up for {days} days, and the GPUs are not known: {gpus.reason}", days, most, evidence
            )
            return
        gpus = []
    affected = sorted({kind["product"] for kind in gpus if kind["product"] in UPTIME_PRODUCTS})
    if affected and days >= most:
        findings.warned(
            "uptime",
            f"This node is up for {days} days; NVLink of {affected[0].upper()} was seen to hang after about 60.",
            days,
            most,
            evidence,
        )
    else:
        findings.passed("uptime", f"This node is up for {days} days.", days, most if affected else None, evidence)
