#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/fabric_decision.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_decision
short_description: Decide on the control node what the NVLink fabric of a node needs, and whether it may be changed
version_added: 0.2.0
description:
  - The control node's part of the role C(nvidia_fabric), which is the way to use it. It decides; what is changed is
    changed by the role's tasks.
  - Every reason to refuse comes at once, a line each.
author:
  - GPU Fleet contributors (@gpufleet)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: none
options:
  step:
    description:
      - V(preflight) holds the variables of all hosts against what is allowed.
      - V(kind) tells what fabric the node has; V(plan) decides what is done to it, or refuses the node.
      - V(idle) fails where somebody works on the GPUs of the partition that is about to be disturbed.
      - V(awaited) fails the node whose fabric did not come up.
      - V(tell) puts the run into lines for people.
    type: str
    choices: [awaited, idle, kind, plan, preflight, tell]
    required: true
  facts:
    description: The facts of the node's probe.
    type: dict
    default: {}
  wish:
    description: The variables of the role.
    type: dict
  table:
    description: The data table of the role.
    type: dict
  node:
    description: The answer of V(kind).
    type: dict
  now:
    description: The answer of M(gpufleet.kimi_k3.fabric_state).
    type: dict
    default: {}
  plan:
    description: The answer of V(plan).
    type: dict
  predicted:
    description: Plans of M(gpufleet.kimi_k3.package_plan).
    type: list
    elements: dict
    default: []
  foreseen:
    description: The C(foreseen) of V(tell) of M(gpufleet.kimi_k3.driver_decision), where a dry run foretold the driver.
    type: dict
    default: {}
  seconds:
    description: How long the fabric was waited for.
    type: int
seealso:
  - module: gpufleet.kimi_k3.fabric_state
  - module: gpufleet.kimi_k3.package_plan
"""

EXAMPLES = r"""
- name: Refuse wrong variables of any node before the first is contacted
  gpufleet.kimi_k3.fabric_decision:
    step: preflight
  run_once: true
  any_errors_fatal: true
"""

RETURN = r"""
msg:
  description: Every reason to refuse, a line each.
  returned: on failure
  type: str
  sample: "nvidia_fabric_imex_owner: '' is not allowed on a tray of an NVLink rack"
node:
  description: What the node is, by which evidence, and the kernels in question.
  returned: when O(step=kind)
  type: dict
  sample: {kind: hgx_nvlink5, evidence: product b200, kernels: [6.8.0-85-generic]}
plan:
  description: Packages, files, modules and services that change, and the run in lines.
  returned: when O(step=plan)
  type: dict
  sample: {kind: hgx, awaits: manager}
summary:
  description: The run, line by line.
  returned: when O(step=tell)
  type: list
  elements: str
  sample: ["service nvidia-fabricmanager.service: enabled at boot, started"]
nodes:
  description: How many hosts there are.
  returned: when O(step=preflight)
  type: int
  sample: 18
"""
