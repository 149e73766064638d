#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

# The documentation of an action, which runs on the control node (plugins/action/audit_record.py).

from __future__ import annotations

DOCUMENTATION = r"""
module: audit_record
short_description: Record what a run changed, on the control node and in the node's journal
version_added: 0.1.0
description:
  - Adds one JSON line to C(audit.jsonl) in the folder of the run. It says who (user, control node, and as whom the
    node was changed), when (UTC), on which node, by which role and tags, what, before, after and with which result.
  - Lines are only ever added, whole and by many processes at once. Only the user may read the file.
  - The same goes into the node's journal, where C(journalctl GPUFLEET_RUN_ID=...) finds it.
  - Secrets are masked - by their form, by the name they have in a dictionary or on a command line, and what came
    out of a vault. Of a task with C(no_log) neither before nor after is written. Texts end after 8000 characters.
  - The run must have begun with the role C(changing_run), whose entry point C(begin) makes the folder.
author:
  - GPU Fleet contributors (@gpufleet)
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: The line is written to the record, with C(check) true; the node's journal is left alone.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: none
options:
  what:
    description: What was done, as one would say it to a colleague.
    type: str
    required: true
  before:
    description: How it was before; any value.
    type: raw
  after:
    description: How it is now, or why it is not; any value.
    type: raw
  result:
    description: What came of it.
    type: str
    choices: [ok, changed, failed, refused, unreachable]
    default: changed
  journal:
    description:
      - Whether the node's journal gets a line, too. It costs a module call.
      - It never does where O(result=unreachable).
    type: bool
    default: true
seealso:
  - module: gpufleet.kimi_k3.node_lock
  - module: gpufleet.kimi_k3.node_journal
"""

EXAMPLES = r"""
- name: Record the driver change
  gpufleet.kimi_k3.audit_record:
    what: install the driver set
    before: {nvidia-driver-cuda: 575.57.08-1}
    after: {nvidia-driver-cuda: 580.126.20-1}
"""

RETURN = r"""
record:
  description: The file the line was added to.
  returned: success
  type: str
  sample: /srv/fleet/reports/20261130T210000Z-site/audit.jsonl
journal:
  description: Where the node has its line, V(journal), V(syslog) or V(none).
  returned: success
  type: str
  sample: journal
journal_fault:
  description: Why it has none, where it should have one.
  returned: success
  type: str
  sample: ""
"""
