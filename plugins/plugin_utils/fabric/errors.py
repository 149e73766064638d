# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a node is not touched, and the probe's way to say that it could not read something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class FabricError(Exception):
    """Reasons for people on call, a line each."""


def is_unknown(value: Any) -> bool:
    """Whether a value read on the node says that it could not be read."""
    return isinstance(value, Mapping) and set(value) == {"unknown"}


def why(value: Any) -> str:
    """Why a value could not be read."""
    return str(value["unknown"]) if is_unknown(value) else "it was not told"
