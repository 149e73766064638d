# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.peer_plan; documented beside the modules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.declared import declared_of
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.peers import plan


class ActionModule(ActionBase):
    """Says who tries whom, from what the nodes of the play registered as they began to listen."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Result: peers and untried, both by host; see plugin_utils.peers.plan()."""
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec({"variable": {"type": "str", "required": True}})
        variables = task_vars or {}
        hostvars = variables["hostvars"]
        nodes = {}
        # With serial, an earlier batch has left results behind, and its listeners have ended.
        batch = {*variables["ansible_play_batch"], *variables["ansible_play_hosts"]}
        for host in variables["ansible_play_hosts_all"]:
            raw = hostvars.raw_get(host)
            registered = raw.get(options["variable"])
            skipped = isinstance(registered, Mapping) and registered.get("skipped")
            deployment = declared_of(raw, partial(hostvars.__getitem__, host))["deployment"]
            nodes[host] = {
                "deployment": deployment or None,
                "result": None if skipped or host not in batch else registered,
            }
        made = plan(nodes)
        if not any(made["peers"].values()) and not any(made["untried"].values()):
            result["warnings"] = [
                "node_readiness_peer_test: nothing is tried, since no deployment (k3_deployment) has two nodes here"
            ]
        result.update(changed=False, **made)
        return result
