# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is checked: one table a concern. Tables stand apart from the code, so that knowing the ids does not load it."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks import (
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

# In the order of causes.
TABLES: dict[str, tuple[Spec, ...]] = {
    "host": host.CHECKS,
    "driver": driver.CHECKS,
    "gpu": gpu.CHECKS,
    "fabric": fabric.CHECKS,
    "gpudirect": gpudirect.CHECKS,
    "rdma": rdma.CHECKS,
    "container": container.CHECKS,
    "network": network.CHECKS,
    "storage": storage.CHECKS,
}


def specs() -> list[tuple[str, Spec]]:
    """(check id, specification) of every check, in the order of causes."""
    return [(f"{name}.{spec.name}", spec) for name, table in TABLES.items() for spec in table]
