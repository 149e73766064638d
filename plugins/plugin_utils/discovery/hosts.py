# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which hosts are asked: names, ranges, and files of them."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.parsing.utils.addresses import parse_address
from ansible.plugins.inventory import expand_hostname_range

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import shown
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError, shown_path

# More than any cluster has; a slip of the finger in a range must not fill the memory.
HOSTS_MAX = 20_000
ALLOWED = "a host name or address, perhaps with a port or ranges, such as gpu[01:72].example, 192.0.2.7:2222"
_RANGE = re.compile(r"\[(\w*):(\w*)(?::(\w*))?\]")


@dataclass(frozen=True)
class Host:
    """A host by its name in the inventory, with the port that was written beside it."""

    name: str
    port: int | None = None


def hosts(patterns: Sequence[str], source: str = "hosts") -> list[Host]:
    """The hosts that the patterns name, each once, in their order. OptionError for one that is none.

    ``source``: the option, or the file, in which they stand.
    """
    found: dict[str, Host] = {}
    for pattern in patterns:
        for host in _expanded(pattern, source):
            if host.name in found and found[host.name].port != host.port:
                raise OptionError(
                    f"{source}: host {shown(host.name)} is named with two ports; allowed: one port a host"
                )
            found[host.name] = host
        if len(found) > HOSTS_MAX:
            raise OptionError(
                f"{source}: {shown(pattern)} makes more than {HOSTS_MAX} hosts; allowed: up to {HOSTS_MAX}"
            )
    return list(found.values())


def file_patterns(path: Path) -> list[str]:
    """The lines of a file, without comments (#) and empty ones. OptionError where it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as exc:
        why = getattr(exc, "strerror", None) or "it is not text in UTF-8"
        raise OptionError(
            f"hosts_file: {shown_path(path)} cannot be read ({why}); allowed: a file with a host a line"
        ) from exc
    return [text for text in (line.split("#", 1)[0].strip() for line in lines) if text]


def _expanded(pattern: str, source: str) -> Iterable[Host]:
    fault = OptionError(f"{source}: {shown(pattern)} is not allowed; allowed: {ALLOWED}")
    if not pattern.isprintable() or pattern != pattern.strip() or set(pattern) & set(" ,;@/\\'\"{}$`|&<>()*?!~"):
        raise fault
    try:
        name, port = parse_address(pattern, allow_ranges=True)
        if not name or (port is not None and not 0 < port < 65536):
            raise fault
        if "[" not in name:
            return [Host(name, port)]
        if _size(name) > HOSTS_MAX:
            raise OptionError(
                f"{source}: {shown(pattern)} makes more than {HOSTS_MAX} hosts; allowed: up to {HOSTS_MAX}"
            )
        names = expand_hostname_range(name)
    except (AnsibleError, ValueError) as exc:
        if isinstance(exc, OptionError):
            raise
        raise OptionError(f"{fault} ({str(exc).splitlines()[0]})") from exc
    if not names:
        raise OptionError(f"{fault} (the range is empty)")
    return [Host(each, port) for each in names]


def _size(name: str) -> int:
    """How many hosts the ranges make. ValueError for one that is neither of letters nor of numbers."""
    size = 1
    for first, last, step in _RANGE.findall(name):
        if not last:
            continue
        try:
            # Small letters, then capitals, as Ansible counts them.
            low, high = string.ascii_letters.index(first or "0"), string.ascii_letters.index(last)
        except ValueError:
            low, high = int(first or "0"), int(last)
        width = int(step) if step.isdigit() and int(step) else 1
        size *= max(1, (high - low) // width + 1)
    return size
