#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/topology_report.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: topology_report
short_description: Compare the declared topology of all nodes of a play with the one that is there
version_added: 0.2.0
description:
  - Takes the registered probe result of every host of the play, and where the probe could not run what the inventory
    plugin P(gpufleet.kimi_k3.gpu_fabric#inventory) told of it; holds it against the declared variables, prints the
    differences and writes C(topology.json) into a folder of its own, to which the link C(latest-topology) points.
  - Where O(write=true) declares what was found in an inventory file that is there to be reviewed. The difference is
    shown, the old file is kept beside it, and nothing is taken out because it was not seen.
  - Runs on the control node and needs no host to be alive; use it with C(run_once).
author:
  - GPU Fleet contributors (@gpufleet)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: The report is written in check mode as well; the topology file is not.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: full
    details: Without diff mode the difference is printed as well.
options:
  dir:
    description: Folder for the reports on the control node; a relative one is below the current folder.
    type: str
    required: true
  file:
    description: The topology file, an inventory in YAML on the control node.
    type: str
  write:
    description: Whether to declare in O(file) what was found.
    type: bool
    default: false
  overwrite:
    description: Whether O(file) may be replaced where this collection did not write it.
    type: bool
    default: false
  variable:
    description: Name of the registered variable that holds each host's probe result.
    type: str
    default: node_readiness_result
"""

EXAMPLES = r"""
- name: Compare
  gpufleet.kimi_k3.topology_report:
    dir: reports
  run_once: true
"""

RETURN = r"""
backup:
  description: Where the old topology file is kept; empty where there was none.
  returned: when the topology file was written
  type: str
  sample: /srv/fleet/inventory/topology.yml.20261130T210000Z.bak
conflicts:
  description: What the topology file declares while Ansible uses another value, which is written elsewhere.
  returned: success
  type: list
  elements: dict
  sample: [{host: gb-07, variable: k3_data_interface, file: bond0, used: eth0}]
file:
  description: The topology file.
  returned: when O(write=true)
  type: str
  sample: /srv/fleet/inventory/topology.yml
gate_fault:
  description: Why the declared topology is not the one that is there; empty where it is.
  returned: success
  type: str
  sample: "1 declared values are not what is there (gb-07: k3_nvlink_partition)"
report:
  description: Path of the C(topology.json) that was written.
  returned: success
  type: str
  sample: /srv/fleet/reports/20261130T210000Z-topology/topology.json
summary:
  description: How many nodes there are, how many were not seen, and how many values there are in each state.
  returned: success
  type: dict
  sample:
    nodes: 18
    not_seen: 1
    values: {same: 80, holds: 0, differs: 1, undeclared: 0, unknown: 5, none: 4}
"""
