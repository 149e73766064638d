# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.audit_record; documented beside the modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit import log
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit.entry import RESULTS, Deed, Run, entry, sentence


class ActionModule(ActionBase):
    """Adds one line to the record of the run, and one to the node's journal."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Result: record (the file), journal and journal_fault."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(
            {
                "what": {"type": "str", "required": True},
                "result": {"type": "str", "choices": list(RESULTS), "default": "changed"},
                "before": {"type": "raw"},
                "after": {"type": "raw"},
                "journal": {"type": "bool", "default": True},
            }
        )
        variables = task_vars or {}
        check = bool(self._task.check_mode)
        try:
            run = Run.begun(variables)
            deed = Deed(
                options["what"],
                options["result"],
                variables["inventory_hostname"],
                # As they were given: the specification would make a text of a number.
                before=self._task.args.get("before"),
                after=self._task.args.get("after"),
                check=check,
                become_user=self._become_user(),
                role=self._task._role.get_name() if self._task._role else "",
                tags=tuple(self._task.tags),
                no_log=bool(self._task.no_log),
            )
            line = entry(run, deed)
            record = log.append(Path(run.folder), [line])
        except (OSError, ValueError) as exc:
            result.update(failed=True, msg=f"the change cannot be recorded: {exc}")
            return result
        place, fault = "none", ""
        # The record is written by now; a node that no longer answers must not take that away.
        if options["journal"] and not check and options["result"] != "unreachable":
            place, fault = self._journal(sentence(line), run.run_id, variables)
        result.update(changed=False, record=str(record), journal=place, journal_fault=fault)
        return result

    def _journal(self, text: str, run_id: str, variables: dict[str, Any]) -> tuple[str, str]:
        try:
            done = self._execute_module(
                module_name="gpufleet.kimi_k3.node_journal",
                module_args={"text": text, "run_id": run_id},
                task_vars=variables,
            )
        except AnsibleConnectionFailure as exc:
            return "none", f"the node did not answer: {str(exc).splitlines()[0]}"
        return str(done.get("journal", "none")), str(done.get("journal_fault") or done.get("msg") or "")

    def _become_user(self) -> str:
        """As whom the node was changed; empty without become."""
        if self._connection.become is None:
            return ""
        return str(self.get_become_option("become_user") or "root")
