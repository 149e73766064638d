# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the inventory declares of where a node belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import named

# Key of the filter's ``declared`` -> the inventory variable it stands for.
VARIABLES = {
    "deployment": "k3_deployment",
    "nvlink_domain": "k3_nvlink_domain",
    "nvlink_partition": "k3_nvlink_partition",
}
LEFT_OUT_SHOWN = 5
TEMPLATE_MARKS = ("{{", "{%", "{#")


def declared_of(raw: Mapping[str, Any], evaluated: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """``{"deployment", "nvlink_domain", "nvlink_partition"}`` of one host, None for what it does not declare.

    ``raw``: its variables as they were written; ``evaluated``: answers with the same through the template engine,
    which costs milliseconds a host, so it is only asked where one of the three is a template.
    """
    found = {key: raw.get(variable) for key, variable in VARIABLES.items()}
    templates = [key for key, value in found.items() if isinstance(value, str) and _is_template(value)]
    if templates:
        values = evaluated()
        found.update({key: values[VARIABLES[key]] for key in templates})
    return found


def left_out(inside: Mapping[str, Mapping[str, Any]], outside: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each deployment and NVLink domain that is only in part in a run. Both: host -> declared_of()."""
    told = []
    for key, words in (("deployment", "deployment"), ("nvlink_domain", "NVLink domain")):
        begun = {str(values[key]) for values in inside.values() if values[key]}
        missing: dict[str, list[str]] = {}
        for host, values in outside.items():
            if values[key] and str(values[key]) in begun:
                missing.setdefault(str(values[key]), []).append(host)
        told += [
            f"{words} {name} is only in part in this run: {named(hosts, LEFT_OUT_SHOWN)} "
            f"{'is' if len(hosts) == 1 else 'are'} not, and no fleet check speaks of what was left out"
            for name, hosts in missing.items()
        ]
    return told


def _is_template(text: str) -> bool:
    return any(mark in text for mark in TEMPLATE_MARKS)
