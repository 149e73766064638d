#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/readiness_preflight.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: readiness_preflight
short_description: Refuse wrong input of the probe before any node is contacted
version_added: 0.1.0
description:
  - Holds the C(node_readiness_*) and declared C(k3_*) variables of every host of the play against what is allowed,
    and the host names against what is safe in commands and reports.
  - All faults come in one error, each with host, variable, value and what is allowed.
  - Runs on the control node; use it with C(run_once) and C(any_errors_fatal).
author:
  - GPU Fleet contributors (@gpufleet)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: N/A
    details: This action changes nothing.
options: {}
"""

EXAMPLES = r"""
- name: Refuse wrong input
  gpufleet.kimi_k3.readiness_preflight:
  run_once: true
  any_errors_fatal: true
"""

RETURN = r"""
msg:
  description: Every fault found, a line each.
  returned: on failure
  type: str
  sample: "host gpu-01: node_readiness_timeout: 'soon' is not allowed; allowed: seconds from 1 to 600"
gated:
  description: Whether any host asks for the gate (C(node_readiness_gate)).
  returned: on success
  type: bool
  sample: false
nodes:
  description: How many hosts were looked at.
  returned: on success
  type: int
  sample: 18
peers:
  description: Whether any host asks for the test of the deployments' ports (C(node_readiness_peer_test)).
  returned: on success
  type: bool
  sample: false
"""
