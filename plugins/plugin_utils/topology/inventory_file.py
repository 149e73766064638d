# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The text of the topology file: an inventory in YAML with what was found declared, written to be reviewed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.utils.addresses import parse_address

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.groups import DOMAIN_PREFIX, DOMAINS
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.groups import group_names, named

# By its first line the file is known as one that this collection wrote.
MARKER = "# Topology file of gpufleet.kimi_k3."
CHANGED = "# Changed: "
EXPLAINED = """\
# Written by topology.yml -e topology_write=true: what the nodes showed, declared. Review it before you rely on it.
# Values may be corrected by hand, and other variables and groups may be added: they are kept. Comments are not.
"""
NOTES = "# Not declared from what the node shows:\n"
NOTE = re.compile(r"#   (\S+): (.+)")


class TopologyFileError(ValueError):
    """A file that is not one this collection wrote, or that cannot be carried on; the message says which and why."""


@dataclass
class TopologyFile:
    """A topology file: ``data`` as Ansible reads it, ``notes`` (host: what is not declared), and its last change."""

    data: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    changed: str = ""

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """The variables of each host."""
        return {host: values or {} for host, values in ((self.data.get("all") or {}).get("hosts") or {}).items()}

    @property
    def domains(self) -> dict[str, dict[str, Any]]:
        """The group of each NVLink domain."""
        groups = ((self.data.get("all") or {}).get("children") or {}).get(DOMAINS) or {}
        return {name: group or {} for name, group in (groups.get("children") or {}).items()}


class _Dumper(yaml.SafeDumper):
    """Block style with lists in one line, and every value written out where it stands."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)
# A text that Ansible has marked with where it comes from is a text.
_Dumper.add_multi_representer(str, lambda dumper, data: dumper.represent_str(str(data)))


def parse(text: str) -> TopologyFile:
    """The file with this text. TopologyFileError where it is another's, or holds what could not be written back."""
    if text.splitlines()[:1] != [MARKER]:
        raise TopologyFileError(f"it was not written by this playbook (its first line is not {MARKER!r})")
    try:
        data = yaml.safe_load(text) or {}
        yaml.dump(data, Dumper=_Dumper)
    except (yaml.YAMLError, RecursionError) as exc:
        raise TopologyFileError(f"it cannot be read as plain YAML ({' '.join(str(exc).split())[:200]})") from exc
    _check_form(data)
    head = text.splitlines()
    found = (NOTE.fullmatch(line) for line in head if line.startswith("#"))
    return TopologyFile(
        data,
        {match.group(1): match.group(2) for match in found if match},
        next((line.removeprefix(CHANGED) for line in head if line.startswith(CHANGED)), ""),
    )


def _check_form(data: Any) -> None:
    """The parts that are read and written here: all.hosts, and below all.children the groups of domains with hosts."""
    whole = _mapping(_mapping(data).get("all"))
    groups = _mapping(_mapping(whole.get("children")).get(DOMAINS))
    for item in _mapping(whole.get("hosts")).values():
        _mapping(item)
    for group in _mapping(groups.get("children")).values():
        for item in _mapping(_mapping(group).get("hosts")).values():
            _mapping(item)


def _mapping(part: Any) -> dict[str, Any]:
    if part is None:
        return {}
    if isinstance(part, dict) and all(isinstance(name, str) for name in part):
        return part
    raise TopologyFileError("it does not have the form of an inventory: mappings with names that are texts")


def render(file: TopologyFile) -> str:
    """The text of the file: the same for the same content, hosts in natural order."""
    data = dict(file.data)
    whole = dict(data.pop("all", None) or {})
    hosts, children = whole.pop("hosts", None) or {}, whole.pop("children", None) or {}
    body: dict[str, Any] = {"all": {"hosts": {host: _sorted(hosts[host] or {}) for host in sorted(hosts, key=natural)}}}
    if children:
        body["all"]["children"] = {name: children[name] for name in sorted(children, key=natural)}
    body["all"].update(_sorted(whole))
    body.update(_sorted(data))
    lines = [f"{MARKER}\n", EXPLAINED, f"{CHANGED}{comment(file.changed)}\n"]
    if file.notes:
        lines += [NOTES, *(f"#   {host}: {comment(file.notes[host])}\n" for host in sorted(file.notes, key=natural))]
    return "".join(lines) + "---\n" + yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=10_000)


def updated(
    old: TopologyFile,
    values: Mapping[str, Mapping[str, Any]],
    notes: Mapping[str, str | None],
    known: Mapping[str, str] | None = None,
) -> TopologyFile:
    """``old`` with the given values of hosts put in and its hosts in their domains' groups; no value is taken out.

    ``notes``: of each host that was asked, why something of it is not declared, or None; those of other hosts stay.
    ``known``: ``{clusterUuid: group}`` of domains that have a name elsewhere; the one that ``old`` has comes first.
    """
    hosts = old.hosts
    before = {host: variables.get("k3_nvlink_domain") for host, variables in hosts.items()}
    own = named({name: group.get("hosts") or {} for name, group in old.domains.items()}, before)
    for host, given in values.items():
        if given:
            hosts[host] = {**hosts.get(host, {}), **given}
    whole = dict(old.data.get("all") or {})
    children = dict(whole.pop("children", None) or {})
    parent = dict(children.pop(DOMAINS, None) or {})
    domains = _grouped(old.domains, hosts, (own, known or {}))
    parent.pop("children", None)
    if domains:
        parent["children"] = domains
    if parent:
        children[DOMAINS] = parent
    if children:
        whole["children"] = children
    whole["hosts"] = hosts
    kept = {host: text for host, text in old.notes.items() if host not in notes}
    return TopologyFile(
        {**old.data, "all": whole}, {**kept, **{host: text for host, text in notes.items() if text}}, old.changed
    )


def _grouped(
    groups: dict[str, dict[str, Any]],
    hosts: Mapping[str, Mapping[str, Any]],
    known: Sequence[Mapping[str, str]],
) -> dict[str, dict[str, Any]]:
    """``groups`` with each host whose domain the file declares in that domain's group, and in no other domain's.

    A group keeps what else was written into it; one that has become empty goes. ``known``: groups by domain, the first
    before the second.
    """
    members: dict[str, list[str]] = {}
    for host, variables in hosts.items():
        if variables.get("k3_nvlink_domain"):
            members.setdefault(str(variables["k3_nvlink_domain"]).lower(), []).append(host)
    given: dict[str, str] = {}
    for names_of in known:
        for domain in members:
            if domain not in given and names_of.get(domain, "") not in ("", *given.values()):
                given[domain] = names_of[domain]
    names = group_names(members, given)
    group_of = {host: names[domain] for domain, found in members.items() for host in found}
    answer: dict[str, dict[str, Any]] = {}
    for name in sorted({*group_of.values(), *groups}, key=natural):
        rest = dict(groups.get(name, {}))
        before = rest.pop("hosts", None) or {}
        kept = {host: item for host, item in before.items() if group_of.get(host, name) == name}
        now = {*kept, *(host for host, group in group_of.items() if group == name)}
        if now:
            rest = {"hosts": {host: kept.get(host) or {} for host in sorted(now, key=natural)}, **rest}
        if rest or not name.startswith(DOMAIN_PREFIX):
            answer[name] = rest
    return answer


def nameable(host: str) -> bool:
    """Whether Ansible reads this key of ``hosts`` as this host: not as one with a port, nor as a range of several."""
    try:
        return "[" not in host and bool(parse_address(host, allow_ranges=True) == (host, None))
    except AnsibleError:
        # No address in any form: Ansible then takes it as it is.
        return True


def comment(text: str) -> str:
    """``text`` as it may stand in a comment: one line of ASCII, so that nothing in it can end the comment."""
    line = " ".join(text.encode("ascii", "backslashreplace").decode().split())[:300]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key: gb-10 after gb-9."""
    parts = re.split("([0-9]+)", name)
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts]


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in sorted(values, key=str)}
