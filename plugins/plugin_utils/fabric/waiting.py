# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why the fabric did not come up, by what each GPU and the service said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.fabric_node.state import UNITS, registered
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import is_unknown, why


def fault(now: Mapping[str, Any], awaited: str, seconds: int, nodes: list[str]) -> str:
    """The reasons, a line each; empty where the fabric is up.

    ``now``: the answer of fabric_state after waiting for the unit ``awaited`` (manager, imex) for so many seconds.
    ``nodes``: the trays that IMEX waits for.
    """
    unit, gpus = now["units"][awaited], now["gpus"]
    active = unit.get("ActiveState") == "active"
    if active and registered(gpus):
        return ""
    name = UNITS[awaited]
    failed = unit.get("ActiveState") == "failed"
    found = [f"{name} failed" if failed else f"the NVLink fabric is not up after {seconds} s"]
    if is_unknown(unit):
        found.append(f"the state of {name} is not known: {why(unit)}")
    elif not active:
        found.append(f"{name} is {unit['ActiveState']} ({unit['SubState']}, result {unit['Result']})")
    if awaited == "imex" and not active:
        found.append(f"it may wait for IMEX on the other trays of its nodes file: {', '.join(nodes)}")
    unloaded = now.get("unloaded")
    if isinstance(unloaded, list) and unloaded:
        found.append(
            f"{' and '.join(unloaded)} {'is' if len(unloaded) == 1 else 'are'} not loaded, so the fabric manager took "
            "this NVLink 5 board for an older one and found nothing to do (C15)"
        )
    if is_unknown(gpus):
        found.append(f"what the GPUs say is not known: {why(gpus)}")
    elif not gpus:
        found.append("nvidia-smi lists no GPU")
    else:
        found += [f"{gpu['bdf']}: state {gpu['state']}, status {gpu['status']}" for gpu in gpus]
    log = (now.get("manager") or {}).get("log")
    if awaited == "manager" and isinstance(log, list):
        found += [f"the fabric manager said: {line}" for line in log[-3:]]
    return "\n".join(found)
