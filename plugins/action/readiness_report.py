# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.readiness_report; documented beside the modules."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact, redact_all
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import peers
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.collection_version import collection_version
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.declared import declared_of, left_out
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import blamed
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import files, terminal
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import node_row


def _registered(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A result; empty where there is none, or where Ansible keeps something else in its place."""
    found = raw.get(name)
    return found if isinstance(found, Mapping) else {}


def _inventory(variables: Mapping[str, Any]) -> list[str]:
    """The sources of the inventory; a run of ansible-runner or a test may have none."""
    sources = variables.get("ansible_inventory_sources")
    return [str(source) for source in sources] if isinstance(sources, (list, tuple)) else []


class ActionModule(ActionBase):
    """Writes the report of all nodes of the play and prints the table; needs no node to be alive."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Result: report (path of readiness.json), summary (nodes by verdict), fleet (verdict, cause, blamed)."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(
            {
                "dir": {"type": "str", "required": True},
                "playbook": {"type": "str", "required": True},
                "variable": {"type": "str", "default": "node_readiness_result"},
            }
        )
        if not re.fullmatch(r"[a-z0-9_]+", options["playbook"]):
            result.update(failed=True, msg=f"playbook: {options['playbook']!r} is not allowed; allowed: a-z, 0-9 and _")
            return result
        variables = task_vars or {}
        hostvars = variables["hostvars"]
        rows: list[dict[str, Any]] = []
        declared, plans, tests, expired = {}, {}, {}, set()
        for host in variables["ansible_play_hosts_all"]:
            # As they are, not through the template engine: results hold no templates, and thousands of texts each.
            raw = hostvars.raw_get(host)
            row = node_row(host, raw.get(options["variable"]))
            row["facts"] = {name: facts for name, facts in row["facts"].items() if name != peers.CONCERN}
            plans[host] = _registered(raw, "node_readiness_peer_plan")
            tests[host] = raw.get("node_readiness_peers")
            if _registered(raw, "node_readiness_peer_end").get("ended") is False:
                expired.add(host)
            rows.append(row)
            declared[host] = declared_of(raw, partial(hostvars.__getitem__, host))
        for row in rows:
            host = row["host"]
            tried, untried = (plans[host].get(part, {}).get(host, []) for part in ("peers", "untried"))
            if tried or untried:
                row["facts"][peers.CONCERN] = redact_all(peers.facts(tests[host], tried, untried, expired))
        when = datetime.now(UTC)
        report = document(rows, options["playbook"], when, collection_version(), declared, _inventory(variables))
        # First, so that what the nodes answered is seen also where it cannot be written.
        display = Display()
        display.display(terminal.table(report, max(80, min(140, shutil.get_terminal_size((110, 24)).columns))))
        try:
            # A relative folder means: below the folder in which the command was given.
            folder = Path(options["dir"]).expanduser().absolute()
            file = files.write(report, folder, options["playbook"], when)
        except (OSError, RuntimeError, ValueError) as exc:
            result.update(failed=True, msg=f"the report cannot be written below {options['dir']}: {exc}")
            return result
        display.display(f"report: {file}")
        rest = {
            host: declared_of(hostvars.raw_get(host), partial(hostvars.__getitem__, host))
            for host in variables["groups"]["all"]
            if host not in declared
        }
        warnings = [redact(text) for text in left_out(declared, rest)]
        if warnings:
            result["warnings"] = warnings
        result.update(changed=False, report=str(file), summary=report["summary"])
        fleet = report["fleet"]
        result["fleet"] = {"verdict": fleet["verdict"], "root_cause": fleet["root_cause"], "blamed": blamed(fleet)}
        return result
