# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.readiness_preflight; documented beside the modules."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.readiness_preflight import (
    faults,
    gated,
    internal_faults,
    peers,
)


class ActionModule(ActionBase):
    """Refuses wrong input of any node before the first is contacted."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fails with every fault at once; else the result tells how many nodes there are and whether any is gated."""
        result = super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        hosts = variables["ansible_play_hosts_all"]
        # Once for each host: on a large fleet its variables are what this costs.
        of_host = {host: variables["hostvars"][host] for host in hosts}
        found = internal_faults(load_extra_vars(self._loader)) + faults(of_host)
        if found:
            result.update(failed=True, msg="\n".join(found))
        else:
            result.update(changed=False, nodes=len(hosts), gated=gated(of_host), peers=peers(of_host))
        return result
