#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_journal
short_description: Leave one line of a run in the node's journal
version_added: 0.1.0
description:
  - Writes to the journal of systemd, or where there is none to C(/dev/log). Where there is neither, the answer says so.
  - Secrets in the line are masked. C(journalctl GPUFLEET_RUN_ID=...) finds all lines of a run.
  - M(gpufleet.kimi_k3.audit_record) calls it; it is seldom needed by itself.
author:
  - GPU Fleet contributors (@gpufleet)
requirements:
  - Python 3.9 or newer on the node, nothing else
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: In check mode no line is written.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: N/A
    details: A line in a log is no state that could differ.
options:
  text:
    description: The line; line ends in it become spaces, and it ends after 4000 characters.
    type: str
    required: true
  run_id:
    description: Id of the run.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Leave a line
  gpufleet.kimi_k3.node_journal:
    text: the driver set was installed
    run_id: 20261130T210000Z-1a2b3c4d
"""

RETURN = r"""
journal:
  description: Where the line is, V(journal), V(syslog) or V(none).
  returned: always
  type: str
  sample: journal
journal_fault:
  description: Why it is nowhere.
  returned: always
  type: str
  sample: ""
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.node_journal import record


def main() -> None:
    """Write the line, answer where it is."""
    module = AnsibleModule(
        argument_spec={"text": {"type": "str", "required": True}, "run_id": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    place, fault = ("none", "") if module.check_mode else record(module.params["text"], module.params["run_id"])
    module.exit_json(changed=False, journal=place, journal_fault=fault)


if __name__ == "__main__":
    main()
