# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Control-node side of gpufleet.kimi_k3.fabric_decision; documented beside the modules."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import steps
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError

SPEC: dict[str, Any] = {
    "step": {"type": "str", "required": True, "choices": sorted(steps.STEPS)},
    "facts": {"type": "dict", "default": {}},
    "wish": {"type": "dict"},
    "table": {"type": "dict"},
    "node": {"type": "dict"},
    "now": {"type": "dict", "default": {}},
    "plan": {"type": "dict"},
    "predicted": {"type": "list", "elements": "dict", "default": []},
    "foreseen": {"type": "dict", "default": {}},
    "seconds": {"type": "int"},
}


class ActionModule(ActionBase):
    """Decides on the control node what the fabric of a node needs, and whether it may be changed."""

    _requires_connection = False
    _supports_check_mode = True
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Fails with every reason at once; else the step's answer."""
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(SPEC)
        try:
            answer = steps.STEPS[arguments["step"]](arguments, task_vars or {})
        except FabricError as exc:
            result.update(failed=True, changed=False, msg=str(exc))
            return result
        result.update({"changed": False, **answer})
        return result
