# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Inventory plugin: which GPUs, NVLink domains and HCAs are really there."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gpu_fabric
short_description: Discovers GPU nodes, NVLink domains and RDMA adapters over SSH
version_added: 0.2.0
author: GPU Fleet contributors (@gpufleet)
description:
  - Logs into each host once, lets its C(/bin/sh) read kernel files and ask C(nvidia-smi), and makes an inventory of
    what is there. The hosts need no Python, and nothing is changed or left on them.
  - What was read is parsed by the same code as the probe uses (M(gpufleet.kimi_k3.gpu_node_readiness)). What could not
    be read is left out, never guessed.
  - B(Variables) of each host that answered, as far as it has them, are C(gpu_model) (such as C(gb300)), C(gpu_count),
    C(arch), C(driver_version), C(k3_nvlink_domain) (clusterUuid), C(k3_nvlink_partition) (cliqueId), C(k3_rdma_hcas),
    C(rdma_rate) (Gb/s of each HCA), C(rdma_link_layer), and C(gpu_fabric), which holds all of these and, under
    C(unknown), why others could not be told.
  - B(Groups) are C(gpu_nodes); one for each product, such as C(hw_gb300); C(rdma); one for each NVLink domain, such as
    C(domain_gb_r07_7b1e4c2a), below the group C(nvlink_domains).
  - A host that cannot be read, for whatever reason, is kept in the inventory, in group C(undiscovered), with the
    reason as a warning and in its variable C(gpu_fabric_error). It never stops the others.
  - So that playbooks reach the same hosts, C(ansible_host), C(ansible_port), C(ansible_user) and
    C(ansible_ssh_private_key_file) are set where options or the SSH configuration say something else than Ansible
    would do by itself; never a password. What else the SSH configuration says, such as C(ProxyCommand), Ansible's own
    C(ssh) has to be told as well.
  - What is discovered becomes part of a plan only as declared, reviewed variables, which the playbook
    C(gpufleet.kimi_k3.topology) writes.
requirements:
  - paramiko >= 3.2 (on the control node)
notes:
  - A domain's group is named after what each of its hosts is called without its last number (of C(gb-r07-01) to
    C(gb-r07-18) that is C(gb_r07)), and the first eight characters of the clusterUuid. Both come from one host as well
    as from eighteen, so that the name stays when a host is added or does not answer. It may change where the hosts of
    one domain are named after different things; name such a domain in O(domain_names).
  - Host keys are always checked. A changed or revoked host key is an error under every O(host_key_policy).
    Certificates of hosts (C(@cert-authority)) are unknown to paramiko; name the host's own key.
  - paramiko cannot use keys on security tokens, except through an agent. C(SSH_AUTH_SOCK) names the agent, as for
    C(ssh).
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description:
      - Marks the file as one of this plugin. Its name has to end in C(gpu_fabric.yml) or C(gpu_fabric.yaml).
    type: str
    required: true
    choices: [gpufleet.kimi_k3.gpu_fabric]
  hosts:
    description:
      - Hosts to ask, each with a port where it needs one (C(gpu01:2222)). Ranges are written as in other inventories
        of Ansible (C(gpu[01:72].example)).
      - At least one host has to be named here or in O(hosts_file).
    type: list
    elements: str
  hosts_file:
    description:
      - A file with more of them, one a line; C(#) begins a comment. A relative path starts at this configuration file.
    type: str
  user:
    description:
      - User on the hosts. Default is what the SSH configuration says, else the user who runs Ansible.
    type: str
    env:
      - name: GPU_FABRIC_USER
  port:
    description:
      - Port of the SSH server, where none stands beside the host. Default is what the SSH configuration says, else 22.
    type: int
  private_key_file:
    description:
      - Private key to log in with; a certificate beside it (C(-cert.pub)) is used as well. A relative path starts at
        this configuration file.
      - Default are the keys that the SSH configuration names, else C(~/.ssh/id_ed25519), C(id_ecdsa) and C(id_rsa).
    type: str
    env:
      - name: GPU_FABRIC_PRIVATE_KEY_FILE
  private_key_passphrase:
    description:
      - Passphrase of the private keys. A secret, so take it from the environment or encrypt it with Ansible Vault.
    type: str
    env:
      - name: GPU_FABRIC_PRIVATE_KEY_PASSPHRASE
  use_agent:
    description: Whether the keys of the SSH agent are tried.
    type: bool
    default: true
  password:
    description:
      - Password, tried last. A secret, so take it from the environment or encrypt it with Ansible Vault.
      - It is neither shown nor cached, and no variable holds it. For the connections of playbooks, C(--ask-pass) asks
        for it.
    type: str
    env:
      - name: GPU_FABRIC_PASSWORD
  ssh_config_file:
    description:
      - An OpenSSH client configuration. None is read unless it is named. A relative path starts at this configuration
        file.
      - Honoured are C(HostName), C(User), C(Port), C(IdentityFile), C(IdentitiesOnly), C(ProxyCommand),
        C(UserKnownHostsFile), C(GlobalKnownHostsFile) and C(HostKeyAlias), under C(Host) and simple C(Match) lines. In
        the name of a user's file C(~), C(${NAME}) and the tokens of ssh_config(5) count, without C(%C) and C(%j).
      - Options without effect on who is reached and how both sides prove who they are (keep-alive, forwarding, logs)
        are passed over. Any other is an error that names file, host and option, C(Include) and C(ProxyJump) among
        them; C(ProxyCommand ssh -W %h:%p bastion) does what the latter does.
    type: str
  known_hosts_files:
    description:
      - Files with known host keys, in place of all others. New ones are written to the first of them. Relative paths
        start at this configuration file.
      - Default are the files of OpenSSH, those of the user (C(UserKnownHostsFile) of the SSH configuration, else
        C(~/.ssh/known_hosts) and C(~/.ssh/known_hosts2)) and those of the machine (C(GlobalKnownHostsFile), else
        C(/etc/ssh/ssh_known_hosts) and C(/etc/ssh/ssh_known_hosts2)). New keys are written to the first of the user's.
    type: list
    elements: str
  host_key_policy:
    description: What happens when a host shows a key and no key of it is known yet.
    type: str
    default: reject
    choices:
      reject: The host is not read; the error shows the fingerprint and the command that adds the key.
      accept_new: The key is written to the known_hosts file and counts from then on. Whoever answers first is believed.
  workers:
    description: Hosts that are asked at the same time.
    type: int
    default: 32
  connect_timeout:
    description: Seconds for the TCP connection to a host.
    type: int
    default: 10
  banner_timeout:
    description: Seconds for the first words of the SSH server, and again for the exchange of keys.
    type: int
    default: 10
  auth_timeout:
    description: Seconds for each attempt to log in.
    type: int
    default: 15
  command_timeout:
    description:
      - Seconds for each command on a host, kept by C(timeout) where the host has it, else by O(session_timeout).
    type: int
    default: 20
  session_timeout:
    description: Seconds for all of one host.
    type: int
    default: 60
  discovery_timeout:
    description: Seconds for all hosts together. Those that were not read by then are reported.
    type: int
    default: 600
  domain_names:
    description:
      - Names for NVLink domains by clusterUuid, of small letters, digits and underscores. C(rack07) makes the group
        C(domain_rack07).
    type: dict
"""

EXAMPLES = r"""
# fleet.gpu_fabric.yml: 36 nodes, with keys of the agent. This shows the racks:
#   ansible-inventory -i fleet.gpu_fabric.yml --graph
plugin: gpufleet.kimi_k3.gpu_fabric
hosts:
  - gb-r07-[01:18].example
  - gb-r08-[01:18].example
user: operator

# A cache on disk, readable names for two racks, and a group for each NVLink partition.
#   plugin: gpufleet.kimi_k3.gpu_fabric
#   hosts_file: nodes.txt
#   ssh_config_file: ~/.ssh/config.fleet
#   cache: true
#   cache_plugin: ansible.builtin.jsonfile
#   cache_connection: ~/.cache/gpu_fabric
#   cache_timeout: 86400
#   domain_names:
#     7b1e4c2a-9d5f-4e08-b3a6-1c2d3e4f5a6b: rack07
#     90aa13c4-5be2-4f0d-8c77-2f1e6d5c4b3a: rack08
#   keyed_groups:
#     - key: k3_nvlink_domain[:8] ~ '_' ~ k3_nvlink_partition
#       prefix: partition
#   compose:
#     gpus_are_blackwell: gpu_model in ['b200', 'b300', 'gb200', 'gb300']

# New machines, whose host keys nobody has yet. The password comes from GPU_FABRIC_PASSWORD.
#   plugin: gpufleet.kimi_k3.gpu_fabric
#   hosts: [192.0.2.10, '192.0.2.11:2222']
#   user: root
#   use_agent: false
#   known_hosts_files: [known_hosts]
#   host_key_policy: accept_new
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact_all
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery import library
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.addresses import Book
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.fleet import discover, questions
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.kept import fault
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.options import (
    NAMES,
    Options,
    options,
    unknown_option,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.placing import Placed, place, warnings
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.reading import read


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Asks every host and fills Ansible's inventory with the answers."""

    NAME = "gpufleet.kimi_k3.gpu_fabric"

    def verify_file(self, path: str) -> bool:
        """Whether the file is one of this plugin, by its name."""
        return bool(super().verify_file(path)) and path.endswith(("gpu_fabric.yml", "gpu_fabric.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        """AnsibleParserError, before any host is contacted, where the file is wrong; else every host is in."""
        super().parse(inventory, loader, path, cache)
        try:
            wanted = self._options_of(path)
            book = Book(wanted)
            addresses = {host.name: book.address(host) for host in wanted.hosts}
            connections = {host.name: book.variables(host) for host in wanted.hosts}
        except OptionError as exc:
            # Ansible would repeat what it is caused by.
            raise AnsibleParserError(f"{path}: {exc}") from None
        keep = bool(self.get_option("cache"))
        key, asked = self.get_cache_key(path), questions(addresses)
        kept = self._kept(key, asked, wanted) if cache and keep else None
        answers = kept or {
            "questions": asked,
            "when": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "hosts": discover(addresses, read, wanted.limits, wanted.workers, wanted.discovery_timeout),
        }
        if keep and kept is None:
            self._cache[key] = answers
        placed = place(answers["hosts"], wanted.domain_names)
        self._fill(placed, connections)
        for warning in warnings(placed, answers["when"] if kept else ""):
            self.display.warning(warning)

    def _options_of(self, path: str) -> Options:
        """The options, checked as the file has them: Ansible passes over names it does not know, and bends values."""
        if library.fault():
            raise OptionError(library.fault())
        folder = Path(path).absolute().parent
        try:
            config = self.loader.load_from_file(path, cache="none")
            fault = unknown_option(config, self.option_definitions)
            if fault:
                raise OptionError(fault)
            defaults = {name: self.option_definitions[name].get("default") for name in NAMES}
            options({name: config.get(name, default) for name, default in defaults.items()}, folder)
            self._read_config_data(path)
        except AnsibleError as exc:
            raise OptionError(" ".join(str(exc).split())) from exc
        return options({name: self.get_option(name) for name in NAMES}, folder)

    def _kept(self, key: str, asked: str, wanted: Options) -> dict[str, Any] | None:
        """The answers of an earlier run to the same questions, where the cache still has them."""
        try:
            kept = self._cache[key]
        except KeyError:
            return None
        except Exception as exc:  # whatever the plugin behind it meets in a damaged file
            kept, why = None, f"it cannot be read: {type(exc).__name__}"
        else:
            # Another question is no fault: hosts were added, or are asked as another user.
            questioned = kept.get("questions") if isinstance(kept, Mapping) else None
            if isinstance(questioned, str) and questioned != asked:
                return None
            why = fault(kept, [host.name for host in wanted.hosts])
        if why:
            self.display.warning(
                f"gpu_fabric: what the cache holds are no answers of discovery ({why}); the hosts are asked anew"
            )
            return None
        # What wrote it may have left in what nobody's terminal should see.
        return dict(redact_all(dict(kept)))

    def _fill(self, placed: Placed, connections: Mapping[str, Mapping[str, Any]]) -> None:
        strict = self.get_option("strict")
        for group in placed.groups:
            self.inventory.add_group(group)
        for group, parent in placed.parents.items():
            self.inventory.add_group(parent)
            self.inventory.add_group(group)
            self.inventory.add_child(parent, group)
        for host, entry in placed.entries.items():
            self.inventory.add_host(host)
            for group in entry.groups:
                self.inventory.add_group(group)
                self.inventory.add_child(group, host)
            variables = {**connections[host], **entry.variables}
            for name, value in variables.items():
                self.inventory.set_variable(host, name, value)
            self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)
