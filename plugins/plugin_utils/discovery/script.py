# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The script that reads a node, made ready for one session."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import NVIDIA_VENDOR, PRODUCTS

# Simple words, which every login shell understands alike. The script comes by standard input.
COMMAND = "/bin/sh -s"
_TEXT = Path(__file__).with_name("read_node.sh")


def script(nonce: str, limit: int) -> bytes:
    """What /bin/sh is to read. ``nonce``: letters and digits; ``limit``: seconds for each command."""
    if not nonce.isalnum():
        raise ValueError("a nonce consists of letters and digits")
    listed = sorted(
        f"0x{device}" for (vendor, device), kind in PRODUCTS.items() if vendor == NVIDIA_VENDOR and not kind.nvlsm
    )
    head = f"nonce={nonce}\nlimit={int(limit)}\nlisted='{' '.join(listed)}'\n"
    return (head + _TEXT.read_text(encoding="utf-8")).encode("utf-8")
