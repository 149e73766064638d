# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report as one page for people: no network, no server, opened from the disk.

The page is a frame (page/frame.html.j2) with a style and scripts; what the nodes said comes as JSON, and the scripts
show it as text only. Answers that are the same on many nodes are there once. Facts are left to readiness.json.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import VERDICTS
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.difference import driver_version, groups

PAGE = Path(__file__).resolve().parent / "page"
# In this order they are one script: each uses what those before it define.
SCRIPTS = ("data", "dom", "cures", "checks", "filters", "racks", "node", "overview", "main")


def chunks(report: Mapping[str, Any], changes: Mapping[str, Any] | None, note: str) -> Iterator[str]:
    """The page in pieces. ``changes``: what difference() says; None: there is none, and ``note`` says why."""
    style, script = (PAGE / "page.css").read_text(encoding="utf-8"), _script()
    yield from _frame().generate(
        report=report,
        silent=sum(1 for node in report["nodes"] if node["state"] != "probed"),
        verdicts=VERDICTS,
        earlier=changes["earlier"] if changes else None,
        note=note,
        style=Markup(style),
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
        data=Markup(embedded(data(report, changes))),
    )


def data(report: Mapping[str, Any], changes: Mapping[str, Any] | None) -> str:
    """What the scripts read, as JSON; page/data.js tells the form.

    Short keys, and lists in place of objects where there is one a node and check: a thousand nodes have 64,000.
    """
    checks, remedies = _Table(), _Table()
    rest = {
        "generated": report["generated"],
        "inventory": report["inventory"],
        "nodes": [_node(node, checks, remedies) for node in report["nodes"]],
        "fleet": [_fleet_check(check, remedies) for check in report["fleet"]["checks"]],
        "groups": groups(list(changes["nodes"])) if changes else [],
        "fleetChanges": list(changes["fleet"]) if changes else [],
    }
    return f'{_json(rest)[:-1]},"checks":{checks.json()},"remedies":{remedies.json()}}}'


def embedded(text: str) -> str:
    """JSON that nothing in it can end or escape from the script element it stands in."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class _Table:
    """Each value once, and the number of its place. Kept as JSON: so many lists would keep the collector busy."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        return self._places.setdefault(_json(value), len(self._places))

    def json(self) -> str:
        return f"[{','.join(self._places)}]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _node(node: Mapping[str, Any], checks: _Table, remedies: _Table) -> dict[str, Any]:
    place = node.get("place") or {}
    return {
        "host": node["host"],
        "state": node["state"],
        "verdict": node["verdict"],
        "cause": node["root_cause"],
        "reason": node["reason"],
        "remedy": _remedy(node["remedy"], remedies),
        "place": [place.get(name) for name in ("deployment", "domain", "partition")],
        "driver": driver_version(node),
        "checks": [checks.place(_check(check, remedies)) for check in node["checks"]],
    }


def _check(check: Mapping[str, Any], remedies: _Table) -> list[Any]:
    return [
        check["id"],
        check["status"],
        check["reason"],
        check["observed"],
        check["required"],
        [[item["source"], item["line"]] for item in check["evidence"]],
        _remedy(check["remedy"], remedies),
        int(check["blocking"]),
    ]


def _fleet_check(check: Mapping[str, Any], remedies: _Table) -> dict[str, Any]:
    return {
        "scope": [check["scope"]["kind"], check["scope"]["name"]],
        "hosts": check["hosts"],
        "outliers": check["outliers"],
        "check": _check(check, remedies),
    }


def _remedy(remedy: Mapping[str, Any] | None, remedies: _Table) -> int:
    if remedy is None:
        return -1
    names = ("action", "command", "disruptive", "playbook", "tag")
    return remedies.place([remedy[name] for name in names])


@cache
def _frame() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, loader=jinja2.FileSystemLoader(PAGE), undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template("frame.html.j2")


@cache
def _script() -> str:
    parts = [(PAGE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _hash(text: str) -> str:
    """As a content security policy names a script or style that is in the page itself. Source: CSP Level 3, 2.3.1."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
