#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_lock
short_description: Take, keep, release or read the lock that keeps two runs from changing one node at once
version_added: 0.1.0
description:
  - The lock is one file on the node, made and replaced as a whole. It says which run holds it, who runs it from where,
    since when, and when that run last showed a sign of life.
  - It is on the disk and not in C(/run), so that it outlives a restart of the node - one that the run itself asked
    for, and one by which the run died.
  - It is never taken over because it is old. Who takes it over names the run that loses it (O(steal)).
  - A lock that is a link, belongs to somebody else, can be written by others or cannot be read is an error; it is
    neither followed nor deleted.
author:
  - GPU Fleet contributors (@gpufleet)
requirements:
  - Python 3.9 or newer on the node, nothing else
  - root, unless O(folder) belongs to the user
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details:
      - Nothing is written, not even to the node's journal. What would be refused is no failure but a warning, with
        the sentence in RV(refused), so that a dry run of a whole playbook comes to its end.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: none
options:
  state:
    description:
      - V(taken) takes the lock; it is refused where another run holds it. Taken again with the same O(run_id) it is
        refreshed, which is how a run that was killed is continued.
      - V(refreshed) is a sign of life from a run that must already hold it. It is refused where the lock is gone or
        another run's; the run must then not go on at this node.
      - V(released) removes it, if it is this run's.
      - V(query) only tells, and never fails because of what it finds.
    type: str
    choices: [taken, refreshed, released, query]
    required: true
  run_id:
    description: Id of the run, as the role C(changing_run) makes it. Not needed for V(query).
    type: str
  playbook:
    description: Name of the playbook. Needed for V(taken) and V(refreshed).
    type: str
    default: ""
  user:
    description: Who runs it, on the control node. Needed for V(taken) and V(refreshed).
    type: str
    default: ""
  controller:
    description: Name of the control node. Needed for V(taken) and V(refreshed).
    type: str
    default: ""
  step:
    description: What the run is about to do, for whoever finds the lock later.
    type: str
    default: ""
  steal:
    description: Ids of the runs whose lock may be taken over. A lock that another run holds is left.
    type: list
    elements: str
    default: []
  folder:
    description:
      - Folder of the lock on the node; it is made (mode 0700), the one above it is not.
      - All runs on a node must name the same, or they do not see each other.
    type: str
    default: /var/lib/gpufleet-kimi-k3
seealso:
  - module: gpufleet.kimi_k3.audit_record
"""

EXAMPLES = r"""
- name: Take the lock
  gpufleet.kimi_k3.node_lock:
    state: taken
    run_id: 20261130T210000Z-1a2b3c4d
    playbook: site
    user: ops
    controller: ctrl-1

- name: Take it over from a run that is known to be dead
  gpufleet.kimi_k3.node_lock:
    state: taken
    run_id: 20261130T213000Z-5e6f7a8b
    steal: [20261130T210000Z-1a2b3c4d]
    playbook: site
    user: ops
    controller: ctrl-1

- name: See who holds the lock
  gpufleet.kimi_k3.node_lock:
    state: query
  register: holder
"""

RETURN = r"""
outcome:
  description:
    - V(taken), V(refreshed), V(stolen) or V(released), in check mode what would be.
    - V(free) or V(held), where nothing was to be done or could be.
    - V(lost), where the lock is no longer this run's. V(faulty), where it cannot be read or written.
  returned: always
  type: str
  sample: taken
refused:
  description: Why the run must not go on at this node, and what to do; empty where it may.
  returned: always
  type: str
  sample: ""
lock:
  description: The lock as it is afterwards; null where it is free or cannot be read.
  returned: always
  type: dict
  sample:
    run_id: 20261130T210000Z-1a2b3c4d
    playbook: site
    user: ops
    controller: ctrl-1
    started: "2026-11-30T21:00:00Z"
    refreshed: "2026-11-30T21:04:10Z"
    step: Install the driver set
    boot_id: 0b5f0f0e-6a58-4c1e-9d0a-1c2d3e4f5a6b
previous:
  description: The lock as it was before; null where it was free or cannot be read.
  returned: always
  type: dict
  sample: null
run_id:
  description: The run that asked.
  returned: always
  type: str
  sample: 20261130T210000Z-1a2b3c4d
journal:
  description: Where a line was left on the node, V(journal) or V(syslog); V(none) where there was none to leave.
  returned: always
  type: str
  sample: journal
journal_fault:
  description: Why no line could be left where there was one to leave.
  returned: always
  type: str
  sample: ""
"""

import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.ask import ask, boot_id, input_faults
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_lock.rules import STATES, Request


def main() -> None:
    """Check the arguments, ask, answer."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": list(STATES), "required": True},
            "run_id": {"type": "str"},
            "playbook": {"type": "str", "default": ""},
            "user": {"type": "str", "default": ""},
            "controller": {"type": "str", "default": ""},
            "step": {"type": "str", "default": ""},
            "steal": {"type": "list", "elements": "str", "default": []},
            "folder": {"type": "str", "default": "/var/lib/gpufleet-kimi-k3"},
        },
        required_if=[("state", state, ["run_id"]) for state in ("taken", "refreshed", "released")],
        supports_check_mode=True,
    )
    given = dict(module.params)
    folder = given.pop("folder")
    request = Request(
        **{**given, "run_id": given["run_id"] or "", "steal": tuple(given["steal"])}, now=time.time(), boot_id=boot_id()
    )
    faults = input_faults(request, folder)
    if faults:
        module.fail_json(msg="\n".join(faults))
    answer = {"run_id": request.run_id, **ask(request, folder, module.check_mode)}
    if answer["refused"] and request.state != "query":
        if not module.check_mode:
            module.fail_json(msg=answer["refused"], **answer)
        module.warn(answer["refused"])
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
