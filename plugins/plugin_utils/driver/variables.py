# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The role's variables, held against what is allowed, for all nodes before any of them is contacted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import shown
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils import role_variables
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.key import KeyFault, check

VERSION = re.compile(r"[0-9]{3,4}\.[0-9]{1,4}(\.[0-9]{1,4})?")
# Facts 1.3: the image is built for CUDA 13, which 580 is the first to run.
BRANCH_MIN = 580
FLAVOURS = ("auto", "open", "proprietary")
SOURCES = ("vendor", "distribution", "mirror")
PARTS = ("auto", "none", "hgx", "hgx_nvlink5", "tray")
_URL = re.compile(r"(https?://[A-Za-z0-9][^\s'\"<>]*|file:///[^\s'\"<>]+)")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_OPTION_VALUE = re.compile(r"[A-Za-z0-9_.:;=,/x-]{0,200}")
_PATH = re.compile(r"/[A-Za-z0-9_./+-]{1,200}")


def _branch(value: Any) -> str:
    text = str(value)
    good = not isinstance(value, bool) and re.fullmatch(r"[0-9]{3,4}", text) and int(text) >= BRANCH_MIN
    return "" if good else f"a branch of the driver, {BRANCH_MIN} or newer, such as '580'"


def _version(value: Any) -> str:
    good = isinstance(value, str) and (value == "" or VERSION.fullmatch(value))
    return "" if good else "a whole version such as '580.126.20' (quoted), or empty for the newest of the branch"


def _url(value: Any) -> str:
    if value == "" or (isinstance(value, str) and _URL.fullmatch(value) and not re.search(r"//[^/]*@", value)):
        return ""
    return "an address of http, https or file below which DISTRIBUTION/MACHINE/ stands, without a password in it"


def _key_file(value: Any) -> str:
    allowed = "a file on the control node with one public key in text form, or empty for the vendor's"
    if value == "":
        return ""
    if not isinstance(value, str):
        return allowed
    try:
        check(read_key(value), "")
    except OSError as exc:
        return f"{allowed} ({exc.strerror})"
    except (KeyFault, UnicodeDecodeError) as exc:
        return f"{allowed} ({exc})"
    return ""


def read_key(path: str) -> str:
    """The text of a key file on the control node."""
    with open(os.path.expanduser(path), encoding="utf-8") as handle:
        return handle.read()


def _fingerprint(value: Any) -> str:
    good = isinstance(value, str) and re.fullmatch(r"([0-9A-Fa-f]{4} ?){10}|", value.replace("  ", " "))
    return "" if good else "the 40 hexadecimal digits of the key's fingerprint, or empty"


def _options(value: Any) -> str:
    good = isinstance(value, Mapping) and all(
        _OPTION.fullmatch(str(name)) and not isinstance(text, (list, dict)) and _OPTION_VALUE.fullmatch(str(text))
        for name, text in value.items()
    )
    return "" if good else "module options by name, such as {NVreg_CreateImexChannel0: 1}"


def _repositories(value: Any) -> str:
    keys = {"name", "path", "content", "key", "key_path", "state"}
    good = isinstance(value, list) and all(
        isinstance(item, Mapping) and set(item) <= keys and {"name", "path"} <= set(item) for item in value
    )
    return "" if good else "repositories in the form of the module package_plan: name, path, content, key, key_path"


def _bad(value: Any) -> str:
    good = isinstance(value, list) and all(
        isinstance(item, Mapping)
        and set(item) <= {"version", "kernel", "reason", "source"}
        and VERSION.fullmatch(str(item.get("version", "")))
        and isinstance(item.get("reason"), str)
        and _compiles(item.get("kernel", ""))
        for item in value
    )
    return "" if good else "a list of {version, reason, and perhaps kernel (a regular expression)}"


def _compiles(pattern: Any) -> bool:
    try:
        re.compile(pattern)
    except (re.error, TypeError):
        return False
    return True


def _path(value: Any) -> str:
    good = isinstance(value, str) and _PATH.fullmatch(value) and ".." not in value
    return "" if good else "an absolute path without blanks"


def _folder(value: Any) -> str:
    good = isinstance(value, str) and value.strip() and value.isprintable()
    return "" if good else "the path of a folder on the control node"


def _together(values: Mapping[str, Any]) -> list[str]:
    """Faults of variables that are fine alone and not together."""
    found = []
    branch, version = str(values.get("nvidia_driver_branch", BRANCH_MIN)), values.get("nvidia_driver_version", "")
    if version and version.split(".")[0] != branch:
        found.append(
            f"nvidia_driver_version: {shown(version)} is not of branch {branch}; allowed: a version of the branch in "
            "nvidia_driver_branch"
        )
    source, url = values.get("nvidia_driver_source", "vendor"), values.get("nvidia_driver_mirror_url", "")
    if source == "mirror" and not url:
        found.append(
            "nvidia_driver_mirror_url: '' is not allowed with nvidia_driver_source: mirror; allowed: an address"
        )
    if source == "mirror" and not values.get("nvidia_driver_key_file"):
        found.append(
            "nvidia_driver_key_file: '' is not allowed with nvidia_driver_source: mirror; allowed: the file of the key "
            "that signs the mirror"
        )
    if source != "mirror" and url:
        found.append(
            f"nvidia_driver_mirror_url: {shown(url)} is not allowed with nvidia_driver_source: {source}; allowed: ''"
        )
    wanted = values.get("nvidia_driver_key_fingerprint", "")
    if wanted and values.get("nvidia_driver_key_file"):
        try:
            check(read_key(values["nvidia_driver_key_file"]), wanted)
        except (KeyFault, OSError) as exc:
            found.append(f"nvidia_driver_key_file: {shown(values['nvidia_driver_key_file'])} is not allowed: {exc}")
    return found


RULES = role_variables.Rules(
    prefix="nvidia_driver_",
    judges={
        "nvidia_driver_branch": _branch,
        "nvidia_driver_version": _version,
        "nvidia_driver_flavour": role_variables.one_of(*FLAVOURS),
        "nvidia_driver_source": role_variables.one_of(*SOURCES),
        "nvidia_driver_mirror_url": _url,
        "nvidia_driver_key_file": _key_file,
        "nvidia_driver_key_fingerprint": _fingerprint,
        "nvidia_driver_repositories": _repositories,
        "nvidia_driver_parts": role_variables.one_of(*PARTS),
        "nvidia_driver_allow_downgrade": role_variables.boolean,
        "nvidia_driver_allow_no_rollback": role_variables.boolean,
        "nvidia_driver_repair_packages": role_variables.boolean,
        "nvidia_driver_hold_kernel": role_variables.boolean,
        "nvidia_driver_module_options": _options,
        "nvidia_driver_known_bad": _bad,
        "nvidia_driver_force_version": role_variables.boolean,
        "nvidia_driver_idle_holders": role_variables.processes,
        "nvidia_driver_lock_timeout": role_variables.seconds(0, 86400),
        "nvidia_driver_transaction_timeout": role_variables.seconds(60, 86400),
        "nvidia_driver_rollback_dir": _path,
        "nvidia_driver_record_dir": _folder,
    },
    together=_together,
)


def faults(variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Every fault of all hosts as one sentence; empty when all is fine."""
    return role_variables.faults(RULES, variables)
