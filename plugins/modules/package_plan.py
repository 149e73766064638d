#!/usr/bin/python
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: package_plan
short_description: Show what a package transaction would do to a node, and carry out exactly that
version_added: 0.2.0
description:
  - Plans repository files, installations, removals, holds and module streams as one transaction, for apt and for dnf 4.
  - The plan is made against package lists of its own, so it is true also for a repository that the node does not have
    yet, and making it changes nothing on the node.
  - O(state=present) makes the plan anew, refuses where it is not the one in O(expect), hands exactly its packages and
    versions to the package manager, and compares the node with the plan afterwards.
  - Everything that can be refused is refused before the node is changed.
author:
  - GPU Fleet contributors (@gpufleet)
requirements:
  - Python 3.9 or newer on the node
  - apt and dpkg, or dnf 4 and rpm
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    support: full
    details: In check mode O(state=present) and O(state=downloaded) do what O(state=planned) does.
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in C(check_mode)) in diff mode.
    support: full
options:
  repositories:
    description: Repository files that the plan takes packages from, or that are to go.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: A name for messages, and for O(install[].repository).
        type: str
        required: true
      path:
        description: Where the file stands, below C(/etc/apt/sources.list.d) or C(/etc/yum.repos.d).
        type: path
        required: true
      content:
        description:
          - The whole file. It must name the key that signs the repository (C(Signed-By), or C(gpgcheck=1) and
            C(gpgkey)).
          - What would take unsigned packages (C(trusted=yes), C(allow-insecure), C(gpgcheck=0) and the like) is
            refused.
        type: str
      key:
        description: The public key as text. Left out where O(repositories[].key_path) is on the node already.
        type: str
      key_path:
        description: Where the key stands, below C(/usr/share/keyrings), C(/etc/apt/keyrings) or C(/etc/pki/rpm-gpg).
        type: path
      state:
        description: V(absent) takes the file away, as for a former origin of the same packages.
        type: str
        choices: [present, absent]
        default: present
  preferences:
    description: Files of apt's pins, written together with the repositories and in force for the plan.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where the file stands, below C(/etc/apt/preferences.d).
        type: path
        required: true
      content:
        description: The whole file.
        type: str
        required: true
  install:
    description: Packages that are to be there.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the package.
        type: str
        required: true
      version:
        description:
          - The version in full (V(580.126.20-1ubuntu1), V(3:580.126.20-1.el9)), or an upstream version or its
            beginning up to a dot (V(580.126.20), V(580)), which must then fit one version on offer.
          - Left out, any installed version will do.
        type: str
      arch:
        description: Architecture as the package manager spells it.
        type: str
      pick:
        description: V(newest) takes the newest of several versions that fit; V(only) refuses them.
        type: str
        choices: [only, newest]
        default: only
      repository:
        description: Take it from this one of O(repositories) and from no other.
        type: str
  remove:
    description: Names or patterns of packages that are to go. Only those that are installed count.
    type: list
    elements: str
    default: []
  allow_remove:
    description:
      - Names or patterns of packages that may go where what is installed does not go with them. Any other removal that
        nobody asked for is refused.
    type: list
    elements: str
    default: []
  hold:
    description:
      - Names or patterns of packages that are to stay as they are until this module changes them (C(apt-mark hold),
        dnf's versionlock).
      - A hold of the site that these do not name is never changed, and one that is in the plan's way is refused.
    type: list
    elements: str
    default: []
  module_streams:
    description: "For dnf: module and stream, or a list of streams of which the first that exists is taken."
    type: dict
    default: {}
  allow_downgrade:
    description: Whether a package may go back to an older version.
    type: bool
    default: false
  recommends:
    description: Whether recommended packages come along (C(Recommends), weak dependencies).
    type: bool
    default: false
  repair:
    description: Whether to finish what others left half done in the package manager. What a killed run of this module
      left is always finished.
    type: bool
    default: false
  state:
    description:
      - V(planned) shows the plan.
      - V(downloaded) also fetches its packages into O(download_dir).
      - V(present) carries it out.
      - V(held) shows whether a full upgrade of the node would leave the packages of O(hold) alone, and fails if not.
    type: str
    choices: [planned, downloaded, present, held]
    default: planned
  expect:
    description: RV(plan.digest) of the plan that was approved; another plan is refused.
    type: str
  transaction_timeout:
    description: Seconds to wait for the transaction. One that takes longer goes on, and the same command waits for it.
    type: int
    default: 3600
  lock_timeout:
    description: Seconds to wait while another process uses the package manager.
    type: int
    default: 600
  download_dir:
    description: Folder for fetched packages.
    type: path
    default: /var/cache/gpufleet-kimi-k3/packages
notes:
  - What a transaction needs to be finished after a killed run is in C(/var/lib/gpufleet-kimi-k3/package-plan), which
    only root may read.
  - The transaction runs as a unit of systemd where there is one, so it goes on when the connection is lost.
"""

EXAMPLES = r"""
- name: Show what branch 580 would change, from a repository that the node does not have yet
  gpufleet.kimi_k3.package_plan:
    repositories:
      - name: cuda
        path: /etc/apt/sources.list.d/cuda.sources
        key: "{{ lookup('ansible.builtin.file', 'cuda.asc') }}"
        key_path: /usr/share/keyrings/cuda.asc
        content: |
          Types: deb
          URIs: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
          Suites: /
          Signed-By: /usr/share/keyrings/cuda.asc
    install:
      - {name: nvidia-open, version: 580.126.20, repository: cuda}
      - {name: nvidia-fabricmanager, version: 580.126.20, repository: cuda}
    remove: ["*nvidia*-575*"]
    hold: ["*nvidia*"]
  register: shown

- name: Carry out the plan that was shown, or nothing
  gpufleet.kimi_k3.package_plan:
    install:
      - {name: nvidia-open, version: 580.126.20}
    state: present
    expect: "{{ shown.plan.digest }}"
"""

RETURN = r"""
plan:
  description: What the transaction does, or did.
  returned: always, unless refused before there was a plan
  type: dict
  contains:
    packages:
      description: Every package that changes, and those asked for that stay.
      type: list
      elements: dict
      contains:
        name:
          description: Name.
          type: str
          sample: nvidia-open
        arch:
          description: Architecture.
          type: str
          sample: amd64
        from:
          description: Installed version, or null.
          type: str
          sample: 575.57.08-1
        to:
          description: Version afterwards, or null.
          type: str
          sample: 580.126.20-1
        action:
          description: V(install), V(upgrade), V(downgrade), V(remove) or V(keep).
          type: str
          sample: upgrade
        origin:
          description: Name of the repository, or the address of one that is not in O(repositories).
          type: str
          sample: cuda
    repositories:
      description: Every file of O(repositories) and O(preferences), with V(create), V(change), V(remove) or V(none).
      type: list
      elements: dict
      sample: [{path: /usr/share/keyrings/cuda.asc, action: create}]
    holds:
      description: C(add), C(keep) and C(release) are ours, C(foreign) the site's.
      type: dict
      sample: {add: [nvidia-open], keep: [], release: [], foreign: [docker-ce]}
    streams:
      description: Modules of dnf with the stream before and after.
      type: list
      elements: dict
      sample: [{name: nvidia-driver, from: null, to: 580-open, action: enable}]
    available:
      description: Versions on offer of each package of O(install), newest first.
      type: dict
      sample: {nvidia-open: [580.126.20-1, 580.95.05-1]}
    half_done:
      description: Packages that a killed or failed transaction left unfinished.
      type: list
      elements: str
      sample: []
    download_bytes:
      description: Bytes still to be fetched; null where unknown.
      type: int
      sample: 412345678
    disk_bytes:
      description: Bytes that the installed packages grow by; null where unknown.
      type: int
      sample: 1234567890
    certain:
      description: Whether this is what O(state=present) would do. It does nothing where this is false.
      type: bool
      sample: true
    unknown:
      description: Why it is not certain.
      type: list
      elements: str
      sample: []
    warnings:
      description: What is wrong and not in the way.
      type: list
      elements: str
      sample: []
    digest:
      description: What O(expect) takes.
      type: str
      sample: 0f343b0931126a20f133d67c2b018a3b5f0e5f3c8c1b6a0c2b7c8d9e0f1a2b3c
files:
  description: The packages that were fetched.
  returned: with O(state=downloaded)
  type: list
  elements: str
  sample: [/var/cache/gpufleet-kimi-k3/packages/nvidia-open_580.126.20-1_amd64.deb]
hold_proof:
  description: The held packages, those that a full upgrade would touch (none), and newer versions that are on offer.
  returned: with O(state=held), and with O(state=present) where O(hold) is given
  type: dict
  sample: {packages: [nvidia-open], touched: [], newer: {nvidia-open: 595.71.05-1}}
resumed:
  description: The unit of an earlier run that was killed and is finished now, or null.
  returned: with O(state=present)
  type: str
  sample: null
log:
  description: The last lines of the transaction.
  returned: on failure of the transaction
  type: list
  elements: str
  sample: ["E: Sub-process /usr/bin/dpkg returned an error code (1)"]
"""

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils import compile_once

# Before the other imports, so that it serves them.
compile_once.install()

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import arguments
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.carry_out import run
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError, RunError


def main() -> None:
    """Check the arguments, plan, carry out where asked, report."""
    module = AnsibleModule(argument_spec=arguments.SPEC, supports_check_mode=True)
    try:
        module.exit_json(**run(module.params, module.check_mode))
    except PlanError as exc:
        module.fail_json(msg=str(exc), changed=False)
    except RunError as exc:
        module.fail_json(msg=str(exc), changed=True, **exc.facts)


if __name__ == "__main__":
    main()
