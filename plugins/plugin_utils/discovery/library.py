# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The SSH library, which a control node may lack."""

from __future__ import annotations

import logging
import sys

try:
    import paramiko
except ImportError as exc:
    WHY_MISSING = str(exc)
else:
    WHY_MISSING = ""
    # What goes wrong is told once, by us; unasked, the library would write its tracebacks onto the terminal.
    logging.getLogger(paramiko.__name__).addHandler(logging.NullHandler())

# The first with PKey.from_path and fingerprints in the form of OpenSSH.
OLDEST = (3, 2)


def fault() -> str:
    """Why discovery cannot work with what is installed here; empty where it can."""
    command = f"{sys.executable} -m pip install 'paramiko>={OLDEST[0]}.{OLDEST[1]}'"
    if WHY_MISSING:
        return f"discovery needs the Python library paramiko on the control node ({WHY_MISSING}); install it: {command}"
    version = paramiko.__version__
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return "" if numbers >= OLDEST else f"discovery needs a newer paramiko than {version}; install it: {command}"
