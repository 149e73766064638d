# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One file a concern, with both halves: collect(node) -> facts and assess(facts, require) -> checks.

Loaded when they are needed: a machine without GPUs never reads the code that judges their driver.
"""

from __future__ import annotations

from types import ModuleType


def load(name: str) -> ModuleType:
    """The module of a concern (a key of checks.TABLES)."""
    # Spelt out, because Ansible sends a node only what it sees imported.
    # pylint: disable=import-outside-toplevel
    if name == "host":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import host

        return host
    if name == "driver":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import driver

        return driver
    if name == "gpu":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import gpu

        return gpu
    if name == "fabric":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import fabric

        return fabric
    if name == "gpudirect":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import gpudirect

        return gpudirect
    if name == "rdma":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import rdma

        return rdma
    if name == "container":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import container

        return container
    if name == "network":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import network

        return network
    if name == "storage":
        from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import storage

        return storage
    raise KeyError(name)
