# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An action that runs a module on the node and keeps the node from setting variables by its answer."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action.normal import ActionModule as Normal


class AnswerOnly(Normal):
    """As without an action of its own, but `ansible_facts` of the answer are dropped.

    Ansible makes variables of them, which count for more than the inventory's: a node could choose where its report
    is written, that it is not gated, or which rack it belongs to.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """The module's result without `ansible_facts`."""
        result: dict[str, Any] = super().run(tmp=tmp, task_vars=task_vars)
        result.pop("ansible_facts", None)
        return result
