# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What discovery says when something is wrong."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import SEARCHED, redact


class OptionError(ValueError):
    """An option that cannot be right; the message names option, value and what is allowed. Nothing was contacted."""


class HostError(Exception):
    """One host could not be read; the message is a sentence for a person. The others go on."""


def shown_path(path: Path) -> str:
    """A path for an error message: whole, quoted, in one line."""
    return ascii(str(path))


def last_words(data: bytes, kept: int) -> str:
    """The end of what somebody said, in one line of up to ``kept`` characters, without secrets and control characters.

    Redacted before it is cut: half a secret has no sign of being one.
    """
    text = data[-SEARCHED:].decode("utf-8", "replace")
    if len(data) > SEARCHED:
        # The first word may be such a half.
        text = " ".join(re.split(r"\s", text, maxsplit=1)[1:])
    return " ".join(redact(text).split())[-kept:]
