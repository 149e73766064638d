# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The arguments of the module package_plan, as Ansible takes them."""

from __future__ import annotations

from typing import Any

_REPOSITORY: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "path": {"type": "path", "required": True},
    "content": {"type": "str"},
    # A public key: what is shown with --diff.
    "key": {"type": "str", "no_log": False},
    "key_path": {"type": "path", "no_log": False},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}
_PREFERENCE: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "content": {"type": "str", "required": True},
}
_PACKAGE: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "version": {"type": "str"},
    "arch": {"type": "str"},
    "pick": {"type": "str", "choices": ["only", "newest"], "default": "only"},
    "repository": {"type": "str"},
}
SPEC: dict[str, Any] = {
    "repositories": {"type": "list", "elements": "dict", "default": [], "options": _REPOSITORY},
    "preferences": {"type": "list", "elements": "dict", "default": [], "options": _PREFERENCE},
    "install": {"type": "list", "elements": "dict", "default": [], "options": _PACKAGE},
    "remove": {"type": "list", "elements": "str", "default": []},
    "allow_remove": {"type": "list", "elements": "str", "default": []},
    "hold": {"type": "list", "elements": "str", "default": []},
    "module_streams": {"type": "dict", "default": {}},
    "allow_downgrade": {"type": "bool", "default": False},
    "recommends": {"type": "bool", "default": False},
    "repair": {"type": "bool", "default": False},
    "state": {"type": "str", "choices": ["planned", "downloaded", "present", "held"], "default": "planned"},
    "expect": {"type": "str"},
    "transaction_timeout": {"type": "int", "default": 3600},
    "lock_timeout": {"type": "int", "default": 600},
    "download_dir": {"type": "path", "default": "/var/cache/gpufleet-kimi-k3/packages"},
}
