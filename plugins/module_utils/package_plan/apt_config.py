# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A configuration of apt in a folder of its own: the node's, with the asked-for repositories, and lists of its own.

apt reads it through APT_CONFIG; the node's /etc/apt, lists and caches are read and never written.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import signed
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.machine import Machine
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.model import PlanError
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan.request import Request

# Signatures are checked whatever the node's configuration says. Reading must not run what packages hook into apt.
_ALWAYS = """\
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
// apt 2.6 was seen to wait for ever for the retry of a refused connection; the plan itself asks again.
Acquire::Retries "0";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Acquire::Languages "none";
APT::Get::Show-User-Simulation-Note "false";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb::Contents-deb;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
#clear Acquire::IndexTargets::deb::CNF;
"""


@dataclass(frozen=True)
class AptConfig:
    """Where the configuration is."""

    folder: str

    @property
    def env(self) -> dict[str, str]:
        """What a command of apt needs to read it."""
        return {"APT_CONFIG": f"{self.folder}/apt.conf", "DEBIAN_FRONTEND": "noninteractive"}

    @property
    def status(self) -> str:
        """The copy of dpkg's status that simulations are asked of."""
        return f"{self.folder}/status"


def make(machine: Machine, request: Request, folder: str) -> AptConfig:
    """Write the configuration into an empty folder that only root may enter."""
    etc = f"{folder}/etc/apt"
    os.makedirs(f"{folder}/etc", exist_ok=True)
    shutil.copytree("/etc/apt", etc, ignore_dangling_symlinks=True)
    parts = f"{etc}/apt.conf.d"
    for name in ("apt.conf.d", "sources.list.d", "preferences.d"):
        os.makedirs(f"{etc}/{name}", exist_ok=True)
    os.makedirs(f"{folder}/cache/archives/partial", exist_ok=True)
    for name in ("keys", "log"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    # apt reads its main file after the parts, and would let it override what has to hold here.
    if os.path.exists(f"{etc}/apt.conf"):
        os.replace(f"{etc}/apt.conf", f"{parts}/zzy-main")
    machine.write(
        f"{parts}/zzz-gpufleet",
        f'Dir::State::lists "{folder}/lists/";\n'
        f'Dir::State::status "{folder}/status";\n'
        f'Dir::Log "{folder}/log/";\n'
        f'Dir::Cache "{folder}/cache/";\n' + _ALWAYS,
    )
    machine.write(f"{folder}/apt.conf", f'Dir::Etc "{etc}/";\n')
    for repository in request.repositories:
        _place(machine, repository, folder, etc)
    for file in request.preferences:
        machine.write(etc + file.path[len("/etc/apt") :], file.text or "")
    _seed("/var/lib/apt/lists", f"{folder}/lists")
    return AptConfig(folder)


def _place(machine: Machine, repository: signed.Repository, folder: str, etc: str) -> None:
    copy = etc + repository.path[len("/etc/apt") :]
    if repository.text is None:
        machine.remove(copy)
        return
    text = repository.text
    for path in signed.signed_by(text):
        if repository.key is not None and path == repository.key.path:
            key = f"{folder}/keys/{repository.name}.asc"
            machine.write(key, repository.key.text or "")
            text = text.replace(path, key)
        elif not os.path.exists(path):
            raise PlanError(
                f"repository {repository.name}: its key {path} is not on the node; give it as key, key_path"
            )
    machine.write(copy, text)


def _seed(lists: str, copy: str) -> None:
    """The node's lists, with their times: what did not change since is not fetched again."""
    os.makedirs(f"{copy}/partial", exist_ok=True)
    if os.path.isdir(lists):
        for entry in os.scandir(lists):
            if entry.is_file(follow_symlinks=False) and entry.name != "lock":
                shutil.copy2(entry.path, f"{copy}/{entry.name}")
