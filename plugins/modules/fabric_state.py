#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_state
short_description: Read what decides how a node's NVLink fabric is set up, and how far the GPUs have come
version_added: 0.2.0
description:
  - Services, packages, kernel modules and their options, addresses and files of the role C(nvidia_fabric), and who has
    a GPU open. The probe does not ask all of it, since it matters only to a change.
  - With O(await) it reads only how far the service and the registration of the GPUs are.
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
  kind:
    description: What the node is - a board with NVSwitches, one with NVLink 5, or a tray of an NVLink rack.
    type: str
    choices: [hgx, hgx_nvlink5, tray]
    required: true
  await:
    description: The service that is waited for. Where it is given, only the progress is read.
    type: str
    choices: [manager, imex]
  kernels:
    description: Kernels whose modules and initramfs are looked at.
    type: list
    elements: str
    default: []
  options_file:
    description: The file with the options of the module, which an initramfs must be newer than.
    type: path
    default: /etc/modprobe.d/gpufleet-nvidia-fabric.conf
  files:
    description: Files whose text is wanted.
    type: list
    elements: path
    default: []
  timeout:
    description: Seconds a single command may take.
    type: float
    default: 20
"""

EXAMPLES = r"""
- name: Wait until every GPU has registered with the fabric
  gpufleet.kimi_k3.fabric_state:
    kind: hgx
    await: manager
  register: fabric
  until: fabric.settled
  retries: 120
  delay: 5
"""

RETURN = r"""
now:
  description: What was read; a value that could not be read is a dictionary with C(unknown), the reason.
  returned: always
  type: dict
  contains:
    driver:
      description: Version of the loaded driver, or null.
      type: str
      sample: 580.126.20
    gpus:
      description: State and status of each GPU's registration with the fabric.
      type: list
      elements: dict
      sample: [{bdf: "0000:1b:00.0", state: Completed, status: Success}]
    units:
      description: The units of fabric manager and IMEX, as systemd has them.
      type: dict
      sample: {manager: {LoadState: loaded, ActiveState: active, UnitFileState: enabled}}
    unloaded:
      description: Modules that a board with NVLink 5 needs and that are not loaded.
      type: list
      elements: str
      sample: []
    modules:
      description: By kernel, those of these modules that are not on disk.
      type: dict
      sample: {6.8.0-85-generic: []}
    options:
      description: Options of the module C(nvidia), and where each is set.
      type: list
      elements: dict
      sample: [{source: /etc/modprobe.d/nvidia.conf, option: NVreg_CreateImexChannel0, value: "1"}]
    holders:
      description: Processes that have a GPU open.
      type: list
      elements: dict
      sample: [{pid: 4242, name: python3, unit: docker-0123.scope}]
settled:
  description: Whether the service runs and every GPU has registered, or the service has failed.
  returned: with O(await)
  type: bool
  sample: true
"""

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils import compile_once

# Before the other imports, so that it serves them.
compile_once.install()

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.fabric_node import state
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import to_json
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node


def main() -> None:
    """Read and report."""
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "choices": sorted(state.KINDS), "required": True},
            "await": {"type": "str", "choices": ["manager", "imex"]},
            "kernels": {"type": "list", "elements": "str", "default": []},
            "options_file": {"type": "path", "default": "/etc/modprobe.d/gpufleet-nvidia-fabric.conf"},
            "files": {"type": "list", "elements": "path", "default": []},
            "timeout": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    asked = module.params
    node = Node(timeout=asked["timeout"])
    if asked["await"]:
        now = state.progress(node, asked["kind"])
        module.exit_json(changed=False, now=to_json(now), settled=state.settled(now, asked["await"]))
    now = state.read(node, asked["kind"], asked["kernels"], asked["options_file"], asked["files"])
    module.exit_json(changed=False, now=to_json(now))


if __name__ == "__main__":
    main()
