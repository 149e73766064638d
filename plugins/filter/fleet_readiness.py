# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The filter gpufleet.kimi_k3.fleet_readiness; documented beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.readiness import fleet_readiness
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import FleetInputError


def _fleet_readiness(rows: Any, declared: Any = None) -> dict[str, Any]:
    """See fleet_readiness(); wrong input is an error of the filter."""
    try:
        return fleet_readiness(rows, {} if declared is None else declared)
    except FleetInputError as exc:
        raise AnsibleFilterError(f"fleet_readiness: {exc}") from exc


class FilterModule:
    """What Ansible asks a file of filters for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The filter by its name."""
        return {"fleet_readiness": _fleet_readiness}
