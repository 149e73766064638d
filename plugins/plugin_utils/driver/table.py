# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The role's data table (roles/nvidia_driver/vars/main.yml), and the rows of it that a node takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Table = Mapping[str, Any]


class DriverError(Exception):
    """Why a node is not touched, as one sentence for a person on call."""


def is_unknown(value: Any) -> bool:
    """Whether a fact of the probe says that it could not be read."""
    return isinstance(value, Mapping) and set(value) == {"unknown"}


def why(value: Any) -> str:
    """Why a fact could not be read."""
    return str(value["unknown"]) if is_unknown(value) else "the probe did not tell"


def distribution(table: Table, host: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of the node's distribution. ``host``: the probe's facts of the host.

    Raises:
        DriverError: where the role does not manage such a node.
    """
    system = host.get("os")
    if not isinstance(system, Mapping) or is_unknown(system):
        raise DriverError(f"which distribution this node has is not known: {why(system)}")
    if system["dgx"]:
        raise DriverError("DGX OS has repositories and a driver set of its own; change the driver with its tools")
    name = system.get("name") or f"{system['id']} {system['version']}"
    for row in table["refused"]:
        if _fits(row, system):
            raise DriverError(f"{name} is not managed: {row['reason']}")
    for row in table["distributions"]:
        if _fits(row, system):
            return row
    raise DriverError(f"{name} is not managed; managed: {managed(table)}")


def managed(table: Table) -> str:
    """The distributions the role manages, for a message."""
    return ", ".join(row["folder"] for row in table["distributions"])


def _fits(row: Mapping[str, Any], system: Mapping[str, Any]) -> bool:
    return system["id"] in row["ids"] and re.fullmatch(row.get("version", ".*"), system["version"]) is not None


def machine(table: Table, row: Mapping[str, Any], host: Mapping[str, Any], source: str) -> str:
    """The repository's name of the node's architecture: x86_64 or sbsa (C13).

    Raises:
        DriverError: where there is none.
    """
    arch = host.get("arch")
    folder = table["machines"].get(arch) if isinstance(arch, str) else None
    if folder is None:
        raise DriverError(f"the architecture {arch!r} is not managed; managed: {', '.join(table['machines'])}")
    # A mirror may hold what the vendor does not offer.
    if source == "vendor" and folder not in row.get("machines", [folder]):
        raise DriverError(
            f"NVIDIA has no repository {row['folder']}/{folder}; use a mirror that has one, or another OS"
        )
    return str(folder)


def naming(table: Table, family: str, source: str, branch: int, flavour: str) -> Mapping[str, Any]:
    """The row of package names.

    Raises:
        DriverError: where no row has such a driver.
    """
    rows = [row for row in table["namings"] if family in row["families"] and source in row["sources"]]
    if not rows:
        raise DriverError(
            f"nvidia_driver_source {source!r} is not allowed here: this distribution's own archive has no such driver; "
            "allowed: vendor, mirror"
        )
    for row in rows:
        if within(row["branches"], branch):
            if not chosen(row["packages"][flavour], branch):
                raise DriverError(f"{row['name']} has no {flavour} flavour of branch {branch}; allowed: open")
            return row
    raise DriverError(f"branch {branch} is not in the table for {rows[0]['name']}")


def within(branches: Mapping[str, Any] | None, branch: int) -> bool:
    """Whether a branch is in a row's range (``from``, ``to``, ``but``), which may leave out each."""
    if not branches:
        return True
    return branches.get("from", 0) <= branch <= branches.get("to", branch) and branch not in branches.get("but", [])


def chosen(packages: Iterable[Mapping[str, Any]], branch: int, folder: str = "") -> list[Mapping[str, Any]]:
    """The packages of a row that this branch and machine have."""
    return [
        package
        for package in packages
        if within(package.get("branches"), branch) and (not folder or folder in package.get("machines", [folder]))
    ]


def headers(
    table: Table, row: Mapping[str, Any], family: Mapping[str, Any], kernel: str, newest: bool = True
) -> list[dict[str, str]]:
    """The header packages of a kernel, as elements of package_plan's `install`; ``newest``: of the node's kernels."""
    words = {"kernel": kernel, "kernel_version": re.sub(r"\.(x86_64|aarch64)(\+64k)?$", "", kernel)}
    for choice in table["headers"][row.get("headers", family["headers"])]:
        if re.fullmatch(choice["kernel"], kernel):
            return [
                {key: text.format(**words) for key, text in package.items() if key != "newest"}
                for package in choice["packages"]
                if newest or not package.get("newest")
            ]
    raise DriverError(f"the table has no headers for kernel {kernel}")


def age(kernel: str) -> list[int]:
    """Sorts kernels as their versions do: 6.12.0-124.el10 after 6.12.0-55.el10."""
    return [int(part) for part in re.findall(r"[0-9]{1,18}", kernel)]


def flat(values: Iterable[Any]) -> list[str]:
    """A list whose elements may be lists (a shared part of the table) as one list."""
    found: list[str] = []
    for value in values:
        found += flat(value) if isinstance(value, list) else [value]
    return found
