# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The engine itself, and what it lets containers lock."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Evidence,
    Findings,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import systemd
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources.container_engine import (
    ANSWERING,
    DAEMON_JSON,
    STOPPED,
)

UNLIMITED = -1
LOCAL_SOCKETS = ("", "unix:///var/run/docker.sock", "unix:///run/docker.sock")
PODMAN_CONF = ("/etc/containers/containers.conf", "/usr/share/containers/containers.conf")
DEFAULT_LIMIT = ["systemctl", "show", "--property=DefaultLimitMEMLOCK"]


def assess_engine(findings: Findings, container: dict[str, Any], wanted: str) -> None:
    engine = container["engine"]
    name, required = engine["name"], "an engine that answers" if wanted == "auto" else wanted
    if name is None:
        looked = "docker, podman and containerd are not installed" if wanted == "auto" else f"{wanted} is not installed"
        findings.failed("engine", f"There is nothing to run the image with: {looked}.", None, required)
        return
    observed = {
        "name": name,
        "version": engine["version"],
        "cgroup_driver": engine.get("cgroup_driver"),
        "live_restore": engine.get("live_restore"),
    }
    evidence = Evidence(engine["source"], engine["detail"] or f"{name} {engine['version']}")
    if isinstance(engine["state"], Unknown):
        findings.unknown("engine", engine["state"], observed, required)
    elif engine["state"] == STOPPED:
        unit = "docker" if name == "docker" else "containerd"
        findings.failed(
            "engine",
            f"{name} is installed and does not run: {engine['detail'].rstrip('.?')}.",
            observed,
            required,
            evidence,
            Remedy(f"Start {name} and have it started at boot.", command=f"systemctl enable --now {unit}"),
        )
    elif name == "docker":
        _assess_docker(findings, container, observed, required, evidence)
    else:
        findings.passed("engine", f"{name} {engine['version']} answers.", observed, required, evidence)


def _assess_docker(
    findings: Findings, container: dict[str, Any], observed: Any, required: str, evidence: Evidence
) -> None:
    engine = container["engine"]
    config, unit, hostname = engine["config"], engine["unit"], container["hostname"]
    context, host = engine["context"], engine["host"]
    observed["context"] = context
    if context != "default" and host and isinstance(hostname, str) and host != hostname:
        findings.failed(
            "engine",
            f"The docker client's context {context} points at the daemon of {host}, not of this node.",
            observed,
            required,
            evidence,
            Remedy("Let the client speak to this node's daemon.", command="docker context use default"),
        )
        return
    troubles: list[tuple[str, Evidence, Remedy]] = []
    if context != "default" or container["docker_host"] not in LOCAL_SOCKETS:
        where = f"context {context}" if context != "default" else f"DOCKER_HOST={container['docker_host']}"
        troubles.append(
            (
                f"the client is pointed elsewhere by {where}",
                evidence if context != "default" else Evidence("/etc/environment", where),
                Remedy("Let the client speak to this node's daemon: remove DOCKER_HOST and the context setting."),
            )
        )
    if isinstance(config, Unknown):
        troubles.append(
            (
                f"its next start may fail: {config.reason}",
                Evidence(DAEMON_JSON),
                Remedy(f"Correct {DAEMON_JSON}.", command="dockerd --validate --config-file=/etc/docker/daemon.json"),
            )
        )
    differing = differences(engine)
    if differing:
        troubles.append(
            (
                f"it does not run as configured, a restart is due ({', '.join(differing)})",
                Evidence(DAEMON_JSON, ", ".join(differing)),
                Remedy("Restart docker; without live-restore that stops its containers.", "restart"),
            )
        )
    if isinstance(unit, dict) and unit.get("UnitFileState") == "disabled":
        troubles.append(
            (
                "it is not started at boot",
                Evidence(systemd.SOURCE, "docker.service UnitFileState=disabled"),
                Remedy("Have docker started at boot.", command="systemctl enable docker"),
            )
        )
    if troubles:
        said = "; ".join(text for text, _evidence, _remedy in troubles)
        findings.warned(
            "engine",
            f"docker {engine['version']} answers, but {said}.",
            observed,
            required,
            [item for _text, item, _remedy in troubles],
            troubles[0][2],
        )
    else:
        findings.passed("engine", f"docker {engine['version']} answers.", observed, required, evidence)


def differences(engine: dict[str, Any]) -> list[str]:
    """The settings of daemon.json that the running docker does not have, by key."""
    config = engine["config"]
    if engine["name"] != "docker" or engine["state"] != ANSWERING or not isinstance(config, dict):
        return []
    runtimes, found = engine["runtimes"], []
    wanted = config.get("runtimes")
    if isinstance(wanted, dict) and isinstance(runtimes, dict) and set(wanted) - set(runtimes):
        found.append("runtimes")
    features = config.get("features")
    if isinstance(features, dict) and features.get("cdi") is True and not engine["cdi_dirs"]:
        found.append("features.cdi")
    for key, running in (("default-runtime", engine["default_runtime"]), ("live-restore", engine["live_restore"])):
        if key in config and running is not None and config[key] != running:
            found.append(key)
    options = config.get("exec-opts")
    driver = engine["cgroup_driver"]
    for option in options if isinstance(options, list) else []:
        if isinstance(option, str) and option.startswith("native.cgroupdriver=") and driver:
            found += [] if option.split("=", 1)[1] == driver else ["exec-opts"]
    return found


# ---- locked memory -------------------------------------------------------------------------------------------------


def read_memlock(node: Node, engine: dict[str, Any]) -> dict[str, Any]:
    """``{"bytes": limit or -1 for unlimited or Unknown, "source"}`` of a container whose start names no limit.

    The engine's default for containers counts first; else a container inherits from the daemon that starts it, which
    is containerd where that is a unit of its own. The login shell's limit says nothing (C28).
    """
    name = engine["name"]
    if name is None:
        return {"bytes": Unknown("there is no container engine"), "source": ""}
    if name == "podman":
        return _podman_memlock(node)
    told = _docker_default(node, engine) if name == "docker" else None
    if told is not None:
        return told
    why: Unknown = Unknown("no unit of the engine runs, so its limit cannot be read")
    for unit_name in ("containerd.service", "docker.service"):
        unit = systemd.unit(node, unit_name)
        if isinstance(unit, Unknown):
            why = unit
            continue
        if unit["ActiveState"] != "active":
            continue
        pid = unit.get("MainPID", "0")
        path = f"/proc/{pid}/limits"
        limits = node.read(path, 8192) if re.fullmatch(r"[1-9]\d{0,8}", pid) else None
        match = re.search(r"(?m)^Max locked memory\s+(\S+)", limits) if isinstance(limits, str) else None
        if match:
            return {"bytes": _bytes(match.group(1)), "source": f"{path} ({unit_name})"}
        if unit.get("LimitMEMLOCK"):
            return {"bytes": _bytes(unit["LimitMEMLOCK"]), "source": f"LimitMEMLOCK of {unit_name}"}
    return {"bytes": why, "source": systemd.SOURCE}


def _docker_default(node: Node, engine: dict[str, Any]) -> dict[str, Any] | None:
    """Docker's own default: from the command line it runs with, else from its configuration file."""
    unit = engine["unit"]
    pid = unit.get("MainPID", "0") if isinstance(unit, dict) else "0"
    line = node.read(f"/proc/{pid}/cmdline", 65536) if re.fullmatch(r"[1-9]\d{0,8}", pid) else None
    given = re.search(r"--default-ulimit[=\0]memlock=(-?\d{1,20})", line) if isinstance(line, str) else None
    if given:
        return {"bytes": _bytes(given.group(1)), "source": f"/proc/{pid}/cmdline"}
    config = engine["config"]
    limits = config.get("default-ulimits") if isinstance(config, dict) else None
    memlock = limits.get("memlock") if isinstance(limits, dict) else None
    soft = memlock.get("Soft", memlock.get("soft")) if isinstance(memlock, dict) else None
    return {"bytes": _bytes(str(soft)), "source": DAEMON_JSON} if soft is not None else None


def _podman_memlock(node: Node) -> dict[str, Any]:
    """Podman has no daemon: its configured default, else what systemd gives the unit that calls it."""
    for path in PODMAN_CONF:
        text = node.read(path)
        match = re.search(r"(?m)^[^#\n]*\"memlock=(-?\d{1,20})", text) if isinstance(text, str) else None
        if match:
            return {"bytes": _bytes(match.group(1)), "source": path}
    result = node.run(DEFAULT_LIMIT)
    match = re.search(r"(?m)^DefaultLimitMEMLOCK=(\S+)$", result.stdout) if result.ok else None
    if match:
        return {"bytes": _bytes(match.group(1)), "source": result.source}
    return {
        "bytes": Unknown("systemd does not tell what it lets services lock", result.source),
        "source": result.source,
    }


def _bytes(text: str) -> int | Unknown:
    if text in ("unlimited", "infinity", "-1", "18446744073709551615"):
        return UNLIMITED
    return int(text) if re.fullmatch(r"\d{1,20}", text) else Unknown(f"{text[:40]!r} is not a limit")


def assess_memlock(findings: Findings, container: dict[str, Any], least_kib: int) -> None:
    limit, source = container["memlock"]["bytes"], container["memlock"]["source"]
    required = "unlimited" if least_kib == UNLIMITED else f"{least_kib} KiB"
    if isinstance(limit, Unknown):
        findings.unknown("memlock", limit, required=required)
        return
    shown = "unlimited memory" if limit == UNLIMITED else f"{limit // 1024} KiB"
    evidence = Evidence(source, shown)
    observed = "unlimited" if limit == UNLIMITED else limit // 1024
    if limit == UNLIMITED or (least_kib != UNLIMITED and limit >= least_kib * 1024):
        findings.passed("memlock", f"A container may lock {shown}.", observed, required, evidence)
    elif container["engine"].get("rootless"):
        findings.failed(
            "memlock",
            f"A container may lock {shown}, and a docker without root cannot raise that: RDMA buffers cannot register.",
            observed,
            required,
            evidence,
        )
    else:
        findings.warned(
            "memlock",
            f"A container started without --ulimit memlock=-1 may lock {shown} only, too little for RDMA buffers.",
            observed,
            required,
            evidence,
        )
