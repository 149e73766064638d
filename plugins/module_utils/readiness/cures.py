# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What of this collection cures a failing check: the names that a Remedy takes besides its sentence."""

from __future__ import annotations

from typing import TypedDict


class Cure(TypedDict):
    """A role with its entry point, the playbook that runs it, and the tag that runs it alone (None: the whole)."""

    role: str
    entry_point: str
    playbook: str
    tag: str | None


def _of_site(role: str, tag: str | None) -> Cure:
    return {"role": role, "entry_point": "main", "playbook": "gpufleet.kimi_k3.site", "tag": tag}


DRIVER = _of_site("nvidia_driver", "driver")
FABRIC = _of_site("nvidia_fabric", "fabric")
# Packages of the driver's set and what the fabric's role does with them.
DRIVER_AND_FABRIC = _of_site("nvidia_driver", None)
