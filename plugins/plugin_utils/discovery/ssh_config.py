# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An OpenSSH client configuration, as far as paramiko can honour it; what it cannot is refused, never passed over."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import paramiko
except ImportError:
    paramiko = None  # type: ignore[assignment]  # see library.py

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import shown
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import OptionError, shown_path
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.ssh_words import (
    expanded,
    home_expanded,
    tokens,
    words,
)

HONOURED = (
    "HostName",
    "User",
    "Port",
    "IdentityFile",
    "IdentitiesOnly",
    "ProxyCommand",
    "UserKnownHostsFile",
    "GlobalKnownHostsFile",
    "HostKeyAlias",
)
# paramiko would take their arguments for one text. Read wrongly, they let a changed host key pass for a new one.
USER_FILES, GLOBAL_FILES, ALIAS = "userknownhostsfile", "globalknownhostsfile", "hostkeyalias"
# What no alias may hold: known_hosts would take it for several names, a pattern, a hash, a mark or a comment.
_NO_ALIAS = re.compile(r"[\s,*?!|@#]|[^\x21-\x7e]")
# They change neither who is reached, nor how either side proves who it is: terminals, forwarding, shared and lasting
# connections, logs, retries. Host keys are checked whatever StrictHostKeyChecking and CheckHostIP say.
WITHOUT_EFFECT = """
addkeystoagent batchmode checkhostip compression connectionattempts connecttimeout controlmaster controlpath
controlpersist enableescapecommandline enablesshkeysign escapechar exitonforwardfailure
forkafterauthentication forwardagent forwardx11 forwardx11timeout forwardx11trusted gatewayports
gssapiauthentication gssapidelegatecredentials hashknownhosts ipqos loglevel logverbose
nohostauthenticationforlocalhost numberofpasswordprompts permitlocalcommand permitremoteopen rekeylimit
requesttty sendenv serveralivecountmax serveraliveinterval setenv streamlocalbindmask streamlocalbindunlink
stricthostkeychecking syslogfacility tcpkeepalive updatehostkeys usekeychain visualhostkey warnweakcrypto
xauthlocation
"""
# Values that ask for nothing, of options that could not be honoured otherwise.
NOTHING = {"proxyjump": "none", "canonicalizehostname": "no", "addressfamily": "any", "identityagent": "ssh_auth_sock"}
_LINE = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*)")


@dataclass(frozen=True)
class HostSettings:
    """What the file says of one host; empty or None where it says nothing."""

    hostname: str | None = None
    user: str | None = None
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    proxy_command: str | None = None
    # Files with known host keys; None where those of OpenSSH's default count.
    user_known_hosts: tuple[str, ...] | None = None
    global_known_hosts: tuple[str, ...] | None = None
    host_key_alias: str | None = None


# Conditions of Match that run a command, look names up, or are younger than paramiko's knowledge.
_MATCH_REFUSED = re.compile(r"(?i)(^|\s)!?(exec|canonical|localnetwork|version|tagged|command|sessiontype)\b")


def _acts(word: str, rest: str) -> bool:
    """Whether a line reads other files, runs a command or looks names up already while settings are looked up."""
    return (
        word == "include"
        or (word == "canonicalizehostname" and rest.strip().lower() != "no")
        or (word == "match" and _MATCH_REFUSED.search(rest) is not None)
    )


class SshConfig:
    """A configuration file. OptionError where it cannot be read or holds what no host could be given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as exc:
            why = getattr(exc, "strerror", None) or "it is not text in UTF-8"
            raise OptionError(
                f"ssh_config_file: {shown_path(path)} cannot be read ({why}); allowed: an ssh_config(5) file"
            ) from exc
        # Lines as paramiko parts them.
        lines = text.split("\n")
        for number, line in enumerate(lines, 1):
            match = _LINE.fullmatch(line)
            word, rest = (match.group(1).lower(), match.group(2)) if match else ("", "")
            if _acts(word, rest):
                raise OptionError(
                    f"ssh_config_file: line {number} of {path} says {shown(line.strip())}, which discovery does not "
                    f"carry out for any host; allowed: {', '.join(HONOURED)} under Host, and under Match all, host, "
                    "originalhost, user or localuser"
                )
            if word in (USER_FILES, GLOBAL_FILES, ALIAS):
                # As one text that paramiko hands through.
                lines[number - 1] = f"{word} {json.dumps(self._arguments(number, line, word, rest))}"
        self._text = "\n".join(lines)
        self._parsed: dict[str, Any] = {}
        self._config("")

    def _arguments(self, number: int, line: str, word: str, rest: str) -> list[str]:
        """The arguments of such a line. OptionError where OpenSSH would refuse it, or known_hosts could not hold it."""
        try:
            found = words(rest.strip())
        except ValueError as exc:
            raise self._refused(number, line, f"in which {exc}", "closed quotes") from exc
        if word == ALIAS:
            if len(found) != 1 or not found[0] or _NO_ALIAS.search(found[0]):
                raise self._refused(number, line, "which is not the name of one host", "one name as in known_hosts")
        elif not found or "" in found or (len(found) > 1 and "none" in map(str.lower, found)):
            raise self._refused(number, line, "which does not name files", "files parted by blanks, or none alone")
        return found

    def _refused(self, number: int, line: str, why: str, allowed: str) -> OptionError:
        return OptionError(
            f"ssh_config_file: line {number} of {self.path} says {shown(line.strip())}, {why}; allowed: {allowed}"
        )

    def _config(self, first: str) -> Any:
        """The file with some lines before it, which win."""
        if first not in self._parsed:
            try:
                self._parsed[first] = paramiko.SSHConfig.from_text(first + self._text)
            except Exception as exc:
                raise OptionError(
                    f"ssh_config_file: {self.path} cannot be read as ssh_config(5): {str(exc)[:200]}"
                ) from exc
        return self._parsed[first]

    def lookup(self, host: str, user: str | None = None, port: int | None = None) -> HostSettings:
        """What holds for ``host``, given user and port as on ssh's command line.

        OptionError, naming file, host and option, for one that cannot be honoured.
        """
        first = (f"User {user}\n" if user else "") + (f"Port {port}\n" if port else "")
        try:
            found: Mapping[str, Any] = self._config(first).lookup(host)
        except Exception as exc:
            raise OptionError(
                f"ssh_config_file: {self.path} gives no settings for host {host}: {str(exc)[:200]}"
            ) from exc
        passed = {name.lower() for name in HONOURED} | set(WITHOUT_EFFECT.split())
        for name, value in found.items():
            plain = str(value).strip().lower()
            if name in passed or NOTHING.get(name) == plain:
                continue
            raise OptionError(
                f"ssh_config_file: {self.path} gives host {host} the option {name} {shown(value)}, which discovery "
                f"cannot honour; allowed: {', '.join(HONOURED)}, and options without effect on it"
            )
        hostname, remote_user, number = found.get("hostname"), found.get("user"), self._port(host, found.get("port"))
        # OpenSSH spells it in small letters, whatever the file has.
        alias = json.loads(found[ALIAS])[0].lower() if ALIAS in found else None

        def in_full(name: str) -> str:
            return expanded(name, tokens(host, hostname or host, number or 22, remote_user, alias), os.environ)

        return HostSettings(
            hostname=hostname,
            user=remote_user,
            port=number,
            identity_files=tuple(name for name in found.get("identityfile", ()) if name.lower() != "none"),
            identities_only=str(found.get("identitiesonly", "no")).lower() in ("yes", "true"),
            proxy_command=found.get("proxycommand"),
            user_known_hosts=self._files(host, found, USER_FILES, in_full),
            # Of these OpenSSH expands no more than the home.
            global_known_hosts=self._files(host, found, GLOBAL_FILES, home_expanded),
            host_key_alias=alias,
        )

    def _files(
        self, host: str, found: Mapping[str, Any], option: str, carry_out: Callable[[str], str]
    ) -> tuple[str, ...] | None:
        """The files that an option names; None where it is not given."""
        if option not in found:
            return None
        names = json.loads(found[option])
        if [name.lower() for name in names] == ["none"]:
            return ()
        try:
            return tuple(carry_out(name) for name in names)
        except ValueError as exc:
            raise OptionError(
                f"ssh_config_file: {self.path} gives host {host} the option {option} {shown(' '.join(names))}, in "
                f"which {exc}; allowed: files, with what ssh_config(5) expands in their names"
            ) from exc

    def _port(self, host: str, value: Any) -> int | None:
        if value is None:
            return None
        if not re.fullmatch("[0-9]{1,5}", str(value)) or not 0 < int(value) < 65536:
            raise OptionError(
                f"ssh_config_file: {self.path} gives host {host} the option Port {shown(value)}; allowed: 1 to 65535"
            )
        return int(value)
