#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/topology_preflight.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: topology_preflight
short_description: Refuse wrong options of the topology playbook before any node is contacted
version_added: 0.2.0
description:
  - Holds the variables C(topology_write), C(topology_file), C(topology_gate) and C(topology_overwrite) against what
    is allowed; looks whether the topology file can be written, and whether one that is there is the playbook's.
  - All faults come in one error, each with variable, value and what is allowed.
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
- name: Refuse wrong options
  gpufleet.kimi_k3.topology_preflight:
  register: topology_preflight
  run_once: true
  any_errors_fatal: true
"""

RETURN = r"""
msg:
  description: Every fault found, a line each.
  returned: on failure
  type: str
  sample: "topology_write: 'maybe' is not allowed; allowed: true or false"
file:
  description: The topology file; empty where none was named and the inventory is no file.
  returned: on success
  type: str
  sample: /srv/fleet/inventory/topology.yml
gate:
  description: Whether the run fails where declared and found are not the same.
  returned: on success
  type: bool
  sample: false
overwrite:
  description: Whether a file that the playbook did not write may be replaced.
  returned: on success
  type: bool
  sample: false
write:
  description: Whether the topology file is to be written.
  returned: on success
  type: bool
  sample: true
"""
