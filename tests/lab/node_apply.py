#!/usr/bin/env python3
# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs inside a node's container and puts the parts that materialise.py packed in their places.

- /sys: a tmpfs with the node's files over all of it, so that nothing of the machine underneath shows; only the
  control groups and the processors, which the running system needs, are bound back in.
- /proc/driver: a tmpfs. Other files of /proc: one bind mount each. A file that this kernel does not have (without
  modules there is no /proc/modules) cannot be mounted over; proc_shim.so then answers its path.
- /proc/<pid>/…: over the process that really is the unit's main process.
- everything else, the stub commands included: ordinary files in place.
- packages by dpkg, units by systemd, both the real ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

HOME = Path("/opt/node")
TREE = HOME / "tree"
ABSENT = HOME / "absent"
UNIT_FOLDER = Path("/etc/systemd/system")


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


def place(source: Path, target: Path) -> None:
    """Copy a tree onto another; a file takes the place of what stood there, also of a link."""
    for folder, folders, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True, exist_ok=True)
        for name in files + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            item, there = Path(folder, name), here / name
            if there.is_symlink() or there.is_file():
                there.unlink()
            shutil.copy2(item, there, follow_symlinks=False)


def mount_sys(source: Path) -> None:
    made = Path("/run/node-sys")
    made.mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=755", "sysfs", str(made))
    place(source, made)
    for needed in ("fs", "devices/system/cpu"):
        if not (made / needed).exists() and Path("/sys", needed).exists():
            (made / needed).mkdir(parents=True)
            run("mount", "--rbind", f"/sys/{needed}", str(made / needed))
    # As in every container: reading only.
    run("mount", "-o", "remount,bind,ro", str(made))
    run("mount", "--rbind", str(made), "/sys")
    run("umount", "--lazy", str(made))
    made.rmdir()


def mount_proc(source: Path, processes: dict[str, str]) -> None:
    drivers = source / "driver"
    if drivers.exists():
        run("mount", "-t", "tmpfs", "-o", "mode=755", "proc", "/proc/driver")
        place(drivers, Path("/proc/driver"))
        run("mount", "-o", "remount,bind,ro", "/proc/driver")
    for folder, _folders, files in os.walk(source):
        parts = Path(folder).relative_to(source).parts
        if parts[:1] == ("driver",):
            continue
        if parts and parts[0].isdigit() and parts[0] != "1":
            if parts[0] not in processes:
                raise SystemExit(f"the profile has /proc/{parts[0]} without a unit that has this main process")
            parts = (processes[parts[0]], *parts[1:])
        for name in files:
            target = Path("/proc", *parts, name)
            if target.exists():
                run("mount", "--bind", "-o", "ro", os.path.join(folder, name), str(target))
            else:
                there = ABSENT / target.relative_to("/")
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(os.path.join(folder, name), there)


def install_packages(wanted: dict[str, str]) -> None:
    debs = sorted(str(path) for path in (HOME / "debs").iterdir())
    if not debs:
        return
    real = set(run("dpkg-query", "-W", "-f", "${Package}\n").splitlines())
    if real & set(wanted):
        raise SystemExit(f"a stub would replace real packages of the image: {sorted(real & set(wanted))}")
    run("dpkg", "--force-unsafe-io", "--no-triggers", "-i", *debs)


def unit_text(name: str, state: dict[str, str]) -> str:
    """A unit that a start brings into the wanted state and keeps there."""
    how = (state.get("ActiveState", "active"), state.get("SubState", "running"))
    service = {
        ("active", "running"): "Type=exec\nExecStart=/bin/sleep infinity\n",
        ("active", "exited"): "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n",
        ("inactive", "dead"): "Type=exec\nExecStart=/bin/sleep infinity\n",
        ("failed", "failed"): "Type=oneshot\nExecStart=/bin/false\n",
        (
            "activating",
            "start-pre",
        ): "Type=exec\nExecStartPre=/bin/sleep infinity\nExecStart=/bin/true\nTimeoutSec=infinity\n",
        ("activating", "auto-restart"): "Restart=always\nRestartSec=infinity\nExecStart=/bin/false\n",
    }
    if not name.endswith(".service") or how not in service:
        raise SystemExit(f"node_apply.py knows no unit {name} in the state {'/'.join(how)}")
    install = "" if state.get("UnitFileState") == "static" else "\n[Install]\nWantedBy=multi-user.target\n"
    return f"# A test double: a unit in the wanted state.\n[Unit]\nDescription=Stub of {name}\n\n[Service]\n{service[how]}{install}"


def start_units(units: dict[str, dict[str, str]]) -> dict[str, str]:
    """Write and start the units; the real main process by the one that the profile names."""
    full = {name if "." in name else f"{name}.service": state for name, state in units.items()}
    full = {name: state for name, state in full.items() if state.get("LoadState", "loaded") != "not-found"}
    for name, state in full.items():
        path = UNIT_FOLDER / name
        if path.is_symlink() or path.exists():
            path.unlink()
        if state.get("LoadState") == "masked" or state.get("UnitFileState") == "masked":
            path.symlink_to("/dev/null")
        else:
            path.write_text(unit_text(name, state), encoding="utf-8")
            if state.get("UnitFileState", "enabled") == "enabled":
                wants = UNIT_FOLDER / "multi-user.target.wants"
                wants.mkdir(exist_ok=True)
                (wants / name).unlink(missing_ok=True)
                (wants / name).symlink_to(path)
    if not full:
        return {}
    run("systemctl", "daemon-reload")
    started = [name for name, state in full.items() if state.get("ActiveState", "active") != "inactive"]
    if started:
        run("systemctl", "start", "--no-block", *started)
    processes = {}
    for name, state in full.items():
        wanted = (state.get("ActiveState", "active"), state.get("SubState", "running"))
        told = until(name, wanted)
        if state.get("MainPID", "0") != "0":
            processes[state["MainPID"]] = told["MainPID"]
    return processes


def until(name: str, wanted: tuple[str, str]) -> dict[str, str]:
    for _attempt in range(100):
        text = run("systemctl", "show", name, "--property=ActiveState,SubState,MainPID")
        told = dict(line.split("=", 1) for line in text.splitlines())
        if (told["ActiveState"], told["SubState"]) == wanted:
            return told
        time.sleep(0.1)
    raise SystemExit(f"{name} is {told['ActiveState']}/{told['SubState']} instead of {'/'.join(wanted)}")


def install_libraries() -> None:
    verbs = HOME / "lib" / "libibverbs.so.1"
    if verbs.exists():
        # A folder that the loader searches without its cache, which ldconfig would have to write.
        shutil.copy2(verbs, "/usr/lib/libibverbs.so.1")
    if ABSENT.exists():
        # Last, because from here on every program of the node is told of these files.
        Path("/etc/ld.so.preload").write_text(f"{HOME}/lib/proc_shim.so\n", encoding="ascii")


def main() -> None:
    plan = json.loads((HOME / "plan.json").read_text())
    for folder in sorted(TREE.iterdir()):
        if folder.name not in ("proc", "sys"):
            place(folder, Path("/") / folder.name)
    install_packages(plan["packages"])
    processes = start_units(plan["units"])
    mount_sys(TREE / "sys")
    mount_proc(TREE / "proc", processes)
    install_libraries()


if __name__ == "__main__":
    main()
