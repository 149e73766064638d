# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the inventory declares of where a node belongs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# Key of the filter's ``declared`` -> the inventory variable it stands for.
VARIABLES = {
    "deployment": "k3_deployment",
    "nvlink_domain": "k3_nvlink_domain",
    "nvlink_partition": "k3_nvlink_partition",
}
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


def _is_template(text: str) -> bool:
    return any(mark in text for mark in TEMPLATE_MARKS)
