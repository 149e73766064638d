# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.topology_preflight; documented beside the modules."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology import preflight


class ActionModule(ActionBase):
    """Refuses wrong options of topology.yml before any node is contacted, and answers with the right ones."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fails with every fault at once; else the result holds the options: write, gate, overwrite, file."""
        result = super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        hosts = variables["ansible_play_hosts_all"]
        options, faults = preflight.options(
            {host: variables["hostvars"][host] for host in hosts},
            load_extra_vars(self._loader),
            variables.get("ansible_inventory_sources") or [],
        )
        if faults:
            result.update(failed=True, msg="\n".join(faults))
        else:
            result.update(
                changed=False,
                write=options.write,
                gate=options.gate,
                overwrite=options.overwrite,
                file=str(options.file or ""),
            )
        return result
