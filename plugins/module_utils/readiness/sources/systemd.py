# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Units as systemd sees them."""

from __future__ import annotations

from typing import Dict, Union

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

PROPERTIES = "LoadState,ActiveState,SubState,UnitFileState,MainPID,Result"


def unit(node: Node, name: str) -> Union[Dict[str, str], Unknown]:
    """The properties of one unit: LoadState (loaded, not-found, masked), ActiveState, SubState, UnitFileState, MainPID, Result.

    Unknown where systemd does not answer (no systemd, a broken bus).
    """
    result = node.run(["systemctl", "show", name, "--property=" + PROPERTIES])
    if not result.ok:
        return result.unknown()
    values = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    if "LoadState" not in values or "ActiveState" not in values:
        return Unknown("`%s` did not tell LoadState and ActiveState" % result.source, result.source)
    return values


def is_active(node: Node, name: str) -> Union[bool, Unknown]:
    """Whether the unit is active now; a unit that is not installed is not."""
    state = unit(node, name)
    return state if isinstance(state, Unknown) else state["ActiveState"] == "active"
