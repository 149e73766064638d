#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_preconditions
short_description: Tell what stands in the way of a change of the driver right now
version_added: 0.2.0
description:
  - Who has a GPU open, how much room there is, whether the root is kept over a reboot, and which initramfs is older
    than the configuration in it. The probe does not ask these, since they matter only to a change.
  - Changes nothing.
author:
  - GPU Fleet contributors (@gpufleet)
requirements:
  - Python 3.9 or newer on the node, nothing else
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: N/A
    details: This module changes nothing.
options:
  room:
    description: Paths whose filesystems are asked for free room.
    type: list
    elements: path
    default: [/, /var, /boot]
  kernels:
    description: Kernels whose initramfs is looked at.
    type: list
    elements: str
    default: []
  newer_than:
    description: Files that an initramfs must be newer than.
    type: list
    elements: path
    default: []
  wait:
    description: Seconds to wait until nobody else uses the package manager; left out, it is not asked about.
    type: int
  timeout:
    description: Seconds a single command may take.
    type: float
    default: 20
"""

EXAMPLES = r"""
- name: Read what stands in the way
  gpufleet.kimi_k3.driver_preconditions:
  register: now
"""

RETURN = r"""
now:
  description: What was read; a value that could not be read is a dictionary with C(unknown), the reason.
  returned: always
  type: dict
  contains:
    package_manager:
      description: Why the package manager is not free; empty where it is.
      type: str
      sample: ""
    holders:
      description: Processes that have a GPU open.
      type: list
      elements: dict
      sample: [{pid: 4242, name: python3, unit: docker-0123.scope}]
    room:
      description: Free bytes by path, and where it is mounted.
      type: dict
      sample: {/boot: {free: 536870912, mount: /boot}}
    volatile:
      description: Why the root is not kept over a reboot; empty where it is.
      type: str
      sample: ""
    stale_initramfs:
      description: Kernels whose initramfs is older than O(newer_than).
      type: list
      elements: str
      sample: []
"""

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils import compile_once

# Before the other imports, so that it serves them.
compile_once.install()

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.driver_node import preconditions
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import to_json
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node


def main() -> None:
    """Read and report."""
    module = AnsibleModule(
        argument_spec={
            "room": {"type": "list", "elements": "path", "default": ["/", "/var", "/boot"]},
            "kernels": {"type": "list", "elements": "str", "default": []},
            "newer_than": {"type": "list", "elements": "path", "default": []},
            "wait": {"type": "int"},
            "timeout": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    asked = module.params
    node = Node(timeout=asked["timeout"])
    now = preconditions.read(node, asked["room"], asked["kernels"], asked["newer_than"], asked["wait"])
    module.exit_json(changed=False, now=to_json(now))


if __name__ == "__main__":
    main()
