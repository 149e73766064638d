#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/readiness_report.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: readiness_report
short_description: Write the readiness report of all nodes of a play and print it as a table
version_added: 0.1.0
description:
  - Takes the registered probe result of every host of the play, also of those that were unreachable or whose probe
    broke, writes the report and prints a table that is readable without colour.
  - The report is C(readiness.json), and the same for a browser (C(readiness.html)), for test viewers
    (C(readiness.junit.xml)) and for Prometheus (C(readiness.prom)).
  - Nodes are also held against each other, by the NVLink domain and the deployment they are in (C(k3_deployment),
    C(k3_nvlink_domain) and C(k3_nvlink_partition) of the inventory); see the filter
    P(gpufleet.kimi_k3.fleet_readiness#filter).
  - Each report has a folder of its own, named by time (UTC) and playbook; the link C(latest) points to the newest.
  - Runs on the control node and needs no host to be alive; use it with C(run_once).
author:
  - GPU Fleet contributors (@gpufleet)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: The report is written in check mode as well; it is on the control node, and it is the result.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: none
options:
  dir:
    description: Folder for the reports on the control node; a relative one is below the current folder.
    type: str
    required: true
  playbook:
    description: Name of the playbook, for the folder's name.
    type: str
    required: true
  variable:
    description: Name of the registered variable that holds each host's result.
    type: str
    default: node_readiness_result
"""

EXAMPLES = r"""
- name: Write the report
  gpufleet.kimi_k3.readiness_report:
    dir: reports
    playbook: probe
  run_once: true
"""

RETURN = r"""
fleet:
  description: What the nodes are together, and which of them keep the fleet from being ready.
  returned: success
  type: dict
  contains:
    verdict:
      description: The worst of all nodes and fleet checks.
      type: str
      sample: not_ready
    root_cause:
      description: Id of the first fleet check that keeps the fleet from being ready; null when none does.
      type: str
      sample: fleet.driver
    blamed:
      description: By host, the fleet checks that keep it from being ready, each with its scope.
      type: dict
      sample: {tray-07: [fleet.driver (domain rack-a)]}
report:
  description: Path of the C(readiness.json) that was written.
  returned: success
  type: str
  sample: /srv/fleet/reports/20261130T210000Z-probe/readiness.json
summary:
  description: How many nodes there are, in all and by verdict.
  returned: success
  type: dict
  sample: {nodes: 18, ready: 17, degraded: 0, not_ready: 1}
"""
