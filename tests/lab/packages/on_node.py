# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs package_plan on a node of the lab without Ansible: arguments as JSON from standard input, the answer as JSON.

What the module's face does besides (types and defaults of arguments) is done here from its own argument spec.
"""

from __future__ import annotations

import json
import sys
from typing import Any

sys.path.insert(0, "/srv/collections")

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import arguments, carry_out, model


def with_defaults(given: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """The arguments as Ansible hands them on."""
    unknown = set(given) - set(spec)
    if unknown:
        raise SystemExit(f"no such arguments: {unknown}")
    full: dict[str, Any] = {}
    for name, option in spec.items():
        value = given.get(name, option.get("default"))
        if "options" in option:
            value = [with_defaults(item, option["options"]) for item in value]
        full[name] = value
    return full


given = json.load(sys.stdin)
check_mode = given.pop("check_mode", False)
try:
    answer = carry_out.run(with_defaults(given, arguments.SPEC), check_mode)
except model.PlanError as exc:
    answer = {"refused": str(exc)}
except model.RunError as exc:
    answer = {"failed": str(exc), **exc.facts}
print(json.dumps(answer))
