#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Makes a running systemd container look like a node whose NVLink fabric is to be set up: `nodes.py NODE CONTAINER`.

NODE names a row of NODES. What stands at the hardware's edge is made up (kernel files, nvidia-smi, and the programs of
stubs/); systemd, apt and dpkg are the real ones. The units of fabric manager and IMEX are stubs, the first of which
brings the GPUs of the stub nvidia-smi into the fabric after some seconds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, gpu  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts.network import ADDRESSES  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import (  # noqa: E402
    KERNELS,
    Profile,
    Reply,
)
from ansible_collections.gpufleet.kimi_k3.tests.lab import materialise  # noqa: E402
from ansible_collections.gpufleet.kimi_k3.tests.lab.fabric import repository  # noqa: E402

STUBS = Path(__file__).with_name("stubs")
MANAGER = "nvidia-fabricmanager.service"
IMEX = "nvidia-imex.service"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
# A fabric manager that was started changes what nvidia-smi answers, and a node is to be as it is before it is looked at.
# When it has, its process has become another (stubs/nv-fabricmanager).
SETTLED = (
    "for n in $(seq 60); do pid=$(systemctl show -P MainPID nvidia-fabricmanager.service); "
    "[ ${pid:-0} -ne 0 ] || exit 0; grep -qz infinity /proc/$pid/cmdline && exit 0; sleep 1; done; exit 1"
)
UNITS = {MANAGER: "/usr/local/lib/stubs/nv-fabricmanager", IMEX: "/bin/sleep infinity"}
TRAYS = [f"192.0.2.{number}" for number in range(10, 21)]
NODES_FILE = "/etc/nvidia-imex/nodes_config.cfg"
MODULES_FILE = "/etc/modules-load.d/gpufleet-nvidia-fabric.conf"
OPTIONS_FILE = "/etc/modprobe.d/gpufleet-nvidia-fabric.conf"
OPTIONS = "options nvidia NVreg_CoherentGPUMemoryMode=driver\noptions nvidia NVreg_CreateImexChannel0=1\n"
PARAMS = 'EnableStreamMemOPs: 0\nCreateImexChannel0: 1\nCoherentGPUMemoryMode: "driver"\n'
# The node serves this repository to itself: it has no network.
SERVER = (
    "[Unit]\nDescription=stub mirror\n[Service]\n"
    "ExecStart=/usr/bin/python3 -m http.server 8000 --bind 127.0.0.1 --directory /srv/www\n"
)
WAIT = (
    "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null; do sleep 0.1; done"
)


@dataclass(frozen=True)
class LabNode:
    """One node: how it is made, what the site says of it, and what is there afterwards.

    ``units``: the stub units that are there, each with what is asked of systemctl before the run. ``expected``: ``units``
    {name: is-enabled, is-active}, ``files`` {path: text or null}, ``told`` texts of the summary, ``packages``.
    """

    profile: Callable[[], Profile]
    expected: dict[str, Any]
    variables: dict[str, Any] = field(default_factory=dict)
    units: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    offers_modules: bool = False


def without_driver(profile: Profile) -> Profile:
    """A node on which no driver has been installed yet."""
    bare = profile.without(
        "/etc/nvidia-imex", "/proc/driver", "/sys/module", "/var/lib/dkms", "/usr/lib", "/var/lib/dpkg", "/dev"
    )
    bare.commands = {
        argv: reply
        for argv, reply in bare.commands.items()
        if not argv[0].startswith(("nvidia", "nv-", "modinfo", "journalctl"))
    }
    bare.units, bare.packages, bare.modules, bare.kernel_log = {}, {}, {"sunrpc": (0, [])}, []
    return bare


def board(kind: str) -> Profile:
    """An HGX board whose packages are in place and whose fabric nobody has started yet."""
    profile = healthy(kind).plus(gpu.answering(kind, every={"fabric/state": "In Progress", "fabric/status": "N/A"}))
    for unit in (MANAGER, "nvlsm.service"):
        profile.units.pop(unit, None)
    for name in ("ib_umad", "mlx5_ib"):
        if kind == "b200":
            profile.modules.pop(name, None)
    return _offline(profile)


def nvlink5(modules: bool) -> Profile:
    """A B200 board whose kernel has the modules of InfiniBand on disk, or lacks them."""
    profile = board("b200")
    profile.files["/etc/stub-nvlink5"] = ""
    # On a real node the fabric manager brings it along; that it is there is what the role asks.
    profile.files["/opt/nvidia/nvlsm/sbin/nvlsm"] = ""
    return profile.plus(_kernel("b200", modules))


def tray(number: int, clique: str = "2", params: str = PARAMS) -> Profile:
    """A tray of a rack, whose fabric is managed elsewhere and complete. ``clique``: its NVLink partition."""
    profile = healthy("gb200").plus(gpu.answering("gb200", every={"fabric/cliqueId": clique})).without(NODES_FILE)
    profile.units.pop(IMEX, None)
    profile.files["/proc/driver/nvidia/params"] = params
    profile.files[f"/boot/initrd.img-{KERNELS['gb200']}"] = ""
    links = [dict(link) for link in ADDRESSES]
    links[1]["addr_info"] = [{"local": TRAYS[number], "scope": "global"}]
    profile.commands["ip", "-j", "addr", "show"] = Reply(json.dumps(links))
    return _offline(profile)


def pcie() -> Profile:
    """Eight H100 PCIe cards: no NVSwitch anywhere."""
    profile = healthy("h100")
    for bdf in gpu.BDFS["h100"]:
        profile.files[f"/sys/bus/pci/devices/{bdf}/device"] = "0x2331\n"
    profile = profile.without("/proc/driver/nvidia-nvswitch", *_switches(profile))
    profile.units.pop(MANAGER)
    profile.packages.pop("nvidia-fabricmanager")
    return _offline(profile)


def _switches(profile: Profile) -> list[str]:
    return [path[: -len("/device")] for path, text in profile.files.items() if text == "0x22a3\n"]


def _offline(profile: Profile) -> Profile:
    """Without the repositories of the profile, which nobody answers for here."""
    return profile.without("/etc/apt")


def _kernel(kind: str, modules: bool) -> Profile:
    paths = ["kernel/net/sunrpc/sunrpc.ko.zst"]
    if modules:
        paths += [
            "kernel/drivers/infiniband/core/ib_umad.ko.zst",
            "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.zst",
        ]
    folder = f"/lib/modules/{KERNELS[kind]}"
    return Profile(files={f"{folder}/modules.dep": "".join(f"{path}:\n" for path in paths)})


def host_owned(*numbers: int, **more: Any) -> dict[str, Any]:
    """What the site says of a tray whose IMEX is the host's."""
    nodes = [TRAYS[number] for number in numbers]
    return {"nvidia_fabric_imex_owner": "host", "nvidia_fabric_imex_nodes": nodes, **more}


STOPPED = ["disabled", "inactive"]
RUNNING = ["enabled", "active"]
DECLARED = {"k3_nvlink_domain": gpu.CLUSTER, "k3_nvlink_partition": "2"}
# A stand-in for a job: a process that has a GPU open.
WORK = "stub-work.service"
WORK_UNIT = (
    "# A test double.\n[Unit]\nDescription=Stub of a job\n\n[Service]\n"
    "ExecStart=/bin/sh -c 'touch /dev/nvidia0; exec sleep infinity </dev/nvidia0'\n"
)

NODES: dict[str, LabNode] = {
    "h100": LabNode(
        lambda: board("h100"),
        {"units": {MANAGER: RUNNING}, "told": [f"service {MANAGER}: enabled at boot, started"]},
        units={MANAGER: []},
    ),
    "h100-reboot-due": LabNode(
        lambda: board("h100").plus(driver.loaded("580.95.05")),
        {
            "units": {MANAGER: ["enabled", "inactive"]},
            "told": [f"not started before the reboot: {MANAGER}", "reboot: due, driver 580.95.05 is loaded"],
        },
        units={MANAGER: []},
    ),
    "b200": LabNode(
        lambda: nvlink5(modules=True),
        {
            "units": {MANAGER: RUNNING},
            "files": {MODULES_FILE: "ib_umad\nmlx5_ib\n"},
            "told": ["module ib_umad: loaded", "module mlx5_ib: loaded", f"file {MODULES_FILE}: made"],
        },
        units={MANAGER: []},
    ),
    "b200-without-modules": LabNode(
        lambda: nvlink5(modules=False),
        {
            "units": {MANAGER: RUNNING},
            "packages": [f"linux-modules-extra-{KERNELS['b200']}"],
            "told": [f"package linux-modules-extra-{KERNELS['b200']} absent -> 1.0-1", "module ib_umad: loaded"],
        },
        units={MANAGER: []},
        offers_modules=True,
    ),
    "b200-bare": LabNode(
        lambda: without_driver(board("b200")).plus(_kernel("b200", True)),
        {
            "files": {MODULES_FILE: "ib_umad\nmlx5_ib\n"},
            "told": ["no driver is loaded", f"not started: {MANAGER}: nvidia-fabricmanager is not installed"],
        },
    ),
    "pcie": LabNode(pcie, {"told": ["fabric: nothing to do (product h100-pcie)"]}),
    # Two trays of one partition; on the one an image's fabric manager is started at boot.
    "tray-host-1": LabNode(
        lambda: tray(0),
        {
            "units": {IMEX: RUNNING, MANAGER: STOPPED},
            "files": {NODES_FILE: f"{TRAYS[0]}\n{TRAYS[1]}\n", OPTIONS_FILE: OPTIONS},
            "told": [f"{MANAGER}: no longer started at boot, stopped", f"initramfs of kernel {KERNELS['gb200']}"],
        },
        host_owned(0, 1, **DECLARED),
        {IMEX: [], MANAGER: ["enable", "start"]},
    ),
    "tray-host-2": LabNode(
        lambda: tray(1, params="CreateImexChannel0: 0\n").without(CHANNEL),
        {
            "units": {IMEX: RUNNING},
            "files": {NODES_FILE: f"{TRAYS[0]}\n{TRAYS[1]}\n", OPTIONS_FILE: OPTIONS},
            "told": ["reboot: due, the loaded module has CreateImexChannel0: 0, and 1 is to be"],
        },
        host_owned(0, 1, **DECLARED),
        {IMEX: []},
    ),
    "tray-busy": LabNode(
        lambda: tray(2, clique="3"),
        {
            "units": {IMEX: ["enabled", "inactive"], WORK: ["static", "active"]},
            "files": {NODES_FILE: None},
            "told": ["start due: ", "the GPUs of tray-busy are in use by sleep ("],
        },
        host_owned(2),
        {IMEX: [], WORK: ["start"]},
    ),
    "tray-peers-away": LabNode(
        lambda: tray(3, clique="4"),
        {
            "units": {IMEX: ["enabled", "active"]},
            "files": {NODES_FILE: f"{TRAYS[3]}\n"},
            "told": [f"restart due: {NODES_FILE} is to be changed", f"{TRAYS[4]} is not in this run"],
        },
        host_owned(3, 4),
        {IMEX: ["enable", "start"]},
        {NODES_FILE: f"{TRAYS[3]}\n"},
    ),
    "tray-restart-asked": LabNode(
        lambda: tray(5, clique="5"),
        {
            "units": {IMEX: RUNNING},
            "files": {NODES_FILE: f"{TRAYS[5]}\n{TRAYS[6]}\n"},
            "told": [f"file {NODES_FILE}: changed (disturbs", f"service {IMEX}: restarted (disturbs"],
        },
        host_owned(5, 6, nvidia_fabric_imex_restart=True),
        {IMEX: ["enable", "start"], WORK: ["start"]},
        {NODES_FILE: f"{TRAYS[5]}\n"},
    ),
    "tray-slurm": LabNode(
        lambda: tray(8, clique="6"),
        {"units": {IMEX: ["disabled", "active"]}, "files": {NODES_FILE: None}, "told": ["it may serve a job of Slurm"]},
        {"nvidia_fabric_imex_owner": "slurm"},
        {IMEX: ["enable", "start"]},
    ),
    "tray-dra": LabNode(
        lambda: tray(9, clique="7"),
        {"units": {IMEX: ["masked", "inactive"]}, "files": {NODES_FILE: None}, "told": [f"service {IMEX}: masked"]},
        {"nvidia_fabric_imex_owner": "dra"},
        {IMEX: []},
    ),
    "tray-none": LabNode(
        lambda: tray(10, clique="8"),
        {"units": {IMEX: RUNNING}, "files": {NODES_FILE: None}, "told": [f"{IMEX}: left as it is"]},
        {"nvidia_fabric_imex_owner": "none", "nvidia_fabric_gpu_memory_mode": "leave"},
        {IMEX: ["enable", "start"]},
    ),
    "tray-bare": LabNode(
        lambda: without_driver(tray(7)),
        {
            "files": {NODES_FILE: f"{TRAYS[7]}\n", OPTIONS_FILE: OPTIONS},
            "told": ["no driver is loaded", f"not started: {IMEX}: nvidia-imex is not installed"],
        },
        host_owned(7),
    ),
}


def main() -> None:
    name, container = sys.argv[1:3]
    node = NODES[name]
    with tempfile.TemporaryDirectory(prefix="stub-node-") as work:
        folder = Path(work, "node")
        folder.mkdir()
        materialise.write(node.profile(), folder)
        inside = "mkdir -p /opt/node && tar -x -f - -C /opt/node && exec python3 /opt/node/node_apply.py"
        feed(container, inside, materialise.pack(folder))
        more = Path(work, "more")
        for path, text in {
            "etc/systemd/system/stub-mirror.service": SERVER,
            "etc/apt/sources.list": "",
            **{f"lib/systemd/system/{unit}": unit_text(unit) for unit in node.units},
            **{path.lstrip("/"): text for path, text in node.files.items()},
        }.items():
            target = more / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for program in STUBS.iterdir():
            # The fabric manager is only its unit's: a node without the package has no such program.
            place = more / "usr" / "local" / ("lib/stubs" if program.name.startswith("nv-") else "sbin")
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(program, place)
        served = more / "srv" / "www" / "distribution"
        served.mkdir(parents=True)
        if node.offers_modules:
            repository.build(served, KERNELS["b200"], more)
        # Started by the question for the time, and it would leave a folder.
        start = f"systemctl mask --quiet systemd-timedated.service; systemctl daemon-reload; {_asked(node)}"
        if node.offers_modules:
            start += f"; systemctl start stub-mirror.service; {WAIT}"
        feed(container, f"tar -x -f - -C / --keep-directory-symlink && {start}; {SETTLED}", materialise.pack(more))


def _asked(node: LabNode) -> str:
    return "; ".join(
        [f"systemctl {how} --quiet {unit}" for unit, asked in node.units.items() for how in asked] or ["true"]
    )


def unit_text(name: str) -> str:
    """A stub unit that is not started at boot until somebody enables it."""
    if name == WORK:
        return WORK_UNIT
    return (
        f"# A test double.\n[Unit]\nDescription=Stub of {name}\n\n[Service]\nType=exec\nExecStart={UNITS[name]}\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def feed(container: str, command: str, archive: bytes) -> None:
    """Run a shell text on the node with an archive as its standard input."""
    subprocess.run(["docker", "exec", "-i", container, "sh", "-ec", command], input=archive, check=True)


if __name__ == "__main__":
    main()
