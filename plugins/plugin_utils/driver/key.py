# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The public key that signs a repository: its fingerprint, read from the key itself."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

BLOCK = re.compile(r"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.S)
SIZE_MAX = 64 << 10


class KeyFault(Exception):
    """Why a key is not taken, as one sentence."""


def fingerprint(text: str) -> str:
    """The fingerprint of the primary key of an ASCII-armoured block, in capitals.

    Source: RFC 4880, sections 4.2, 6.2 and 12.2 (version 4).

    Raises:
        KeyFault: where the text is not exactly one public key in that form.
    """
    blocks = BLOCK.findall(text[:SIZE_MAX])
    if "PRIVATE KEY" in text:
        raise KeyFault("it holds a private key, which has no business here")
    if len(blocks) != 1:
        raise KeyFault("it is not one public key in text form (-----BEGIN PGP PUBLIC KEY BLOCK-----)")
    lines = blocks[0].replace("\r", "").split("\n")
    # Armour headers end with an empty line; the last line that begins with = is a checksum.
    body = lines[lines.index("") + 1 :] if "" in lines[:-1] else lines
    try:
        data = base64.b64decode("".join(line for line in body if line and not line.startswith("=")), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise KeyFault(f"its text cannot be decoded ({exc})") from exc
    packet = _first_packet(data)
    if packet[:1] != b"\x04":
        raise KeyFault("it is no key of version 4")
    return hashlib.sha1(b"\x99" + len(packet).to_bytes(2, "big") + packet, usedforsecurity=False).hexdigest().upper()


def _first_packet(data: bytes) -> bytes:
    """The body of the first packet, which has to be a public key."""
    if len(data) < 6 or not data[0] & 0x80:
        raise KeyFault("it holds no OpenPGP packet")
    if data[0] & 0x40:
        tag, first = data[0] & 0x3F, data[1]
        if first < 192:
            start, length = 2, first
        elif first < 224:
            start, length = 3, ((first - 192) << 8) + data[2] + 192
        else:
            start, length = 6, int.from_bytes(data[2:6], "big")
    else:
        tag, size = (data[0] >> 2) & 0x0F, 1 << (data[0] & 0x03)
        start, length = 1 + size, int.from_bytes(data[1 : 1 + size], "big")
    if tag != 6 or start + length > len(data):
        raise KeyFault("its first packet is no whole public key")
    return data[start : start + length]


def check(text: str, wanted: str, file: str = "") -> str:
    """The key's fingerprint, where it is the wanted one.

    ``wanted`` is a whole fingerprint; where it is empty, the key has to have the id that ``file`` is named after.

    Raises:
        KeyFault: where it is another key.
    """
    found = fingerprint(text)
    plain = wanted.replace(" ", "").upper()
    if plain and found != plain:
        raise KeyFault(f"its fingerprint is {found}, not {plain}")
    name = file.rsplit("/", 1)[-1].removesuffix(".pub").upper()
    if not plain and name and not found.endswith(name):
        raise KeyFault(f"its fingerprint is {found}, which does not end with {name}")
    return found
