# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a configuration file of gpu_fabric may say, checked before any host is contacted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import nearest, shown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.topology import CLUSTER_UUID
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.groups import DOMAIN_NAME
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.hosts import Host, file_patterns, hosts
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Limits

REJECT, ACCEPT_NEW = "reject", "accept_new"
POLICIES = (REJECT, ACCEPT_NEW)
# Whole numbers with their bounds; those in seconds are time limits.
NUMBERS = {
    "port": (1, 65535),
    "workers": (1, 512),
    "connect_timeout": (1, 300),
    "banner_timeout": (1, 300),
    "auth_timeout": (1, 300),
    "command_timeout": (1, 600),
    "session_timeout": (1, 3600),
    "discovery_timeout": (1, 86400),
}
TEXTS = ("user", "password", "private_key_file", "private_key_passphrase", "ssh_config_file", "hosts_file")
SECRETS = ("password", "private_key_passphrase")
# Every option of this plugin's own.
NAMES = (
    *NUMBERS,
    *TEXTS,
    "hosts",
    "use_agent",
    "known_hosts_files",
    "host_key_policy",
    "domain_names",
)
PATHS = ("hosts_file", "private_key_file", "ssh_config_file")


@dataclass(frozen=True)
class Options:
    """The options in plain types; paths are absolute. None: not given."""

    hosts: tuple[Host, ...]
    user: str | None
    port: int | None
    private_key_file: Path | None
    private_key_passphrase: str | None = field(repr=False)
    use_agent: bool
    password: str | None = field(repr=False)
    ssh_config_file: Path | None
    known_hosts_files: tuple[Path, ...]
    host_key_policy: str
    workers: int
    limits: Limits
    discovery_timeout: int
    domain_names: Mapping[str, str]


def unknown_option(given: Any, known: Iterable[str]) -> str:
    """What is wrong with the names of the options that a file gives; empty where each is known."""
    names = set(known)
    if not isinstance(given, Mapping):
        return "it is not a mapping of options; allowed: plugin, hosts and others, each with its value"
    for name in given:
        if name not in names:
            return f"there is no option {shown(name)}; {nearest(name, names)}"
    return ""


def options(values: Mapping[str, Any], folder: Path) -> Options:
    """Check the values. ``folder``: that of the configuration file, from which relative paths start.

    OptionError with option, value (never that of a secret) and what is allowed.
    """
    texts = {name: _text(name, values.get(name)) for name in TEXTS}
    numbers = {name: _number(name, values.get(name), *bounds) for name, bounds in NUMBERS.items()}
    paths = {name: _path(texts[name], folder) for name in PATHS}
    policy = values.get("host_key_policy")
    if policy not in POLICIES:
        raise OptionError(f"host_key_policy: {shown(policy)} is not allowed; allowed: {' or '.join(POLICIES)}")
    use_agent = values.get("use_agent")
    if not isinstance(use_agent, bool):
        raise OptionError(f"use_agent: {shown(use_agent)} is not allowed; allowed: true or false")
    limits = Limits(
        connect=_set(numbers, "connect_timeout"),
        banner=_set(numbers, "banner_timeout"),
        auth=_set(numbers, "auth_timeout"),
        command=_set(numbers, "command_timeout"),
        session=_set(numbers, "session_timeout"),
    )
    return Options(
        hosts=_hosts(values.get("hosts"), paths["hosts_file"]),
        user=texts["user"],
        port=numbers["port"],
        private_key_file=paths["private_key_file"],
        private_key_passphrase=texts["private_key_passphrase"],
        use_agent=use_agent,
        password=texts["password"],
        ssh_config_file=paths["ssh_config_file"],
        known_hosts_files=_files(values.get("known_hosts_files"), folder),
        host_key_policy=policy,
        workers=_set(numbers, "workers"),
        limits=limits,
        discovery_timeout=_set(numbers, "discovery_timeout"),
        domain_names=_domain_names(values.get("domain_names")),
    )


def _text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if name in SECRETS and not isinstance(value, (str, int, float, list, Mapping)):
        # What Ansible Vault encrypted is a text once one asks for it.
        value = str(value)
    told = "the given value" if name in SECRETS else shown(value)
    if not isinstance(value, str) or not value or (name not in SECRETS and not value.isprintable()):
        raise OptionError(f"{name}: {told} is not allowed; allowed: a text of one line, quoted where it is a number")
    if name == "user" and (value != value.strip() or " " in value or value.startswith("-")):
        raise OptionError(f"{name}: {told} is not allowed; allowed: the name of a user on the hosts")
    return str(value)


def _number(name: str, value: Any, least: int, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise OptionError(f"{name}: {shown(value)} is not allowed; allowed: a whole number from {least} to {most}")
    return int(value)


def _set(numbers: Mapping[str, int | None], name: str) -> int:
    number = numbers[name]
    if number is None:
        least, most = NUMBERS[name]
        raise OptionError(f"{name}: it is empty; allowed: a whole number from {least} to {most}")
    return number


def _path(text: str | None, folder: Path) -> Path | None:
    if text is None:
        return None
    path = Path(os.path.expanduser(text))
    return path if path.is_absolute() else folder / path


def _files(value: Any, folder: Path) -> tuple[Path, ...]:
    if value is None:
        return ()
    listed = value if isinstance(value, list) else [value]
    found = [_path(_text("known_hosts_files", item), folder) for item in listed]
    return tuple(path for path in found if path is not None)


def _hosts(value: Any, file: Path | None) -> tuple[Host, ...]:
    listed = [] if value is None else value if isinstance(value, list) else [value]
    for item in listed:
        if not isinstance(item, str) or not item:
            raise OptionError(
                f"hosts: {shown(item)} is not allowed; allowed: a list of host names, addresses and ranges"
            )
    found = {host.name: host for host in hosts([str(item) for item in listed])}
    if file is not None:
        for host in hosts(file_patterns(file), f"hosts_file {file}"):
            found.setdefault(host.name, host)
    if not found:
        raise OptionError("hosts: no host is named; allowed: at least one, here or in hosts_file")
    return tuple(found.values())


def _domain_names(value: Any) -> dict[str, str]:
    allowed = "a clusterUuid in small letters with a name of small letters, digits and underscores, each once"
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OptionError(f"domain_names: {shown(value)} is not allowed; allowed: {allowed}")
    for uuid, name in value.items():
        if not (
            isinstance(uuid, str)
            and CLUSTER_UUID.fullmatch(uuid)
            and isinstance(name, str)
            and DOMAIN_NAME.fullmatch(name)
        ):
            raise OptionError(f"domain_names: {shown(uuid)}: {shown(name)} is not allowed; allowed: {allowed}")
    if len(set(value.values())) < len(value):
        raise OptionError(f"domain_names: two domains have one name; allowed: {allowed}")
    return {str(uuid): str(name) for uuid, name in value.items()}
