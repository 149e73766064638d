#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/peer_plan.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: peer_plan
short_description: Say which node tries which in the test of a deployment's ports
version_added: 0.2.0
description:
  - The nodes of a deployment (C(k3_deployment)) form a ring, and each tries its two neighbours.
  - Runs on the control node and needs no host to be alive; use it with C(run_once).
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
  variable:
    description: Name of the registered variable that holds each host's result of the step V(listen).
    type: str
    required: true
seealso:
  - module: gpufleet.kimi_k3.gpu_node_peers
"""

EXAMPLES = r"""
- name: Plan who tries whom
  gpufleet.kimi_k3.peer_plan:
    variable: listener
  run_once: true
  register: plan
"""

RETURN = r"""
peers:
  description: By host, the peers to try; each has name, address, token and ports.
  returned: success
  type: dict
  sample:
    gpu-01: [{name: gpu-02, address: 10.0.0.12, token: 5c1c0a3e, ports: {}}]
untried:
  description: By host, the peers that cannot be tried, each with the reason.
  returned: success
  type: dict
  sample:
    gpu-01: [{peer: gpu-03, reason: it is unreachable}]
"""
