# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the engine gives GPUs to a container: the toolkit, the runtime, and the device specification (CDI)."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns._container_engine import differences
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
    version_tuple,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.cdi import GPU_KIND
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.container_engine import (
    ANSWERING,
    DAEMON_JSON,
)

# First versions that read a CDI specification of format 0.7. Source: facts 1.48.
CDI_FORMAT = (0, 7)
CDI_FORMAT_ENGINES = {"docker": (26, 1), "podman": (5, 1), "containerd": (1, 7, 16)}
CONFIGURE = "nvidia-ctk runtime configure --runtime=docker"
RUNTIME_REQUIRED = "the NVIDIA Container Toolkit, and an engine that uses it"


def assess_gpu_runtime(findings: Findings, container: dict[str, Any]) -> None:
    """C39: the toolkit may be there and the running engine not know of it. A driver problem is not implied."""
    engine, toolkit = container["engine"], container["toolkit"]
    version = toolkit["version"]
    observed = {"toolkit": version, "packages": toolkit["packages"], "engine": engine["name"]}
    evidence = [Evidence("nvidia-ctk --version", "" if isinstance(version, Unknown) else str(version))]
    name = "gpu_runtime"
    if version is None:
        findings.failed(
            name, "The NVIDIA Container Toolkit is not installed.", observed, RUNTIME_REQUIRED, Evidence("nvidia-ctk")
        )
        return
    for unread in (version, engine.get("state"), engine.get("runtimes"), container["cdi"]):
        if isinstance(unread, Unknown):
            findings.unknown(name, unread, observed, RUNTIME_REQUIRED)
            return
    if engine["name"] is None or engine["state"] != ANSWERING:
        said = f"{engine['name']} does not answer" if engine["name"] else "no container engine is installed"
        findings.unknown(name, f"{said}, so what it knows of GPUs cannot be read", observed, RUNTIME_REQUIRED)
        return
    observed["runtimes"] = sorted(engine["runtimes"])
    observed["cdi"] = bool(engine["cdi_dirs"])
    if engine["name"] == "docker":
        trouble = _docker_trouble(container)
        if trouble is not None:
            reason, remedy = trouble
            findings.failed(
                name,
                reason,
                observed,
                RUNTIME_REQUIRED,
                [Evidence("docker info", f"Runtimes: {', '.join(observed['runtimes'])}"), *evidence],
                remedy,
            )
            return
    elif engine["name"] == "podman" and not container["cdi"]:
        findings.failed(
            name,
            f"podman takes GPUs from a CDI specification, and there is none of {GPU_KIND}.",
            observed,
            RUNTIME_REQUIRED,
            evidence,
            Remedy("Write the specification.", command="nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml"),
        )
        return
    versions = set(toolkit["packages"].values())
    if len(versions) > 1:
        findings.warned(
            name,
            f"The packages of the NVIDIA Container Toolkit are of {len(versions)} versions: "
            f"{', '.join(f'{key} {value}' for key, value in sorted(toolkit['packages'].items()))}.",
            observed,
            RUNTIME_REQUIRED,
            evidence,
            Remedy("Bring the toolkit's packages to one version, and pin them together."),
        )
        return
    findings.passed(
        name, f"{engine['name']} gives GPUs to containers by toolkit {version}.", observed, RUNTIME_REQUIRED, evidence
    )


def _docker_trouble(container: dict[str, Any]) -> tuple[str, Remedy] | None:
    """What keeps this docker from giving GPUs to a container, and its cure; None where nothing does."""
    engine = container["engine"]
    if "nvidia" in engine["runtimes"]:
        if container["runtime_there"] is False:
            path = engine["runtimes"]["nvidia"]
            return (
                f"docker's nvidia runtime is {path}, which does not exist.",
                Remedy("Register the toolkit's runtime anew and restart docker.", "restart", CONFIGURE),
            )
        return None
    if engine["cdi_dirs"] and container["cdi"]:
        return None
    if {"runtimes", "features.cdi"} & set(differences(engine)):
        return (
            f"{DAEMON_JSON} has the GPU runtime, and the running docker does not know it: a restart is due.",
            Remedy("Restart docker; without live-restore that stops its containers.", "restart"),
        )
    cdi = f"CDI is on, but no specification of {GPU_KIND} is there" if engine["cdi_dirs"] else "CDI is off"
    return (
        f"docker knows no nvidia runtime and {cdi}.",
        Remedy("Register the toolkit's runtime, then restart docker.", "restart", CONFIGURE),
    )


def assess_cdi(findings: Findings, container: dict[str, Any]) -> None:
    """C41: a specification names libraries by their whole version, and so is stale after every driver change."""
    specs, engine, driver = container["cdi"], container["engine"], container["driver"]
    name, required = (
        "cdi",
        f"the loaded driver's version ({driver})" if isinstance(driver, str) else "one that is current",
    )
    if isinstance(specs, Unknown):
        findings.unknown(name, specs, required=required)
        return
    observed = [{key: spec[key] for key in ("path", "versions", "devices", "format")} for spec in specs]
    if not specs:
        _assess_no_spec(findings, engine)
        return
    evidence = [Evidence(spec["path"], ", ".join(spec["versions"]) or "names no driver library") for spec in specs]
    if isinstance(driver, Unknown) or driver is None:
        why = driver.reason if isinstance(driver, Unknown) else "no driver is loaded"
        findings.unknown(name, f"what the specification should name is not known: {why}", observed, required, evidence)
        return
    stale = [spec for spec in specs if any(version != driver for version in spec["versions"])]
    if stale:
        wrong = ", ".join(version for version in stale[0]["versions"] if version != driver)
        findings.failed(
            name,
            f"{stale[0]['path']} names libraries of driver {wrong}, and {driver} is loaded: containers will not start.",
            observed,
            required,
            evidence,
            _renew(specs, stale),
        )
        return
    silent = next((spec for spec in specs if not spec["versions"]), None)
    if silent is not None:
        findings.unknown(name, f"{silent['path']} names no driver library", observed, required, evidence)
        return
    _assess_current(findings, container, observed, required, evidence)


def _assess_no_spec(findings: Findings, engine: dict[str, Any]) -> None:
    """Without a specification it depends on how this engine takes its GPUs."""
    if engine["name"] == "docker" and isinstance(engine["runtimes"], dict) and "nvidia" in engine["runtimes"]:
        findings.not_applicable("cdi", "docker takes GPUs by its nvidia runtime, and there is no CDI specification", [])
    elif engine["name"] == "containerd":
        findings.not_applicable("cdi", "nerdctl takes GPUs by --gpus, and there is no CDI specification", [])
    elif engine["name"] is None or engine["state"] != ANSWERING:
        findings.unknown("cdi", "there is no specification, and no engine answers how it takes its GPUs", [])
    else:
        findings.failed(
            "cdi",
            f"There is no CDI specification of {GPU_KIND}, and {engine['name']} has no other way to a GPU.",
            [],
            f"a specification of {GPU_KIND}",
            Evidence(", ".join(engine["cdi_dirs"]) or "/etc/cdi, /var/run/cdi", "no such file"),
        )


def _assess_current(
    findings: Findings, container: dict[str, Any], observed: Any, required: str, evidence: list[Evidence]
) -> None:
    """Every specification is of the loaded driver: is there one, can the engine read it, does it have every GPU?"""
    specs, engine, gpus = container["cdi"], container["engine"], container["gpus"]
    folders = [spec["folder"] for spec in specs]
    name = "cdi"
    if len(set(folders)) < len(folders):
        findings.failed(
            name,
            f"{len(specs)} specifications in one folder define {GPU_KIND}, so none of its devices can be resolved.",
            observed,
            required,
            evidence,
            Remedy(f"Remove all but one of {', '.join(spec['path'] for spec in specs)}."),
        )
        return
    written = max((version_tuple(spec["format"]) or (0,) for spec in specs), default=(0,))
    least = CDI_FORMAT_ENGINES.get(engine["name"] or "")
    running = version_tuple((engine.get("version") or "").split("-")[0].split("+")[0].split("~")[0])
    if written >= CDI_FORMAT and least and running and running < least and "nvidia" not in (engine["runtimes"] or {}):
        findings.failed(
            name,
            f"{engine['name']} {engine['version']} cannot read a CDI specification of format "
            f"{'.'.join(str(number) for number in written)}.",
            observed,
            f"{engine['name']} {'.'.join(str(number) for number in least)} or newer",
            evidence,
            Remedy(f"Upgrade {engine['name']}.", "restart"),
        )
        return
    short = [spec for spec in specs if isinstance(gpus, int) and 0 < spec["devices"] < gpus]
    if short:
        findings.warned(
            name,
            f"{short[0]['path']} has {short[0]['devices']} GPUs, and the PCI bus shows {gpus}.",
            observed,
            required,
            evidence,
        )
    elif len(specs) > 1:
        findings.warned(
            name,
            f"{len(specs)} specifications define {GPU_KIND}; both are current today, and one will go stale first.",
            observed,
            required,
            evidence,
            Remedy(f"Remove {specs[0]['path']} where nvidia-cdi-refresh keeps the other one."),
        )
    else:
        findings.passed(name, f"{specs[0]['path']} is of the loaded driver.", observed, required, evidence)


def _renew(specs: list[dict[str, Any]], stale: list[dict[str, Any]]) -> Remedy:
    """Write a stale specification anew where it stands; one that only doubles a current one goes."""
    path = stale[0]["path"]
    if len(stale) < len(specs):
        return Remedy(f"Remove {path}: another specification is current.")
    if len(specs) > 1:
        return Remedy(f"Write {specs[-1]['path']} anew with nvidia-ctk cdi generate, and remove the others.")
    return Remedy("Write the specification anew.", command=f"nvidia-ctk cdi generate --output={path}")
