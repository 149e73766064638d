# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Host keys: every one is checked against known_hosts files. A changed or revoked key is never accepted."""

from __future__ import annotations

import fcntl
import fnmatch
import os
import shlex
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    from paramiko.hostkeys import HostKeyEntry, HostKeys
except ImportError:
    HostKeyEntry = HostKeys = None  # type: ignore[assignment,misc]  # see library.py

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import (
    HostError,
    OptionError,
    shown_path,
)

REVOKED = "@revoked"
AUTHORITY = "@cert-authority"


@dataclass(frozen=True)
class Known:
    """A line of a file: the key of the hosts that its patterns name."""

    patterns: tuple[str, ...]
    key: Any
    where: str
    revoked: bool = False

    def names(self, host: str) -> bool:
        """Whether it speaks of ``host``: by name, by pattern (a negated one wins), or by a hash."""
        matched = False
        for pattern in self.patterns:
            if pattern.startswith("|1|"):
                # OpenSSH hashes small letters; a file hashed as it was written may hold others.
                matched = matched or any(HostKeys.hash_host(name, pattern) == pattern for name in (host.lower(), host))
            elif pattern.startswith("!"):
                if _matches(host, pattern[1:]):
                    return False
            else:
                matched = matched or _matches(host, pattern)
        return matched


def _matches(host: str, pattern: str) -> bool:
    # Brackets stand around the name of a host with another port than 22; they are no choice of letters.
    return fnmatch.fnmatchcase(host.lower(), pattern.lower().replace("[", "[[]"))


def host_name(name: str, port: int) -> str:
    """How known_hosts spells a host."""
    return name if port == 22 else f"[{name}]:{port}"


class KnownHosts:
    """The known host keys, for all sessions together. New ones go into the first file, where that is asked for."""

    def __init__(
        self,
        files: Sequence[Path],
        others: Sequence[Path] = (),
        *,
        accept_new: bool = False,
        must_exist: bool = False,
    ) -> None:
        """``others``: files that count as well, and get no new key.

        OptionError where a file cannot be read, or is not there although it was asked for by name.
        """
        self.files, self.others = list(files), list(others)
        self.accept_new = accept_new
        self._guard = threading.Lock()
        self._by_name: dict[str, list[Known]] = {}
        self._unlisted: list[Known] = []
        for number, path in enumerate([*self.files, *self.others]):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except (OSError, ValueError) as exc:
                absent = isinstance(exc, (FileNotFoundError, NotADirectoryError))
                if absent and (not must_exist or (accept_new and number == 0)):
                    continue
                why = getattr(exc, "strerror", None) or exc
                raise OptionError(
                    f"known_hosts_files: {shown_path(path)} cannot be read ({why}); allowed: known_hosts files"
                ) from exc
            for line_number, line in enumerate(text.splitlines(), 1):
                self._add(line, f"{path}:{line_number}")

    def _add(self, line: str, where: str) -> None:
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        # Certificates of hosts are unknown to paramiko: an authority vouches for nobody here.
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", REVOKED):
            return
        try:
            entry = HostKeyEntry.from_line(" ".join(words[:3]))
        except Exception:  # the line is damaged, and OpenSSH passes it over as well
            return
        if entry is None:
            return
        known = Known(tuple(words[0].split(",")), entry.key, where, marker == REVOKED)
        if not known.revoked and not any(set(pattern) & set("|*?!") for pattern in known.patterns):
            for name in known.patterns:
                self._by_name.setdefault(name.lower(), []).append(known)
        else:
            self._unlisted.append(known)

    def _known(self, name: str) -> list[Known]:
        return self._by_name.get(name.lower(), []) + [known for known in self._unlisted if known.names(name)]

    def key_types(self, name: str) -> list[str]:
        """The types of the keys that are known of a host: it is to be asked for one of these."""
        return list(dict.fromkeys(known.key.get_name() for known in self._known(name) if not known.revoked))

    def check(self, name: str, key: Any) -> None:
        """HostError unless ``key`` is a known one of ``name`` (spelt by host_name()), or may become one."""
        with self._guard:
            known = self._known(name)
            shows = f"{key.get_name()} {key.fingerprint}"
            for item in known:
                if item.revoked and item.key == key:
                    raise HostError(f"its host key {shows} is revoked ({item.where}); nothing was sent to it")
            valid = [item for item in known if not item.revoked]
            if any(item.key == key for item in valid):
                return
            if valid:
                same_type = [item for item in valid if item.key.get_name() == key.get_name()] or valid
                old = same_type[0]
                raise HostError(
                    f"ITS HOST KEY HAS CHANGED: it shows {shows}, and {old.where} knows {old.key.get_name()} "
                    f"{old.key.fingerprint}. Nothing was sent to it. Either somebody stands in between, or the host "
                    f"was installed anew; only once its owner has confirmed the latter, remove the old key: "
                    f"ssh-keygen -R '{name}' -f {shlex.quote(old.where.rpartition(':')[0])}"
                )
            # In small letters, as OpenSSH writes them.
            line = f"{name.lower()} {key.get_name()} {key.get_base64()}"
            if self.accept_new:
                self._accept(line)
                return
            targets = [*self.files, *self.others]
            how = (
                f"add the key: echo '{line}' >> {shlex.quote(str(targets[0]))}"
                if targets
                else "name a file that holds it (known_hosts_files)"
            )
            raise HostError(
                f"its host key is not known: {shows}. Nothing was sent to it. If its owner confirms that fingerprint, "
                f"{how}"
            )

    def _accept(self, line: str) -> None:
        """Write a new key down, then know it: one that cannot be written down is not accepted."""
        if not self.files:
            raise HostError("its host key is new, and no file is named that could keep it (known_hosts_files)")
        path = self.files[0]
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                size = os.fstat(handle).st_size
                # Somebody's last line may lack its end.
                open_line = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                os.write(handle, ("\n" if open_line else "").encode() + line.encode() + b"\n")
            finally:
                os.close(handle)
        except OSError as exc:
            raise HostError(f"its host key is new and could not be written to {path}: {exc.strerror}") from exc
        self._add(line, f"{path}:new")
