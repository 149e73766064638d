# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.changing_run; documented beside the modules."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit import log
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.audit.entry import Deed, Run, entry
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.changing_run import identity, nodes, preflight


class ActionModule(ActionBase):
    """Begins a run, judges the locks of all nodes, and tells how it ended; needs no node to be alive."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Result by step; see plugins/modules/changing_run.py."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(
            {
                "step": {"type": "str", "choices": ["begin", "foresee", "take", "end"], "required": True},
                "playbook": {"type": "str"},
                "dir": {"type": "str"},
                "run_id": {"type": "str", "default": ""},
                "steal": {"type": "list", "elements": "str", "default": []},
            },
            required_if=[("step", "begin", ["playbook", "dir"])],
        )
        self._variables = task_vars or {}
        self._check = bool(self._task.check_mode)
        try:
            answer = self._begin(options) if options["step"] == "begin" else self._later(options["step"])
        except (OSError, identity.RunFault, ValueError) as exc:
            answer = {"failed": True, "msg": str(exc)}
        result.update({"changed": False, **answer})
        return result

    def _begin(self, options: dict[str, Any]) -> dict[str, Any]:
        hostvars = self._variables["hostvars"]
        hosts = self._variables["ansible_play_hosts_all"]
        given = {
            "changing_run_playbook": options["playbook"],
            "changing_run_report_dir": options["dir"],
            "k3_run_id": options["run_id"],
            "k3_lock_steal": options["steal"],
        }
        # Chained and not merged: merging would evaluate every variable of every host.
        of_host = {host: ChainMap(hostvars[host], given) for host in hosts}
        found = preflight.faults(of_host, load_extra_vars(self._loader))
        if found:
            return {"failed": True, "msg": "\n".join(found)}
        # A relative folder means: below the folder in which the command was given.
        reports = Path(options["dir"]).expanduser().absolute()
        # The worker in which this runs ends with the task; its parent ends with the run.
        run, folder, again = identity.begin(reports, options["playbook"], options["run_id"], os.getppid(), self._check)
        begun = Run(run.run_id, run.playbook, run.user, run.controller, str(folder))
        self._record(
            begun,
            [
                Deed(
                    "continue the run" if again else "begin the run",
                    "ok",
                    after={"hosts": hosts, "steal": options["steal"]},
                    check=self._check,
                )
            ],
        )
        Display().display(f"run {run.run_id} of playbook {run.playbook}; record: {folder / log.NAME}")
        return {**asdict(begun), "record": str(folder / log.NAME), "steal": options["steal"]}

    def _later(self, step: str) -> dict[str, Any]:
        begun = Run.begun(self._variables)
        if step == "end":
            return self._end(begun)
        results = self._registered("__changing_run_foreseen" if step == "foresee" else "changing_run_lock")
        stolen = {
            str(result["previous"]["run_id"])
            for result in results.values()
            if result and result.get("outcome") == "stolen" and result.get("previous")
        }
        at_work = identity.at_work(Path(begun.folder).parent, stolen) if stolen and step == "foresee" else {}
        judged = nodes.gate(results, self._check, at_work)
        # What was foreseen goes into the record where it decides: in a dry run, and where the run ends with it.
        if step == "take" or self._check or judged.faults:
            self._record(begun, judged.deeds)
        if step == "foresee" and judged.faults and not self._check:
            return {"failed": True, "msg": "\n".join(judged.faults), "faults": judged.faults}
        for fault in judged.faults if self._check else ():
            Display().warning(f"The real run would be refused: {fault}")
        if step == "take":
            return {"faults": judged.faults, "give_back": judged.give_back, "missing": judged.missing}
        return {"faults": judged.faults, "missing": judged.missing}

    def _end(self, begun: Run) -> dict[str, Any]:
        ended = nodes.Ending()
        if not self._check:
            ended = nodes.ending(
                self._registered("__changing_run_foreseen"),
                self._registered("changing_run_lock"),
                self._registered("__changing_run_release"),
                list(self._variables["ansible_play_hosts"]),
                begun.run_id,
            )
        deeds = nodes.not_told(ended, self._registered("changing_run_ended").values(), begun.run_id)
        whole = {"released": ended.released, "kept": ended.kept, "lost": ended.lost}
        result = "failed" if ended.kept or ended.lost else "ok"
        self._record(begun, [*deeds, Deed("end the run", result, after=whole, check=self._check)])
        if not self._check:
            for line in nodes.summary(ended, begun.run_id):
                Display().display(line)
        return {**whole, "run_id": begun.run_id}

    def _registered(self, variable: str) -> dict[str, Any]:
        """A registered result of every host of the play, None where it has none."""
        # As they are, not through the template engine: results hold no templates.
        hostvars = self._variables["hostvars"]
        return {host: hostvars.raw_get(host).get(variable) for host in self._variables["ansible_play_hosts_all"]}

    def _record(self, run: Run, deeds: Iterable[Deed]) -> None:
        role = self._task._role.get_name() if self._task._role else ""
        tags = tuple(self._task.tags)
        log.append(Path(run.folder), [entry(run, replace(deed, role=role, tags=tags)) for deed in deeds])
