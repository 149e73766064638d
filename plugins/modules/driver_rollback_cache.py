#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_rollback_cache
short_description: Keep the installed packages of the driver on the node, so that they can be put back
version_added: 0.2.0
description:
  - Fetches exactly the given versions into a folder that only root may enter, from the node's caches or its
    repositories, and writes C(record.json) beside them - versions, holds, module options and repository files of now.
  - A record of the same packages that is complete is left as it is, so that a run that finishes an interrupted one does
    not write over what was there before it.
author:
  - GPU Fleet contributors (@gpufleet)
requirements:
  - Python 3.9 or newer on the node
  - apt and dpkg, or dnf 4 with its download plugin and rpm
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: In check mode nothing is fetched, and RV(missing) says what could not be had.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: none
options:
  manager:
    description: The package manager.
    type: str
    choices: [apt, dnf]
    required: true
  folder:
    description: The folder; it is made.
    type: path
    required: true
  packages:
    description: The packages with the versions that are installed now.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name.
        type: str
        required: true
      arch:
        description: Architecture as the package manager spells it.
        type: str
        required: true
      version:
        description: Whole version.
        type: str
        required: true
  record:
    description: What else the record is to hold.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Keep what is there
  gpufleet.kimi_k3.driver_rollback_cache:
    manager: apt
    folder: /var/lib/gpufleet-kimi-k3/rollback/575.57.08
    packages:
      - {name: nvidia-open, arch: amd64, version: 575.57.08-1}
"""

RETURN = r"""
complete:
  description: Whether every package is in the folder.
  returned: success
  type: bool
  sample: true
missing:
  description: What is not, each with the reason.
  returned: success
  type: list
  elements: str
  sample: []
files:
  description: The files.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/gpufleet-kimi-k3/rollback/575.57.08/nvidia-open_575.57.08-1_amd64.deb]
folder:
  description: The folder.
  returned: success
  type: str
  sample: /var/lib/gpufleet-kimi-k3/rollback/575.57.08
"""

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils import compile_once

# Before the other imports, so that it serves them.
compile_once.install()

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.driver_node import rollback
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine


def main() -> None:
    """Check the arguments, fetch, record, report."""
    package = {name: {"type": "str", "required": True} for name in ("name", "arch", "version")}
    module = AnsibleModule(
        argument_spec={
            "manager": {"type": "str", "choices": ["apt", "dnf"], "required": True},
            "folder": {"type": "path", "required": True},
            "packages": {"type": "list", "elements": "dict", "required": True, "options": package},
            "record": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    asked = module.params
    wrong = rollback.valid(asked["packages"])
    if wrong:
        module.fail_json(msg=f"packages: {wrong} is not allowed; allowed: name, arch and version of a package")
    if not asked["folder"].startswith("/"):
        module.fail_json(msg=f"folder: {asked['folder']!r} is not allowed; allowed: an absolute path")
    try:
        answer = rollback.keep(
            Machine(), asked["manager"], asked["folder"], asked["packages"], asked["record"], module.check_mode
        )
    except OSError as exc:
        module.fail_json(msg=f"the folder {asked['folder']} cannot be written: {exc}")
    module.exit_json(folder=asked["folder"], **answer)


if __name__ == "__main__":
    main()
