# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A fleet behind a real sshd, and Ansible to discover it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.inventory.gpu_fabric import DOCUMENTATION
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.addresses import Book
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.fleet import discover as discover_all
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.options import NAMES
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.options import options as checked
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.reading import read
from ansible_collections.gpufleet.kimi_k3.tests.discovery import fleet
from ansible_collections.gpufleet.kimi_k3.tests.discovery.servers import Made, Servers, missing
from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import ROOT

ODD_NET, PASSWORD_NET = "127.77.100", "127.79.0"


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The racks on 127.77.RACK.TRAY, the odd nodes on 127.77.100.N, and a tray that takes passwords on 127.79.0.1."""
    why = missing()
    if why:
        unavailable(why)
    nodes = {f"rack{rack}": Made(fleet.rack_profile(rack)) for rack in range(fleet.RACKS)}
    nodes.update(fleet.odd_nodes())
    addresses = {address: f"rack{int(address.split('.')[2])}" for address in fleet.rack_hosts().values()}
    addresses.update({odd_address(name): name for name in fleet.odd_nodes()})
    addresses[f"{PASSWORD_NET}.1"] = "rack0"
    with tempfile.TemporaryDirectory(prefix="gpu-fabric-") as folder, Servers(Path(folder), nodes, addresses) as made:
        yield made


def unavailable(why: str) -> NoReturn:
    """What a test needs is not here: skipped, but CI is where everything must have run."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def odd_address(name: str) -> str:
    """Where an odd node answers."""
    return f"{ODD_NET}.{list(fleet.odd_nodes()).index(name) + 1}"


@dataclass
class Discovered:
    """What ansible-inventory answered: its exit status, the inventory, and what it said beside that."""

    rc: int
    inventory: dict[str, Any]
    said: str

    def hosts(self, group: str) -> list[str]:
        """The hosts that stand in a group themselves."""
        return sorted(self.inventory.get(group, {}).get("hosts", []))

    def variables(self, host: str) -> dict[str, Any]:
        """The variables of a host."""
        return dict(self.inventory["_meta"]["hostvars"].get(host, {}))


def configure(
    folder: Path,
    servers: Servers,
    hosts: Mapping[str, str],
    options: Mapping[str, Any] | None = None,
    known: str | None = None,
) -> Path:
    """A configuration in ``folder`` that reaches these hosts by key, with their host keys known; None drops an option."""
    ssh = "".join(f"Host {name}\n  HostName {address}\n" for name, address in hosts.items())
    (folder / "ssh_config").write_text(f"{ssh}Host *\n  ServerAliveInterval 15\n", encoding="utf-8")
    lines = "".join(f"[{address}]:{servers.port} {servers.host_key}\n" for address in hosts.values())
    (folder / "known_hosts").write_text(lines if known is None else known, encoding="utf-8")
    config = {
        "plugin": "gpufleet.kimi_k3.gpu_fabric",
        "hosts": list(hosts),
        "user": "root",
        "port": servers.port,
        "private_key_file": str(servers.folder / "user_key"),
        "use_agent": False,
        "ssh_config_file": "ssh_config",
        "known_hosts_files": ["known_hosts"],
        **(options or {}),
    }
    path = folder / "test.gpu_fabric.yml"
    kept = {name: value for name, value in config.items() if value is not None}
    path.write_text(yaml.safe_dump(kept), encoding="utf-8")
    return path


def run_inventory(
    path: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """ansible-inventory as a user runs it, without what this user keeps for other projects."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GPU_FABRIC_"))
    }
    environment.pop("SSH_AUTH_SOCK", None)
    environment.update({"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "HOME": str(path.parent), **(env or {})})
    return subprocess.run(
        [str(Path(sys.executable).parent / "ansible-inventory"), "-i", str(path), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
        timeout=300,
    )


def listed(path: Path, env: Mapping[str, str] | None = None) -> Discovered:
    """What Ansible makes of a configuration."""
    done = run_inventory(path, "--list", env=env)
    found = json.loads(done.stdout) if done.returncode == 0 else {}
    return Discovered(done.returncode, found, " ".join(done.stderr.split()))


@pytest.fixture
def ask(write_config: Callable[..., Path]) -> Callable[..., dict[str, Any]]:
    """ask({host: address}, options, known): the hosts' answers, over the same connections without Ansible around them."""

    def run(*arguments: Any) -> dict[str, Any]:
        path = write_config(*arguments)
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        documented = yaml.safe_load(DOCUMENTATION)["options"]
        wanted = checked({name: given.get(name, documented[name].get("default")) for name in NAMES}, path.parent)
        book = Book(wanted)
        addresses = {host.name: book.address(host) for host in wanted.hosts}
        return discover_all(addresses, read, wanted.limits, wanted.workers, wanted.discovery_timeout)

    return run


@pytest.fixture
def write_config(tmp_path: Path, servers: Servers) -> Callable[..., Path]:
    """write_config({host: address}, options, known): see configure()."""
    return partial(configure, tmp_path, servers)


@pytest.fixture
def discover(write_config: Callable[..., Path]) -> Callable[..., Discovered]:
    """discover({host: address}, options, known, env=…): what Ansible makes of it."""

    def run(*arguments: Any, env: Mapping[str, str] | None = None) -> Discovered:
        return listed(write_config(*arguments), env)

    return run


def plain(value: Any) -> Any:
    """A value of ansible-inventory, which marks texts that are not templates."""
    if isinstance(value, dict):
        return (
            value["__ansible_unsafe"]
            if "__ansible_unsafe" in value
            else {key: plain(item) for key, item in value.items()}
        )
    return [plain(item) for item in value] if isinstance(value, list) else value
