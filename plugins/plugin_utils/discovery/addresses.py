# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where each host is and how it is entered, from the options and the SSH configuration."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery import identities
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.hosts import Host
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.known_hosts import KnownHosts, host_name
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.options import ACCEPT_NEW, Options
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Address
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.ssh_config import HostSettings, SshConfig

# Those of OpenSSH, each until its own option says otherwise.
USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")


class Book:
    """The addresses of all hosts, with keys and known_hosts files read once. OptionError for what cannot be right."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._config = SshConfig(options.ssh_config_file) if options.ssh_config_file else None
        self._known: dict[tuple[tuple[Path, ...], tuple[Path, ...]], KnownHosts] = {}
        self._keys: dict[Path, Any] = {}
        self._defaults: Sequence[Any] | None = None
        self._settings: dict[str, HostSettings] = {}

    def settings(self, host: Host) -> HostSettings:
        """What holds for a host. What stands beside it and in the options wins over the SSH configuration."""
        if host.name not in self._settings:
            user, port = self.options.user, host.port or self.options.port
            self._settings[host.name] = (
                self._config.lookup(host.name, user, port) if self._config else HostSettings(user=user, port=port)
            )
        return self._settings[host.name]

    def address(self, host: Host) -> Address:
        """The address of one host."""
        said = self.settings(host)
        where, port = said.hostname or host.name, said.port or 22
        return Address(
            host=where,
            port=port,
            user=said.user or getpass.getuser(),
            known_hosts=self._known_hosts(said),
            # As OpenSSH has it, an alias stands without the port.
            key_name=said.host_key_alias or host_name(where, port),
            keys=self._identities(said),
            use_agent=self.options.use_agent and not said.identities_only,
            password=self.options.password,
            proxy_command=said.proxy_command,
        )

    def variables(self, host: Host) -> dict[str, Any]:
        """The variables with which Ansible reaches the same host as the same user; never a password."""
        said = self.settings(host)
        found: dict[str, Any] = {}
        if said.hostname and said.hostname != host.name:
            found["ansible_host"] = said.hostname
        if said.port:
            found["ansible_port"] = said.port
        if said.user:
            found["ansible_user"] = said.user
        if self.options.private_key_file:
            found["ansible_ssh_private_key_file"] = str(self.options.private_key_file)
        return found

    def _known_hosts(self, said: HostSettings) -> KnownHosts:
        given = self.options.known_hosts_files
        files: tuple[Path, ...] = given
        others: tuple[Path, ...] = ()
        if not given:
            files = _paths(said.user_known_hosts, USER_KNOWN_HOSTS)
            others = _paths(said.global_known_hosts, GLOBAL_KNOWN_HOSTS)
        if (files, others) not in self._known:
            accept_new = self.options.host_key_policy == ACCEPT_NEW
            self._known[files, others] = KnownHosts(files, others, accept_new=accept_new, must_exist=bool(given))
        return self._known[files, others]

    def _identities(self, said: HostSettings) -> Sequence[Any]:
        if self.options.private_key_file:
            return [self._key(self.options.private_key_file)]
        named = [Path(name).expanduser() for name in said.identity_files]
        # As ssh does: a file that is not there is passed over.
        found = [self._key(path) for path in named if path.exists()]
        if named:
            return found
        if self._defaults is None:
            self._defaults = identities.defaults(Path("~/.ssh").expanduser(), self.options.private_key_passphrase)
        return self._defaults

    def _key(self, path: Path) -> Any:
        if path not in self._keys:
            try:
                self._keys[path] = identities.load(path, self.options.private_key_passphrase)
            except OptionError as exc:
                option = (
                    "private_key_file" if path == self.options.private_key_file else "ssh_config_file: IdentityFile"
                )
                raise OptionError(f"{option}: {exc}") from exc
        return self._keys[path]


def _paths(said: Sequence[str] | None, default: Sequence[str]) -> tuple[Path, ...]:
    """The files that an option of the SSH configuration names, or its default."""
    return tuple(Path(name).expanduser() for name in default) if said is None else tuple(map(Path, said))
