#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/driver_decision.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_decision
short_description: Decide on the control node what a change of the driver is, and whether it may be
version_added: 0.2.0
description:
  - The control node's part of the role C(nvidia_driver), which is the way to use it. It reads and decides; what
    changes a node is done by M(gpufleet.kimi_k3.package_plan).
  - Every reason to refuse comes at once, a line each.
author:
  - GPU Fleet contributors (@gpufleet)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: In check mode O(step=resolve) writes no record, and O(step=change) shows its refusals instead of failing.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: none
options:
  step:
    description:
      - V(preflight) holds the variables of all hosts against what is allowed.
      - V(key) fetches the keys of the repositories that the hosts take, and checks their fingerprints.
      - V(request) makes the request to the package manager of one node, or refuses the node.
      - V(recorded) looks up the version that was chosen earlier; V(resolve) chooses one for all hosts and records it.
      - V(change) judges a plan; V(same) that it is still what was shown; V(idle) that nobody works on the GPUs.
      - V(tell) puts the run into lines for people.
      - V(unbuilt) names the kernels that lack the module; V(prove) fails the node that must not be rebooted.
    type: str
    choices: [change, idle, key, preflight, prove, recorded, request, resolve, same, tell, unbuilt]
    required: true
  facts:
    description: The facts of the node's probe.
    type: dict
  wish:
    description: The variables of the role.
    type: dict
  table:
    description: The data table of the role.
    type: dict
  now:
    description: The answer of M(gpufleet.kimi_k3.driver_preconditions).
    type: dict
  request:
    description: The answer of V(request).
    type: dict
  plan:
    description: A plan of M(gpufleet.kimi_k3.package_plan).
    type: dict
  predicted:
    description: Plans that belong to it (the headers), or that were shown before.
    type: list
    elements: dict
    default: []
  files:
    description: The files that the role writes, and whether each changes.
    type: dict
    default: {}
  services:
    description: The services the role touches, each with what becomes of it.
    type: dict
    default: {}
  rollback:
    description: The answer of M(gpufleet.kimi_k3.driver_rollback_cache).
    type: dict
    default: {}
  refused:
    description: What a dry run is refused for.
    type: list
    elements: str
    default: []
  dir:
    description: Folder of the record of chosen versions on the control node.
    type: str
seealso:
  - module: gpufleet.kimi_k3.package_plan
  - module: gpufleet.kimi_k3.driver_preconditions
  - module: gpufleet.kimi_k3.driver_rollback_cache
"""

EXAMPLES = r"""
- name: Refuse wrong variables of any node before the first is contacted
  gpufleet.kimi_k3.driver_decision:
    step: preflight
  run_once: true
  any_errors_fatal: true
"""

RETURN = r"""
msg:
  description: Every reason to refuse, a line each.
  returned: on failure
  type: str
  sample: the GPUs are in use by python3 (4242 of vllm.service); drain the node first
request:
  description: What is asked of the node, with the arguments of M(gpufleet.kimi_k3.package_plan) as C(plan).
  returned: when O(step=request)
  type: dict
  sample: {version: 580.126.20, flavour: open}
key_texts:
  description: The public keys, by their rows of the table.
  returned: when O(step=key)
  type: dict
  sample: {}
version:
  description: The version chosen earlier, or empty.
  returned: when O(step=recorded)
  type: str
  sample: 580.126.20
versions:
  description: The version of each host.
  returned: when O(step=resolve)
  type: dict
  sample: {gpu-01: 580.126.20}
new:
  description: What was chosen now, by branch and source.
  returned: when O(step=resolve)
  type: dict
  sample: {580 vendor: 580.126.20}
file:
  description: The record that was written, or empty.
  returned: when O(step=resolve)
  type: str
  sample: /srv/fleet/reports/nvidia_driver_versions.json
refused:
  description: Why a real run would be refused.
  returned: when O(step=change)
  type: list
  elements: str
  sample: []
left_behind:
  description: Packages of the driver that the plan would leave at another version.
  returned: when O(step=change)
  type: list
  elements: str
  sample: [nvidia-smi]
old:
  description: The packages that a rollback needs.
  returned: when O(step=change)
  type: list
  elements: dict
  sample: [{name: nvidia-open, arch: amd64, version: 575.57.08-1}]
old_versions:
  description: The driver's version of before, or several.
  returned: when O(step=change)
  type: str
  sample: 575.57.08
summary:
  description: The run, line by line.
  returned: when O(step=tell)
  type: list
  elements: str
  sample: ["reboot: yes, driver 575.57.08 is loaded, and 580.126.20 will be on disk"]
foreseen:
  description: The driver's version on disk afterwards, and that of each package that changes (null where it goes).
  returned: when O(step=tell)
  type: dict
  sample: {version: 580.126.20, packages: {nvidia-open: 580.126.20, nvidia-fabricmanager-575: null}}
commands:
  description: Commands that build the module for kernels that lack it.
  returned: when O(step=unbuilt)
  type: list
  elements: list
  sample: []
nodes:
  description: How many hosts there are.
  returned: when O(step=preflight)
  type: int
  sample: 18
"""
