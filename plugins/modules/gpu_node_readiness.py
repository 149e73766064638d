#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_node_readiness
short_description: Report whether a GPU node can serve Kimi K3, why not, and what cures it
version_added: 0.1.0
description:
  - Reads the node once and answers the readiness contract check by check.
  - Changes nothing, and never fails because of the state of the node. What cannot be read is V(unknown) with the
    reason, and a required thing that is unknown keeps the node from being ready.
  - The list of checks is in C(docs/checks.md) of the collection.
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
  require:
    description:
      - What the node must be. Keys that are left out have the defaults of Kimi K3.
      - The keys, their types and defaults are in C(docs/contract.md) of the collection.
    type: dict
    default: {}
  skip:
    description:
      - Checks that are not to decide, by check id, each with the reason that the report shows.
      - A node with a skipped check is at best V(degraded).
    type: dict
    default: {}
  timeout:
    description:
      - Seconds a single command on the node may take. One that takes longer is V(unknown).
      - The whole probe takes at most three times as long.
    type: float
    default: 20
notes:
  - Without root, what only root may read is V(unknown) with the reason C(needs root).
"""

EXAMPLES = r"""
- name: Probe the node against the defaults of Kimi K3
  gpufleet.kimi_k3.gpu_node_readiness:
  register: probe

- name: Probe a node of a declared NVLink domain, leaving the clock out
  gpufleet.kimi_k3.gpu_node_readiness:
    require:
      nvlink_domain: 6e0a4a1c-0d6b-4a3e-9a58-9d1f7f0f0001
      nvlink_partition: 32766
      weights_path: /data/weights
    skip:
      host.clock: The site's time service is being replaced until Friday.
    timeout: 30
  register: probe
"""

RETURN = r"""
readiness:
  description: The report of this node; its JSON schema is C(docs/readiness.schema.json).
  returned: always
  type: dict
  contains:
    schema:
      description: Version of the report's form.
      type: str
      sample: "1.1"
    verdict:
      description: V(ready), V(degraded) (warnings, skips or optional things unread) or V(not_ready).
      type: str
      sample: not_ready
    root_cause:
      description: Id of the first failing check in the order of causes; null when nothing fails.
      type: str
      sample: driver.branch
    checks:
      description: Every check, in the order of causes.
      type: list
      elements: dict
      contains:
        id:
          description: Check id.
          type: str
          sample: driver.branch
        status:
          description: V(pass), V(warn), V(fail), V(unknown), V(not_applicable) or V(skipped).
          type: str
          sample: fail
        observed:
          description: What was found.
          type: raw
          sample: 575
        required:
          description: What the contract asks for.
          type: raw
          sample: 580
        reason:
          description: One sentence for a person on call.
          type: str
          sample: Driver 575.57.08 is loaded; the CUDA 13 image needs branch 580 or newer.
        evidence:
          description: Where it was read, and the line that decided. Secrets are masked.
          type: list
          elements: dict
          contains:
            source:
              description: File or command.
              type: str
              sample: /proc/driver/nvidia/version
            line:
              description: The line.
              type: str
              sample: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08"
        remedy:
          description: What cures it; null where nothing has to be cured.
          type: dict
          contains:
            action:
              description: The sentence for the person who cures it.
              type: str
              sample: Drain the node, install driver branch 580 or newer in the open flavour, and reboot.
            command:
              description: A line to copy, or null.
              type: str
              sample: systemctl enable --now nvidia-fabricmanager.service
            disruptive:
              description: V(none), V(restart), V(drain) or V(reboot).
              type: str
              sample: reboot
            role:
              description: Role of this collection that cures it, or null.
              type: str
              sample: null
            entry_point:
              description: Its entry point, or null.
              type: str
              sample: null
            playbook:
              description: Playbook of this collection that cures it, or null.
              type: str
              sample: null
            tag:
              description: Tag that selects the cure, or null.
              type: str
              sample: null
        blocking:
          description: Whether an unknown answer keeps the node from being ready.
          type: bool
          sample: true
    facts:
      description: What was read, by concern.
      type: dict
      sample: {machine: {vendors: ["10de"]}}
"""

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils import compile_once

# Before the other imports, so that it serves them.
compile_once.install()

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import ContractError
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.probe import run


def main() -> None:
    """Check the arguments, probe, report."""
    module = AnsibleModule(
        argument_spec={
            "require": {"type": "dict", "default": {}},
            "skip": {"type": "dict", "default": {}},
            "timeout": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    timeout = module.params["timeout"]
    # The comparison also refuses NaN, which is neither below nor above anything.
    if not 1 <= timeout <= 600:
        module.fail_json(msg=f"timeout: {timeout} is not allowed; allowed: seconds from 1 to 600")
    try:
        readiness = run(module.params["require"], module.params["skip"], timeout)
    except ContractError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, readiness=readiness)


if __name__ == "__main__":
    main()
