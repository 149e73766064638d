# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One file a concern: its table CHECKS and both halves, collect(node) -> facts and assess(facts, require) -> checks."""

from __future__ import annotations

from types import ModuleType

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import (
    container,
    driver,
    fabric,
    gpu,
    gpudirect,
    host,
    network,
    rdma,
    storage,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Spec

CONCERNS: dict[str, ModuleType] = {
    "host": host,
    "driver": driver,
    "gpu": gpu,
    "fabric": fabric,
    "gpudirect": gpudirect,
    "rdma": rdma,
    "container": container,
    "network": network,
    "storage": storage,
}


def specs() -> list[tuple[str, Spec]]:
    """(check id, specification) of every check, in the order of causes."""
    return [(f"{name}.{spec.name}", spec) for name, concern in CONCERNS.items() for spec in concern.CHECKS]
