# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report as metrics for the textfile collector of Prometheus' node_exporter.

States are one series a state with the value 0 or 1, so that an alert need not know a code. Of checks only those that
need a look have a series (a fleet has a hundred thousand that pass); how many there are in each status is counted.
Source: Prometheus, exposition formats (text format) and metric and label naming.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    NOT_APPLICABLE,
    PASS,
    STATUSES,
    VERDICTS,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.difference import driver_version

Sample = tuple[dict[str, str], float]
QUIET = (PASS, NOT_APPLICABLE)


def chunks(report: Mapping[str, Any]) -> Iterator[str]:
    """The metrics in pieces, one a family; a family without a sample is left out."""
    for name, meaning, samples in (*_of_report(report), *_of_nodes(report["nodes"]), *_of_fleet(report["fleet"])):
        lines = [f"{name}{_labels(labels)} {value:.10g}\n" for labels, value in samples]
        if lines:
            yield f"# HELP {name} {meaning}\n# TYPE {name} gauge\n" + "".join(lines)


def _of_report(report: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Sample]]]:
    when = datetime.fromisoformat(report["generated"])
    yield (
        "k3_readiness_report_timestamp_seconds",
        "When the nodes were asked, in seconds since 1970.",
        [({}, when.timestamp())],
    )
    names = ("schema", "collection", "playbook")
    yield (
        "k3_readiness_report_info",
        "What made the report; always 1.",
        [({name: report[name] for name in names}, 1)],
    )
    yield (
        "k3_readiness_nodes",
        "Nodes of the report by verdict.",
        [({"verdict": verdict}, report["summary"][verdict]) for verdict in VERDICTS],
    )


def _of_nodes(nodes: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    yield (
        "k3_node_info",
        "Where a node belongs and which driver it has loaded; always 1. An empty label: none, or not known.",
        ((_place(node), 1) for node in nodes),
    )
    yield (
        "k3_node_probed",
        "Whether the node answered and its probe ended (1) or not (0).",
        (({"node": node["host"]}, float(node["state"] == "probed")) for node in nodes),
    )
    yield (
        "k3_node_verdict",
        "The verdict on a node: 1 for the one that holds, else 0.",
        (
            ({"node": node["host"], "verdict": verdict}, float(node["verdict"] == verdict))
            for node in nodes
            for verdict in VERDICTS
        ),
    )
    yield (
        "k3_node_root_cause",
        "The check that explains why a node is not ready, or unreachable or broken; always 1.",
        (({"node": node["host"], "check": node["root_cause"]}, 1) for node in nodes if node["root_cause"]),
    )
    yield (
        "k3_node_checks",
        "Checks of a node by status.",
        (
            ({"node": node["host"], "status": status}, count)
            for node in nodes
            for status, count in _counts(node["checks"]).items()
        ),
    )
    yield (
        "k3_node_check",
        "A check of a node that did not pass, with its status; always 1. One that passes or does not apply has none.",
        (
            ({"node": node["host"], "check": check["id"], "status": check["status"]}, 1)
            for node in nodes
            for check in node["checks"]
            if check["status"] not in QUIET
        ),
    )


def _of_fleet(fleet: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    yield (
        "k3_fleet_verdict",
        "The verdict on what only all nodes together can tell: 1 for the one that holds, else 0.",
        [({"verdict": verdict}, float(fleet["verdict"] == verdict)) for verdict in VERDICTS],
    )
    yield (
        "k3_fleet_checks",
        "Checks of the fleet by status.",
        [({"status": status}, count) for status, count in _counts(fleet["checks"]).items()],
    )
    yield (
        "k3_fleet_check",
        "A check of the fleet that did not pass, with its status; the value is how many nodes it blames.",
        [(_fleet_labels(check), len(check["outliers"])) for check in fleet["checks"] if check["status"] not in QUIET],
    )


def _place(node: Mapping[str, Any]) -> dict[str, str]:
    place = node.get("place") or {}
    names = ("deployment", "domain", "partition")
    return {
        "node": node["host"],
        **{name: place.get(name) or "" for name in names},
        "driver": driver_version(node) or "",
    }


def _fleet_labels(check: Mapping[str, Any]) -> dict[str, str]:
    scope = check["scope"]
    return {"check": check["id"], "scope": scope["kind"], "name": scope["name"], "status": check["status"]}


def _counts(checks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Every status, also those that no check has: a series that comes and goes is hard to alert on."""
    found = Counter(check["status"] for check in checks)
    return {status: found[status] for status in STATUSES}


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    """A label's value as the text format wants it. What UTF-8 cannot hold is written as its number."""
    whole = value.encode("utf-8", "backslashreplace").decode("utf-8")
    return whole.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
