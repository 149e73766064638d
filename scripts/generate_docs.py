#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes the documents that come from the code: docs/checks.md, docs/contract.md and each role's README.md.

With --check nothing is written: it names the files that are stale and ends with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import checks as tables  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.table import FLEET_CHECKS  # noqa: E402

GENERATED = "<!-- Written by `make docs` from {source}; change it there. -->\n"
MACHINES = {"any": "every machine", "gpu": "machines with GPUs", "nvidia": "machines with NVIDIA GPUs"}


def cell(text: object) -> str:
    """Text for a cell of a table: one line, with bars escaped."""
    return " ".join(str(text).split()).replace("|", "\\|")


def row(cells: Iterable[object]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cell(item) for item in cells) + " |\n"


def checks() -> str:
    """docs/checks.md: every check of every concern, in the order of causes."""
    parts = [
        "# Checks\n\n"
        + GENERATED.format(source="`plugins/module_utils/readiness/checks/`")
        + """
Check ids are a contract under semantic versioning. They stand in the order of causes: where several fail, the first is
the root cause. *Blocking*: an unknown answer keeps the node from being ready; else it only degrades it. What the
short references in the column *source* stand for is told in [sources.md](sources.md).
"""
    ]
    for name, table in tables.TABLES.items():
        parts.append(f"\n## {name}\n\n{(getattr(tables, name).__doc__ or '').strip().splitlines()[0]}\n\n")
        parts.append(row(("id", "decides", "required", "cure", "applies to", "blocking", "source")))
        parts.append(row(["---"] * 7))
        for spec in table:
            cure = spec.remedy.action + (f" ({spec.remedy.disruptive})" if spec.remedy.disruptive != "none" else "")
            if spec.remedy.playbook:
                tag = f" --tags {spec.remedy.tag}" if spec.remedy.tag else ""
                cure += f" `{spec.remedy.playbook}{tag}`"
            parts.append(
                row(
                    (
                        f"`{name}.{spec.name}`",
                        spec.decides,
                        spec.required,
                        cure,
                        MACHINES[spec.machines],
                        "yes" if spec.blocking else "no",
                        spec.source,
                    )
                )
            )
    return "".join(parts) + fleet_checks()


def fleet_checks() -> str:
    """The part of docs/checks.md on what only all nodes together can tell."""
    parts = [
        """
## fleet

What only all nodes together can tell; from `plugins/plugin_utils/fleet/table.py`. A check answers once for each of its
scopes and names the nodes it blames. The majority is what more than half of a scope's nodes have, those that are not
known counted among them; where there is none, all are named. *Blocking*: an unknown answer keeps the fleet from being
ready. With `node_readiness_gate` a blocking check also fails the nodes it blames.

""",
        row(("id", "decides", "scope", "required", "cure", "blocking", "source")),
        row(["---"] * 7),
    ]
    for spec in FLEET_CHECKS:
        cure = spec.remedy.action + (f" ({spec.remedy.disruptive})" if spec.remedy.disruptive != "none" else "")
        blocking = "yes" if spec.blocking else "no"
        parts.append(row((f"`{spec.id}`", spec.decides, spec.scope, spec.required, cure, blocking, spec.source)))
    return "".join(parts)


def contract_keys() -> str:
    """docs/contract.md: every key of `require`."""
    parts = [
        "# The contract\n\n"
        + GENERATED.format(source="`plugins/module_utils/readiness/contract.py`")
        + """
Keys of `require` (module `gpufleet.kimi_k3.gpu_node_readiness`) and of `node_readiness_require` (role
`node_readiness`). What is left out has the default, which is what Kimi K3 needs. Set them for a fleet or a group with
`node_readiness_require`, and for a single host with `node_readiness_require_host`. What the short references in the
column *source* stand for is told in [sources.md](sources.md).

""",
        row(("key", "type", "default", "meaning", "source")),
        row(["---"] * 5),
    ]
    for name, key in contract.KEYS.items():
        kind = " or ".join(f"`{choice}`" for choice in key.choices) or key.type
        limits = (("from", key.minimum), ("to", key.maximum))
        bounds = [f"{word} {limit}" for word, limit in limits if limit is not None]
        default = f"`{yaml_value(key.default)}`"
        parts.append(row((f"`{name}`", " ".join([kind, *bounds]), default, key.meaning, key.source)))
    return "".join(parts)


def yaml_value(value: Any) -> str:
    """A value as one would write it in YAML."""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()


def role_readme(role: Path) -> str:
    """README.md of a role, from its argument specification."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    source = "`meta/argument_specs.yml`"
    parts = [f"# Role `gpufleet.kimi_k3.{role.name}`\n\n" + GENERATED.format(source=source)]
    for entry, spec in specs.items():
        parts.append(f"\n## Entry point `{entry}`\n\n{spec['short_description']}.\n")
        parts += [f"\n{sentence.strip()}\n" for sentence in spec.get("description", [])]
    parts.append("\n## Variables\n\n")
    parts += [row(("variable", "type", "default", "meaning")), row(["---"] * 4)]
    options = {name: option for spec in specs.values() for name, option in spec.get("options", {}).items()}
    for name, option in options.items():
        default = f"`{yaml_value(option['default'])}`" if "default" in option else "required"
        parts.append(row((f"`{name}`", option["type"], default, option["description"])))
    return markup("".join(parts))


def markup(text: str) -> str:
    """Ansible's documentation macros C(x), O(x), V(x) as Markdown."""
    return re.sub(r"\b[COV]\(([^)]*)\)", r"`\1`", text)


def documents() -> dict[Path, str]:
    """Every generated document by its path."""
    found = {ROOT / "docs" / "checks.md": checks(), ROOT / "docs" / "contract.md": contract_keys()}
    for specs in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        role = specs.parents[1]
        found[role / "README.md"] = role_readme(role)
    return found


def main() -> int:
    """Write what is stale, or only name it."""
    stale = [
        path for path, text in documents().items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        print(path.relative_to(ROOT))
        if "--check" not in sys.argv[1:]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(documents()[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
