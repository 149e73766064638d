# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Units as systemd sees them."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

# Every unit the probe ever asks about: one systemctl answers for all of them.
UNITS = (
    "containerd.service",
    "docker.service",
    "firewalld.service",
    "nvidia-cdi-refresh.service",
    "nvidia-fabricmanager.service",
    "nvidia-imex.service",
    "nvidia-persistenced.service",
    "nvlsm.service",
    "openibd.service",
    "podman.socket",
    "ufw.service",
)
PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState,MainPID,Result,LimitMEMLOCK"
ARGV = ["systemctl", "show", *UNITS, "--property=" + PROPERTIES]
# The command as evidence: with every unit in it nobody would read it.
SOURCE = "systemctl show"


def unit(node: Node, name: str) -> dict[str, str] | Unknown:
    """The properties of one unit of UNITS, as text: LoadState (loaded, not-found, masked), ActiveState and the rest.

    Unknown where systemd does not answer (no systemd, a broken bus).
    """
    units = node.once("systemd units", lambda: _units(node))
    if isinstance(units, Unknown):
        return units
    if name not in units:
        return Unknown(f"systemctl did not tell the state of {name}", SOURCE)
    return units[name]


def is_active(node: Node, name: str) -> bool | Unknown:
    """Whether the unit is active now; a unit that is not installed is not."""
    state = unit(node, name)
    return state if isinstance(state, Unknown) else state["ActiveState"] == "active"


def _units(node: Node) -> dict[str, dict[str, str]] | Unknown:
    result = node.run(ARGV)
    if result.error == "missing":
        return Unknown("systemd is not installed", SOURCE)
    if result.error:
        return Unknown(f"systemctl gave no answer: {result.error} {result.detail}".rstrip(), SOURCE)
    if result.rc != 0:
        said = " ".join(result.stderr.split())[:200] or "nothing"
        return Unknown(f"systemctl ended with {result.rc} and said: {said}", SOURCE)
    found = {}
    # One block a unit, in the order asked for, with an empty line between. An alias is told under its real name, so
    # the order counts and not the Id.
    for name, block in zip(UNITS, result.stdout.strip().split("\n\n")):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if "LoadState" in values and "ActiveState" in values:
            found[name] = values
    return found
