# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The declared variables that can also be observed: their form, and when two of their values mean the same."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.readiness_preflight import DECLARED

# Whether rails reach each other (k3_rail_isolated) is a property of switches, which no node shows.
OBSERVABLE = tuple(name for name in DECLARED if name != "k3_rail_isolated")
# A choice among what the node has: another value than the node's own is no mistake while it holds there. Each with the
# check of the probe that says whether it does.
CHOICES = {"k3_data_interface": "network.data_interface", "k3_gpudirect_path": "gpudirect.path"}


def clean(name: str, value: Any) -> Any:
    """``value`` of the variable ``name`` in plain types, in the form in which an inventory declares it.

    ContractError where the contract does not allow it.
    """
    key = DECLARED[name]
    value = contract.resolve({key: value})[key]
    if isinstance(value, list):
        return [str(item) for item in value]
    # The driver tells a clusterUuid in small letters.
    return str(value).lower() if name == "k3_nvlink_domain" else str(value)


def is_open(name: str, value: Any) -> bool:
    """Whether ``value`` leaves the matter to the node, as the contract does without a word from the user."""
    return bool(value == contract.KEYS[DECLARED[name]].default)


def same(first: Any, second: Any) -> bool:
    """Whether two clean values mean the same; the order of a list of HCAs carries no meaning."""
    if isinstance(first, list) and isinstance(second, list):
        return sorted(first) == sorted(second)
    return bool(first == second)
