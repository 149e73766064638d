# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was seen of a node: by the probe, and where that could not run by the inventory plugin gpu_fabric. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import ContractError, shown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import PASS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact_all
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.topology import observed
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.placing import DISCOVERED, ERROR
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.rows import PROBED
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.compare import Seen
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.topology.variables import (
    CHOICES,
    OBSERVABLE,
    clean,
    same,
)

PROBE, PLUGIN = "probe", "gpu_fabric"
OF_GPUS = ("k3_nvlink_domain", "k3_nvlink_partition", "k3_rdma_hcas", "k3_gpudirect_path")


def told_by_plugin(variables: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """(what gpu_fabric told of a node, in the form of observed(), None where it told nothing; why it did not)."""
    found = variables.get(DISCOVERED)
    return found if isinstance(found, Mapping) else None, str(redact_all(str(variables.get(ERROR) or ""), 300))


def seen(row: Mapping[str, Any], plugin: tuple[Mapping[str, Any] | None, str], declared: Mapping[str, Any]) -> Seen:
    """What was seen of one node.

    ``row``: its row of the readiness report; ``plugin``: see told_by_plugin(); ``declared``: the clean values that are
    declared for it.
    """
    if row["state"] == PROBED:
        try:
            found = observed(row["facts"])
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            # What a node answers is the node's, and may be anything.
            return Seen("", f"the facts of the probe do not have their form ({type(exc).__name__})")
        return _seen(PROBE, "", found, frozenset(_holding(row["checks"], declared)))
    discovered, error = plugin
    if discovered is None:
        return Seen("", f"{row['reason']}; gpu_fabric: {error}" if error else row["reason"])
    return _seen(PLUGIN, f"the probe could not run ({row['reason']})", discovered, frozenset())


def _seen(by: str, reason: str, found: Mapping[str, Any], holding: frozenset[str]) -> Seen:
    """Only what an inventory may declare counts: a node can tell anything."""
    told = found.get("unknown")
    unknown = {
        name: str(redact_all(str(why), 300))
        for name, why in (told.items() if isinstance(told, Mapping) else ())
        if name in OBSERVABLE
    }
    values: dict[str, Any] = {}
    for name in OBSERVABLE:
        value = found.get(name)
        if name in unknown or value is None or value in ("", []):
            continue
        try:
            values[name] = clean(name, value)
        except ContractError:
            unknown[name] = f"the node tells {shown(value)}, which is not allowed as a value of {name}"
    gpus = found.get("gpu_count")
    if gpus == 0:
        # What only GPUs have is not unreadable on a node without them: it is not there.
        unknown = {name: why for name, why in unknown.items() if name not in OF_GPUS}
    return Seen(by, reason, values, unknown, holding, gpus if isinstance(gpus, int) else None)


def _holding(checks: list[Mapping[str, Any]], declared: Mapping[str, Any]) -> list[str]:
    """The declared choices that the probe was asked about and found to hold."""
    by_id = {check["id"]: check for check in checks}
    return [
        name
        for name, check_id in CHOICES.items()
        if name in declared
        and check_id in by_id
        and by_id[check_id]["status"] == PASS
        and same(declared[name], by_id[check_id]["required"])
    ]
