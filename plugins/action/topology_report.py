# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.topology_report; documented beside the modules."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.collection_version import collection_version
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology import files, fleet, terminal
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import gate_fault
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.document import document
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.inventory_file import (
    TopologyFile,
    parse,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.preflight import is_loaded
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.replace import replace


class ActionModule(ActionBase):
    """Compares, prints, writes the report and, where it is asked for, the topology file."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Result: report, summary, conflicts, gate_fault; and of the topology file: file, loaded, backup, diff."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(
            {
                "dir": {"type": "str", "required": True},
                "file": {"type": "str"},
                "write": {"type": "bool", "default": False},
                "overwrite": {"type": "bool", "default": False},
                "variable": {"type": "str", "default": "node_readiness_result"},
            }
        )
        variables = task_vars or {}
        path = Path(options["file"]) if options["file"] else None
        loaded = path is not None and is_loaded(path, variables.get("ansible_inventory_sources") or [])
        try:
            old_text, old = _read(path, options["overwrite"] or not options["write"])
        except (OSError, ValueError) as exc:
            result.update(failed=True, msg=f"the topology file {path} cannot be read: {exc}")
            return result
        nodes = fleet.compare_all(_nodes(variables, options["variable"]), old, str(path or ""), loaded)
        when = datetime.now(UTC)
        report = document([node.row for node in nodes], fleet.conflicts(nodes), when, collection_version())
        display = Display()
        # First, so that what was found is seen also where it cannot be written.
        display.display(terminal.table(report, max(80, min(140, shutil.get_terminal_size((110, 24)).columns))))
        result.update(
            changed=False,
            summary=report["summary"],
            conflicts=report["conflicts"],
            gate_fault=gate_fault(report["nodes"]),
        )
        try:
            if options["write"] and path is not None:
                new_text = fleet.new_text(nodes, old, old_text, when, variables.get("groups") or {})
                why = "there is nothing to declare"
                if not any(node.seen.gpus for node in nodes):
                    why = "no node with a GPU was seen, and only such are declared"
                result.update(self._write(path, old_text, new_text, when, why))
            report["topology_file"] = {"path": str(path or ""), "loaded": loaded, "changed": result["changed"]}
            # A relative folder means: below the folder in which the command was given.
            result["report"] = str(files.write(report, Path(options["dir"]).expanduser().absolute(), when))
        except (OSError, RuntimeError, ValueError) as exc:
            result.update(failed=True, msg=f"what was found cannot be written: {exc}")
            return result
        if path is not None and path.exists() and not loaded:
            display.display(f"Ansible has not read {path} in this run: give it with -i as well, after the others.")
        display.display(f"report: {result['report']}")
        return result

    def _write(self, path: Path, old: str, new: str, when: datetime, nothing: str) -> dict[str, Any]:
        """Show the difference and, unless in check mode, make it; what the result tells of it."""
        display = Display()
        if new == old:
            words = "declares what was found; nothing to change" if path.exists() else f"not written: {nothing}"
            display.display(f"topology file: {path} {words}")
            return {"file": str(path), "changed": False}
        told: dict[str, Any] = {"file": str(path), "changed": True}
        difference = terminal.difference(old, new, str(path))
        if self._task.diff:
            told["diff"] = [{"prepared": difference}]
        else:
            display.display(difference)
        if self._task.check_mode:
            display.display(f"topology file: {path} would be written; this is a check, so it was not")
            return told
        kept = replace(path, new, when)
        told["backup"] = str(kept or "")
        display.display(f"topology file: {path} written; " + (f"the old one is {kept}" if kept else "it is new"))
        return told


def _read(path: Path | None, ignore_foreign: bool) -> tuple[str, TopologyFile]:
    """The topology file's text and content; nothing where there is none, or where it is another's and to be ignored."""
    if path is None or not path.exists():
        return "", TopologyFile()
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return text, parse(text)
    except (OSError, ValueError):
        if not ignore_foreign:
            raise
        return text, TopologyFile()


def _nodes(variables: Mapping[str, Any], name: str) -> list[fleet.NodeInput]:
    hostvars = variables["hostvars"]
    found = []
    for host in variables["ansible_play_hosts_all"]:
        # As they are, not through the template engine: results hold no templates, and thousands of texts each.
        raw = hostvars.raw_get(host)
        first_met = str(raw.get("inventory_file") or "")
        found.append(fleet.NodeInput(host, raw.get(name), hostvars[host], raw, first_met))
    return found
