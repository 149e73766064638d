# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The container engine of this node: which one, whether it answers, and what it says of itself.

One question to the one engine: `docker info`, `podman --version` or `ctr version`. `podman info` is not asked, because
its first run makes the store.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node, Result
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import systemd

DOCKER = ["docker", "info", "--format", "{{json .}}"]
PODMAN = ["podman", "--version"]
CTR = ["ctr", "version"]
DAEMON_JSON = "/etc/docker/daemon.json"
# What of it is looked at; proxies and registries, which may carry passwords, stay where they are.
CONFIG_KEYS = ("data-root", "default-runtime", "default-ulimits", "exec-opts", "features", "live-restore", "runtimes")
DOCKER_ROOT = "/var/lib/docker"
SOCKET = "/var/run/docker.sock"
CLIENT_CONFIG = "~/.docker/config.json"
# containerd as docker starts it by itself keeps its data below docker's own root.
OWN_CONTAINERD = "/run/docker/containerd/"

# States of an engine.
ANSWERING = "answering"
STOPPED = "stopped"


def find(node: Node) -> dict[str, Any]:
    """The engine that `container_engine` of the contract names (auto: docker, else podman, else containerd).

    ``{"name": None}`` where none is installed; else ``name``, ``state`` (answering, stopped or Unknown), ``detail``,
    ``source``, ``version``, ``unit``, ``roots`` (folders with images), ``runtimes``, ``cdi_dirs``, ``labels`` (it sets
    SELinux labels), ``rootless`` and, of docker, ``context``, ``config`` and what else docker says.
    """

    def load() -> dict[str, Any]:
        wanted = node.require.get("container_engine", "auto")
        for name, read in (("docker", _docker), ("podman", _podman), ("containerd", _containerd)):
            if wanted in ("auto", name):
                found = read(node)
                if found is not None:
                    return found
        return {"name": None, "wanted": wanted}

    return node.once("container engine", load)


def _engine(name: str, state: Any, **more: Any) -> dict[str, Any]:
    """The keys every engine has, with values of one that does not do these things."""
    plain: dict[str, Any] = {
        "name": name,
        "state": state,
        "detail": "",
        "source": "",
        "version": None,
        "unit": None,
        "roots": [],
        "runtimes": {},
        "cdi_dirs": ["/etc/cdi", "/var/run/cdi"],
        "labels": False,
        "rootless": False,
        "config": None,
    }
    return {**plain, **more}


# ---- docker --------------------------------------------------------------------------------------------------------


def _docker(node: Node) -> dict[str, Any] | None:
    unit = systemd.unit(node, "docker.service")
    config = daemon_json(node)
    root = _configured_root(config)
    base: dict[str, Any] = {"unit": unit, "config": config, "source": "docker info", "roots": [root], "cdi_dirs": []}
    if isinstance(unit, dict) and unit["LoadState"] == "loaded" and unit["ActiveState"] in ("inactive", "failed"):
        # Asking a stopped docker would start it through its socket, and the probe changes nothing.
        detail = f"docker.service is {unit['ActiveState']}"
        return _engine("docker", STOPPED, **{**base, "source": "systemctl show docker.service", "detail": detail})
    if not _listens(node, unit):
        if node.find(DOCKER[0]) is None:
            return None
        return _engine("docker", STOPPED, **{**base, "source": SOCKET, "detail": f"there is no {SOCKET}"})
    result = node.run(DOCKER)
    if result.error == "missing":
        return None
    if result.error:
        return _engine("docker", result.unknown(), **base)
    answer = _object(result.stdout)
    if answer is not None and "host" in answer and "store" in answer and "ServerVersion" not in answer:
        return None  # podman answers under docker's name
    version = _text(answer, "ServerVersion")
    if answer is None or not version:
        errors = " ".join(str(item) for item in _list(answer or {}, "ServerErrors"))
        state, detail = _no_answer(node, result, f"{result.stderr} {errors}")
        return _engine("docker", state, **{**base, "detail": detail})
    return _engine("docker", ANSWERING, **{**base, "version": version, **_told(answer, root)})


def _listens(node: Node, unit: dict[str, str] | Unknown) -> bool:
    """Whether a docker could answer: asking one that certainly does not run is the dearest command of the probe.

    Without the daemon's socket only another context of the client (a rootless daemon, another host) could answer.
    """
    if isinstance(unit, dict) and unit["ActiveState"] == "active":
        return True
    if node.exists(SOCKET) is not False or node.exists(os.path.expanduser(CLIENT_CONFIG)) is not False:
        return True
    users = node.listdir("/run/user")
    return users is not None and (
        isinstance(users, Unknown) or any(node.exists(f"/run/user/{user}/docker.sock") is not False for user in users)
    )


def _told(answer: dict[str, Any], root: str) -> dict[str, Any]:
    """What the daemon says of itself, each value in its type or None."""
    root = _text(answer, "DockerRootDir") or root
    client, containerd = answer.get("ClientInfo"), answer.get("Containerd")
    runtimes = answer.get("Runtimes")
    security = [item for item in _list(answer, "SecurityOptions") if isinstance(item, str)]
    return {
        "roots": [root, *_containerd_root(answer, containerd, root)],
        "runtimes": {
            str(name): (value.get("path") if isinstance(value, dict) and isinstance(value.get("path"), str) else "")
            for name, value in runtimes.items()
        }
        if isinstance(runtimes, dict)
        else Unknown("docker info told no runtimes", "docker info"),
        "cdi_dirs": [path for path in _list(answer, "CDISpecDirs") if isinstance(path, str) and path.startswith("/")],
        "labels": any(item.startswith("name=selinux") for item in security),
        "rootless": any(item.startswith("name=rootless") for item in security),
        "context": _text(client, "Context") or "default",
        "host": _text(answer, "Name"),
        "default_runtime": _text(answer, "DefaultRuntime"),
        "cgroup_driver": _text(answer, "CgroupDriver"),
        "live_restore": answer.get("LiveRestoreEnabled") is True,
    }


def _containerd_root(answer: dict[str, Any], containerd: Any, root: str) -> list[str]:
    """Where images are when docker leaves them to containerd's image store, [] when it keeps them itself."""
    status = [item for item in _list(answer, "DriverStatus") if isinstance(item, list)]
    if not any("io.containerd.snapshotter" in str(value) for item in status for value in item):
        return []
    own = (_text(containerd, "Address") or "").startswith(OWN_CONTAINERD)
    return [f"{root}/containerd" if own else "/var/lib/containerd"]


def daemon_json(node: Node) -> dict[str, Any] | Unknown | None:
    """CONFIG_KEYS of docker's configuration file, None where there is none, Unknown where it is no JSON object."""
    text = node.read(DAEMON_JSON)
    if not isinstance(text, str):
        return text
    if not text.strip():
        return {}
    answer = _object(text)
    if answer is None:
        return Unknown(f"{DAEMON_JSON} is not a JSON object", DAEMON_JSON)
    return {key: answer[key] for key in CONFIG_KEYS if key in answer}


def _configured_root(config: Any) -> str:
    root = config.get("data-root") if isinstance(config, dict) else None
    return root if isinstance(root, str) and root.startswith("/") else DOCKER_ROOT


# ---- podman and containerd -----------------------------------------------------------------------------------------


def _podman(node: Node) -> dict[str, Any] | None:
    result = node.run(PODMAN)
    if result.error == "missing":
        return None
    version = re.search(r"version (\d[\w.-]{0,40})", result.stdout) if result.ok else None
    conf = node.read("/etc/containers/storage.conf")
    root = re.search(r"(?m)^\s*graphroot\s*=\s*\"(/[^\"\n]+)\"", conf) if isinstance(conf, str) else None
    state: Any = ANSWERING if version else result.unknown() if not result.ok else Unknown("podman told no version")
    return _engine(
        "podman",
        state,
        source=result.source,
        version=version.group(1) if version else None,
        roots=[root.group(1) if root else "/var/lib/containers/storage"],
        labels=True,
    )


def _containerd(node: Node) -> dict[str, Any] | None:
    unit = systemd.unit(node, "containerd.service")
    result = node.run(CTR)
    if result.error == "missing":
        return None
    base = {"unit": unit, "source": result.source, "roots": ["/var/lib/containerd"]}
    server = re.search(r"Server:\s*\n\s*Version:\s*v?(\d[\w.~+-]{0,40})", result.stdout) if result.ok else None
    if server:
        return _engine("containerd", ANSWERING, **{**base, "version": server.group(1)})
    if result.error:
        return _engine("containerd", result.unknown(), **base)
    state, detail = _no_answer(node, result, result.stderr)
    return _engine("containerd", state, **{**base, "detail": detail})


# ---- words and types -----------------------------------------------------------------------------------------------


def _no_answer(node: Node, result: Result, said: str) -> tuple[Any, str]:
    """(state, detail) of an engine whose client ran and got no answer: not allowed to ask, or nobody there."""
    said = " ".join(said.split())[:300]
    lower = said.lower()
    if "permission denied" in lower:
        return (Unknown("needs root", result.source) if not node.is_root() else Unknown(said, result.source)), said
    if "cannot connect" in lower or "no such file or directory" in lower or "connection refused" in lower:
        return STOPPED, said
    return Unknown(f"`{result.source}` ended with {result.rc} and said: {said or 'nothing'}", result.source), said


def _object(text: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _text(mapping: Any, key: str) -> str | None:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if isinstance(value, str) and value else None


def _list(mapping: dict[str, Any], key: str) -> list[Any]:
    value = mapping.get(key)
    return value if isinstance(value, list) else []
