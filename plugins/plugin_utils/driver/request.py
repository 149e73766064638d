# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a node's driver set is: from the table, the node's facts and the site's wishes to package_plan's arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver import table as tables
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import DriverError, Table, is_unknown

NVIDIA = "10de"
REPOSITORY = "nvidia-driver"
# Products whose version is the site's to say: their rack changes as one (C23).
EXACT_PRODUCTS = ("gb200", "gb300")


def request(facts: Mapping[str, Any], wish: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """Everything that is asked of the node's package manager.

    Args:
        facts: the probe's facts, by concern.
        wish: the role's variables without their prefix, and ``key``: the repository's public key as text.
        table: the role's data table.

    Returns:
        ``{"manager", "folder", "machine", "naming", "flavour", "branch", "version" ("" until resolved), "decides" (the
        package whose offers are the versions), "parts": [...], "dkms", "kernels": [...], "headers": [{"kernel",
        "install"}], "plan": {arguments of package_plan}}``

    Raises:
        DriverError: why the node is not touched.
    """
    host, driver = facts["host"], facts.get("driver", {})
    gpus = _gpus(host)
    row = tables.distribution(table, host)
    family = table["families"][row["family"]]
    source, branch, version = wish["source"], int(wish["branch"]), str(wish["version"])
    folder = tables.machine(table, row, host, source)
    flavour = _flavour(wish["flavour"], gpus, driver)
    naming = tables.naming(table, row["family"], source, branch, flavour)
    kernels = _kernels(driver)
    parts = _parts(wish["parts"], facts, table)
    if not version:
        exact = sorted({str(gpu["product"]) for gpu in gpus if gpu["product"] in EXACT_PRODUCTS})
        if exact:
            raise DriverError(
                f"nvidia_driver_version is empty; {', '.join(exact)} trays need an exact one (such as 580.126.20), "
                "since all trays of an NVLink domain must run the same"
            )
    words = {
        "folder": row["folder"],
        "machine": folder,
        "branch": str(branch),
        "version": version,
        "arch": table["architectures"][family["manager"]][host["arch"]],
    }
    asked = _packages(naming, flavour, parts, kernels, words, branch)
    locked = [item["name"] for item in asked if item.get("version")]
    there = installed(driver)
    beside = _companions_beside(table, there, locked)
    asked += [_locked(name, words) for name in beside]
    extra = [*row.get("extra", []), *family["hold_tool"]]
    asked += [{"name": name} for name in extra if not (naming["dkms"] is False and name in row.get("extra", []))]
    members = _members(naming, flavour, words)
    names = {item["name"] for item in asked}
    repositories = _repositories(row, family, wish, words, table, driver)
    hold = tables.flat(naming["hold"]) + (tables.flat(family["kernel_hold"]) if wish["hold_kernel"] else [])
    return {
        "manager": family["manager"],
        "folder": row["folder"],
        "machine": folder,
        "naming": naming["name"],
        "flavour": flavour,
        "branch": branch,
        "version": version,
        "decides": locked[0],
        "parts": parts,
        "dkms": naming["dkms"],
        "kernels": kernels,
        "headers": _missing_headers(table, row, family, naming, driver, kernels),
        "plan": {
            "repositories": repositories,
            "install": asked,
            "remove": [name for name in sorted(there) if name not in names and not members.fullmatch(name)]
            + tables.flat(naming["remove"]),
            # Of another origin's set some have no place in the new one: the package manager says which.
            "allow_remove": tables.flat(naming["hold"]) + tables.flat(naming.get("go", [])),
            "hold": hold,
            "module_streams": _streams(naming, flavour, words),
            "allow_downgrade": bool(wish["allow_downgrade"]),
            "repair": bool(wish["repair_packages"]),
        },
    }


def _gpus(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kinds = host.get("gpus")
    if not isinstance(kinds, list):
        raise DriverError(f"which GPUs this node has is not known: {tables.why(kinds)}")
    if any(kind["vendor"] != NVIDIA for kind in kinds):
        raise DriverError("this node has AMD GPUs, whose driver is not managed from here")
    if not kinds:
        raise DriverError("this node has no NVIDIA GPU on its PCI bus, so it gets no driver")
    return kinds


def _flavour(wanted: str, gpus: list[Mapping[str, Any]], driver: Mapping[str, Any]) -> str:
    """`auto` is open. Proprietary modules do not drive Blackwell and later (C17)."""
    if wanted != "proprietary":
        return "open"
    known = driver.get("gpus")
    only = sorted({str(gpu["product"]) for gpu in known if gpu["open_only"]}) if isinstance(known, list) else []
    unlisted = sorted({gpu["id"] for gpu in gpus if gpu["product"] is None})
    if only or unlisted:
        what = f"{', '.join(only)} runs" if only else f"GPU {', '.join(unlisted)} is not in the table and may run"
        raise DriverError(f"nvidia_driver_flavour 'proprietary' is not allowed here: {what} with the open modules only")
    return "proprietary"


def _kernels(driver: Mapping[str, Any]) -> list[str]:
    """The running kernel and the next boot's; where that one is not known, every installed one."""
    known = driver.get("kernels")
    if not isinstance(known, Mapping) or is_unknown(known):
        raise DriverError("which kernels this node has is not known, so no module could be proven for the next boot")
    running, boot, installed = known["running"], known["boot"], known["installed"]
    if isinstance(boot, str):
        return list(dict.fromkeys([running, boot]))
    if isinstance(installed, list) and installed:
        return list(dict.fromkeys([running, *installed]))
    raise DriverError(
        f"which kernel the next boot takes is not known ({tables.why(boot)}), so no module could be proven for it"
    )


def _parts(wanted: str, facts: Mapping[str, Any], table: Table) -> list[str]:
    if wanted != "auto":
        return list(table["parts"][wanted])
    fabric = facts.get("fabric")
    kind = fabric.get("kind") if isinstance(fabric, Mapping) else None
    name = kind.get("kind") if isinstance(kind, Mapping) else None
    if not isinstance(name, str):
        raise DriverError(
            f"what NVLink fabric this node has is not known ({tables.why(name)}); say so with nvidia_driver_parts"
        )
    nvlsm = kind.get("nvlsm") if isinstance(kind, Mapping) else False
    return list(table["parts"]["hgx_nvlink5" if name == "hgx" and nvlsm is True else name])


def _packages(
    naming: Mapping[str, Any],
    flavour: str,
    parts: list[str],
    kernels: list[str],
    words: Mapping[str, str],
    branch: int,
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    rows = tables.chosen(naming["packages"][flavour], branch, words["machine"])
    for part in parts:
        companions = naming["companions"][part]
        if not companions:
            raise DriverError(
                f"{naming['name']} has no {part.replace('_', ' ')} package that is known; use the vendor's"
            )
        rows += tables.chosen(companions, branch, words["machine"])
    for package in rows:
        for kernel in kernels if package.get("each_kernel") else [""]:
            name = package["name"].format(kernel=kernel, **words)
            found.append({"name": name} if package.get("locked") is False else _locked(name, words))
    if naming["pin"] and words["version"]:
        found.append({"name": naming["pin"].format(**words), "repository": REPOSITORY})
    if naming["sources"] == ["distribution"]:
        return found
    return [{**item, "repository": REPOSITORY} if item.get("version") else item for item in found]


def _locked(name: str, words: Mapping[str, str]) -> dict[str, Any]:
    """A package at the driver's version; while only the branch is known, the newest of it."""
    if words["version"]:
        return {"name": name, "version": words["version"]}
    return {"name": name, "version": words["branch"], "pick": "newest"}


def installed(driver: Mapping[str, Any]) -> dict[str, str]:
    """The version-locked packages that are there: name -> version ("" where the probe lists only the name)."""
    packages = driver.get("packages")
    if not isinstance(packages, Mapping) or is_unknown(packages) or "unread" in packages:
        return {}
    return {**dict.fromkeys(packages.get("fabric", []), ""), **packages.get("locked", {})}


def _companions_beside(table: Table, there: Mapping[str, str], asked: list[str]) -> list[str]:
    """Fabric packages that this node does not need and has: they follow the driver, too."""
    return [name for name in table["companion_names"] if name in there and name not in asked]


def _members(naming: Mapping[str, Any], flavour: str, words: Mapping[str, str]) -> re.Pattern[str]:
    names = [*naming["members"]["both"], *naming["members"][flavour]]
    patterns = [
        pattern.replace("{branch}", re.escape(words["branch"])).replace("{version}", r"[0-9.]+") for pattern in names
    ]
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def _streams(naming: Mapping[str, Any], flavour: str, words: Mapping[str, str]) -> dict[str, list[str]]:
    streams = naming.get("streams")
    return {"nvidia-driver": [stream.format(**words) for stream in streams[flavour]]} if streams else {}


def _missing_headers(
    table: Table,
    row: Mapping[str, Any],
    family: Mapping[str, Any],
    naming: Mapping[str, Any],
    driver: Mapping[str, Any],
    kernels: list[str],
) -> list[dict[str, Any]]:
    """The headers that are not there, kernel by kernel; none where modules come built."""
    if not naming["dkms"]:
        return []
    there = driver.get("headers") or {}
    newest = max(kernels, key=tables.age)
    return [
        {"kernel": kernel, "install": tables.headers(table, row, family, kernel, kernel == newest)}
        for kernel in kernels
        if there.get(kernel) is not True
    ]


# ---- repositories --------------------------------------------------------------------------------------------------


def _repositories(
    row: Mapping[str, Any],
    family: Mapping[str, Any],
    wish: Mapping[str, Any],
    words: Mapping[str, str],
    table: Table,
    driver: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The repository of the driver, the site's further ones, and the vendor's other files that go."""
    path = family["file"].format(**words)
    ours = wish["source"] in ("vendor", "mirror")
    found = _former(driver, family, words, path) if ours else []
    if ours:
        base = (wish["mirror_url"] or "") if wish["source"] == "mirror" else table["vendor_url"]
        url = f"{base.rstrip('/')}/{row['folder']}/{words['machine']}/"
        found.append(
            {
                "name": REPOSITORY,
                "path": path,
                "key": wish["key"],
                "key_path": family["key_path"],
                "content": _content(family["manager"], url, family["key_path"], words),
            }
        )
    return found + list(wish["repositories"])


def _content(manager: str, url: str, key_path: str, words: Mapping[str, str]) -> str:
    if manager == "apt":
        return (
            "# Written by gpufleet.kimi_k3.nvidia_driver: NVIDIA's driver and nothing else speaks with this key.\n"
            f"Types: deb\nURIs: {url}\nSuites: /\nArchitectures: {words['arch']}\nSigned-By: {key_path}\n"
        )
    return (
        "# Written by gpufleet.kimi_k3.nvidia_driver\n"
        f"[cuda-{words['folder']}-{words['machine']}]\nname=NVIDIA driver for {words['folder']}\nbaseurl={url}\n"
        f"enabled=1\ngpgcheck=1\ngpgkey=file://{key_path}\n"
    )


def _former(
    driver: Mapping[str, Any], family: Mapping[str, Any], words: Mapping[str, str], path: str
) -> list[dict[str, Any]]:
    """Files that name the vendor's repository besides ours: two for one repository clash, two distributions mix (C12).

    Only files that bear the vendor's own name go; another may hold more than this repository.
    """
    packages = driver.get("packages")
    known = packages.get("repositories") if isinstance(packages, Mapping) else None
    seen = {entry["file"] for entry in known["vendor"]} if isinstance(known, Mapping) and "vendor" in known else set()
    for file in sorted(seen - {path}):
        if not any(re.fullmatch(pattern, file.rsplit("/", 1)[-1]) for pattern in family["same"]):
            raise DriverError(
                f"{file} names NVIDIA's repository and may hold others as well; take NVIDIA's entry out of it, since "
                "the role writes its own"
            )
    files = sorted({*seen, *(text.format(**words) for text in family["former"])} - {path})
    return [{"name": f"former-{number}", "path": file, "state": "absent"} for number, file in enumerate(files)]


# ---- the second look -----------------------------------------------------------------------------------------------


def left_behind(facts: Mapping[str, Any], plan: Mapping[str, Any], version: str) -> list[str]:
    """Installed version-locked packages that the plan would leave at another version: they have to go as well.

    What the target's repository does not bring to the new version is of another origin, and would be the second version
    of a set that has to have one (C07, C11).
    """
    going = {item["name"] for item in plan["packages"] if item["action"] != "keep"}
    return sorted(
        name
        for name, there in installed(facts.get("driver", {})).items()
        if there and name not in going and upstream(there) != version
    )


def upstream(version: str) -> str:
    """The driver version in a package version: 580.126.20 of 3:580.126.20-1.el9."""
    return version.split(":", 1)[-1].split("-", 1)[0]
