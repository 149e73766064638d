# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What discovery says when something is wrong."""

from __future__ import annotations

from pathlib import Path


class OptionError(ValueError):
    """An option that cannot be right; the message names option, value and what is allowed. Nothing was contacted."""


class HostError(Exception):
    """One host could not be read; the message is a sentence for a person. The others go on."""


def shown_path(path: Path) -> str:
    """A path for an error message: whole, quoted, in one line."""
    return ascii(str(path))
