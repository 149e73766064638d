#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/changing_run.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: changing_run
short_description: Begin and end a run that changes nodes, and judge the locks of all of them at once
version_added: 0.1.0
description:
  - The control node's part of the role C(changing_run), which is the way to use it.
  - Runs on the control node and needs no host to be alive; use it with C(run_once).
author:
  - GPU Fleet contributors (@gpufleet)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: The record is written in check mode as well, each line with C(check) true; it is on the control node.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: none
options:
  step:
    description:
      - V(begin) holds the variables of all hosts against what is allowed, makes the run's id, or continues the run
        of O(run_id), and makes its folder.
      - V(foresee) fails with every node whose lock this run would not get, before any lock is taken.
      - V(take) records who has which lock, and answers which are to be given back since others were not got.
      - V(end) records and prints what became of the locks.
    type: str
    choices: [begin, foresee, take, end]
    required: true
  playbook:
    description: Name of the playbook. Needed for V(begin).
    type: str
  dir:
    description: Folder for the records on the control node; a relative one is below the current folder.
    type: str
  run_id:
    description: Id of the run to be continued.
    type: str
    default: ""
  steal:
    description: Ids of the runs whose locks may be taken over.
    type: list
    elements: str
    default: []
seealso:
  - module: gpufleet.kimi_k3.node_lock
  - module: gpufleet.kimi_k3.audit_record
"""

EXAMPLES = r"""
- name: Begin the run
  gpufleet.kimi_k3.changing_run:
    step: begin
    playbook: site
    dir: reports
  register: changing_run_begun
  run_once: true
  any_errors_fatal: true
"""

RETURN = r"""
run_id:
  description: Id of the run.
  returned: when O(step=begin) or O(step=end)
  type: str
  sample: 20261130T210000Z-1a2b3c4d
user:
  description: Who runs it, on the control node.
  returned: when O(step=begin)
  type: str
  sample: ops
controller:
  description: Name of the control node.
  returned: when O(step=begin)
  type: str
  sample: ctrl-1
folder:
  description: Folder of the run on the control node.
  returned: when O(step=begin)
  type: str
  sample: /srv/fleet/reports/20261130T210000Z-site
record:
  description: The record of the run.
  returned: when O(step=begin)
  type: str
  sample: /srv/fleet/reports/20261130T210000Z-site/audit.jsonl
faults:
  description: A sentence for each reason why the run must not go on.
  returned: when O(step=foresee) or O(step=take)
  type: list
  elements: str
  sample: []
missing:
  description: Hosts that did not answer.
  returned: when O(step=foresee) or O(step=take)
  type: list
  elements: str
  sample: []
give_back:
  description: Hosts whose lock this run has just taken and must give back.
  returned: when O(step=take)
  type: list
  elements: str
  sample: []
released:
  description: Hosts whose lock was released.
  returned: when O(step=end)
  type: list
  elements: str
  sample: [gpu-01]
kept:
  description: Hosts that still have the lock of this run, each with the reason.
  returned: when O(step=end)
  type: dict
  sample: {gpu-07: it did not answer}
lost:
  description: Hosts whose lock was no longer this run's, each with whose it is.
  returned: when O(step=end)
  type: dict
  sample: {}
"""
