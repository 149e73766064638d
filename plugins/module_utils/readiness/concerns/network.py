# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The ordinary network: the interface of rendezvous and control traffic, its MTU, and what filters it."""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.network import CHECKS, PORTS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Evidence,
    Findings,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node, Result
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import systemd

FILTERING = re.compile(r"hook input\b[^}]*policy (drop|reject)|\b(drop|reject)\b")
# Each with where the kernel names its legacy tables (absent: none). Source: Linux, net/netfilter/x_tables.c.
IPTABLES = (("iptables", "/proc/net/ip_tables_names"), ("ip6tables", "/proc/net/ip6_tables_names"))


def collect(node: Node) -> dict[str, Any]:
    """``{"default": interface, "interfaces": {name: {"state", "mtu", "addresses"}}, "filter": {...}}``."""
    return {"default": default_interface(node), "interfaces": interfaces(node), "filter": _filter(node)}


def default_interface(node: Node) -> str | Unknown | None:
    """The interface of the default route, of IPv4 before IPv6; None where there is none."""
    for family in ("-4", "-6"):
        routes = _json(node, ["ip", family, "-j", "route", "show", "default"])
        if isinstance(routes, Unknown):
            return routes
        for route in routes:
            if isinstance(route, dict) and isinstance(route.get("dev"), str):
                return route["dev"]
    return None


def interfaces(node: Node) -> dict[str, Any] | Unknown:
    """``{name: {"state", "mtu", "addresses"}}``, the addresses those of global scope."""
    entries = _json(node, ["ip", "-j", "addr", "show"])
    if isinstance(entries, Unknown):
        return entries
    found: dict[str, Any] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("ifname"), str):
            continue
        infos = entry.get("addr_info")
        found[entry["ifname"]] = {
            "state": entry.get("operstate"),
            "mtu": entry.get("mtu") if isinstance(entry.get("mtu"), int) else Unknown("ip told no MTU"),
            "addresses": [
                info["local"]
                for info in infos
                if isinstance(info, dict) and info.get("scope") == "global" and isinstance(info.get("local"), str)
            ]
            if isinstance(infos, list)
            else [],
        }
    return found


def _json(node: Node, argv: list[str]) -> list[Any] | Unknown:
    result = node.run(argv)
    if not result.ok:
        return result.unknown()
    try:
        answer = json.loads(result.stdout or "[]")
    except ValueError:
        return Unknown(f"`{result.source}` did not answer in JSON", result.source)
    return (
        answer if isinstance(answer, list) else Unknown(f"`{result.source}` did not answer with a list", result.source)
    )


def _filter(node: Node) -> dict[str, Any]:
    """Front ends that are active, and the kernel's rules that refuse incoming packets.

    ``refusing``: the lines, Unknown where a set of rules cannot be asked; ``source``: the command that told the first.
    """
    active: dict[str, Any] = {name: systemd.is_active(node, name + ".service") for name in ("firewalld", "ufw")}
    nft = node.run(["nft", "list", "ruleset"])
    without_nft = nft.error == "missing"
    told = [] if without_nft else [(_told(node, nft), nft.source)]
    for tool, names in IPTABLES:
        # The kernel may have been told to know no IPv6.
        if tool != "ip6tables" or node.exists("/proc/net/if_inet6") is not False:
            told += _xtables(node, tool, names, without_nft)
    # A rule that refuses decides; else what could not be asked.
    rules, source = next(
        (found for found in told if isinstance(found[0], list) and found[0]),
        next((found for found in told if isinstance(found[0], Unknown)), ([], "")),
    )
    return {"front_ends": active, "refusing": rules, "source": source}


def _xtables(node: Node, tool: str, names: str, without_nft: bool) -> list[tuple[list[str] | Unknown, str]]:
    """What ``tool`` has to add to nft, which does not see the legacy tables; each with its source.

    Without legacy tables it is asked only in nft's place, because asking makes the table where there is none.
    """
    tables = node.read(names)
    # No rule of the table nat refuses a packet.
    legacy = isinstance(tables, Unknown) or bool(set((tables or "").split()) - {"nat"})
    results = [node.run([tool + "-legacy", "-S", "INPUT"])] if legacy else []
    unseen = legacy and results[0].error == "missing"
    if unseen or without_nft:
        results.append(node.run([tool, "-S", "INPUT"]))
        # The variant of iptables that writes to nft warns of legacy tables, which it does not show, by the same list.
        blind = isinstance(tables, Unknown) or "-legacy tables present" in results[-1].stderr
        unseen = unseen and (blind or results[-1].error == "missing")
    told = [(_told(node, result), result.source) for result in results if result.error != "missing"]
    if unseen:
        why = f"{tool} has legacy tables ({' '.join(str(tables).split())[:40]}), and no tool to ask them is installed"
        told.append((tables if isinstance(tables, Unknown) else Unknown(why, names), names))
    return told


def _told(node: Node, result: Result) -> list[str] | Unknown:
    if result.ok:
        return _refusing(result.stdout)
    # A tool that gave no answer in time would not give one to root either.
    return Unknown("needs root", result.source) if not node.is_root() and not result.error else result.unknown()


def _refusing(rules: str) -> list[str]:
    """The lines of input chains that drop or reject. Forward chains (Docker's) do not concern the node itself."""
    found, in_input = [], False
    for line in rules.splitlines():
        text = line.strip()
        if text.startswith("chain "):
            in_input = False
        if "hook input" in text:
            in_input = True
        if (text.startswith(("-P INPUT DROP", "-A INPUT")) and ("DROP" in text or "REJECT" in text)) or (
            in_input and FILTERING.search(text)
        ):
            found.append(text)
    return found


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for data_interface, mtu and firewall."""
    findings = Findings("network", CHECKS)
    network = facts["network"]
    _assess_interface(findings, network, require)
    _assess_firewall(findings, network["filter"])
    return findings.checks()


def _assess_interface(findings: Findings, network: dict[str, Any], require: dict[str, Any]) -> None:
    declared = require["data_interface"]
    name = declared or network["default"]
    interfaces = network["interfaces"]
    wanted = declared or "the interface of the default route"
    for unread in (name, interfaces):
        if isinstance(unread, Unknown):
            findings.unknown("data_interface", unread, required=wanted)
            findings.unknown("mtu", unread)
            return
    evidence = Evidence("ip -j addr show", ", ".join(sorted(interfaces)))
    if not name:
        findings.failed(
            "data_interface",
            "No interface is declared and this node has no default route.",
            required=wanted,
            evidence=evidence,
        )
        findings.unknown("mtu", "no data interface is known")
        return
    interface = interfaces.get(name)
    if interface is None:
        findings.failed(
            "data_interface",
            f"Interface {name} is declared, and this node has none of that name.",
            observed=sorted(interfaces),
            required=wanted,
            evidence=evidence,
        )
        findings.unknown("mtu", f"there is no interface {name}")
        return
    _assess_state(findings, name, interface, wanted)
    mtu, least = interface["mtu"], require["network_mtu_min"]
    if isinstance(mtu, Unknown):
        findings.unknown("mtu", mtu, required=least or None)
    elif mtu < least:
        findings.failed("mtu", f"The MTU of {name} is {mtu}.", observed=mtu, required=least, evidence=evidence)
    else:
        findings.passed("mtu", f"The MTU of {name} is {mtu}.", observed=mtu, required=least or None)


def _assess_state(findings: Findings, name: str, interface: dict[str, Any], wanted: str) -> None:
    observed = {"name": name, "state": interface["state"], "addresses": interface["addresses"]}
    evidence = Evidence("ip -j addr show", "{} {}".format(name, interface["state"]))
    # Tunnels and some virtual interfaces report UNKNOWN while they carry traffic.
    if interface["state"] not in ("UP", "UNKNOWN"):
        findings.failed(
            "data_interface",
            "Interface {} is not up ({}).".format(name, interface["state"]),
            observed=observed,
            required=wanted,
            evidence=evidence,
        )
    elif not interface["addresses"]:
        findings.failed(
            "data_interface",
            f"Interface {name} has no global address.",
            observed=observed,
            required=wanted,
            evidence=evidence,
        )
    else:
        findings.passed(
            "data_interface", f"Interface {name} is up.", observed=observed, required=wanted, evidence=evidence
        )


def _assess_firewall(findings: Findings, found: dict[str, Any]) -> None:
    required = "ports open: " + PORTS
    active = sorted(name for name, state in found["front_ends"].items() if state is True)
    refusing = found["refusing"]
    if active or (isinstance(refusing, list) and refusing):
        line = refusing[0] if isinstance(refusing, list) and refusing else ", ".join(active) + " is active"
        findings.warned(
            "firewall",
            "Incoming traffic is filtered on this node%s; whether it lets the deployment's ports "
            "in was not tried." % (" by " + " and ".join(active) if active else ""),
            observed={"front_ends": active},
            required=required,
            evidence=Evidence(found["source"] or "systemctl show", line),
        )
        return
    for unread in (refusing, *found["front_ends"].values()):
        if isinstance(unread, Unknown):
            findings.unknown("firewall", unread, required=required)
            return
    findings.passed(
        "firewall", "Nothing filters incoming traffic on this node.", observed="no filter", required=required
    )
