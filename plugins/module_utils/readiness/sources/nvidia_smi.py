# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""`nvidia-smi -q -x`, the one question put to the driver's tool.

Never the banner (its labels changed in r610, C21) and never --query-gpu (one unknown field loses the whole answer,
facts 5.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node, Result
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.redact import redact_all

ARGV = ["nvidia-smi", "-q", "-x"]
SOURCE = " ".join(ARGV)
# So much of an answer goes into the facts: GPUs, and characters of a text.
GPUS_KEPT = 64
TEXT_KEPT = 80
# Texts with which nvidia-smi says that it has no value.
NO_VALUE = (
    "",
    "n/a",
    "[n/a]",
    "[not supported]",
    "not supported",
    "unknown error",
    "[unknown error]",
    "err!",
    "requested functionality has been deprecated",
    "insufficient permissions",
    "[insufficient permissions]",
)


@dataclass(frozen=True)
class Gpu:
    """One GPU's block of the answer, read by path."""

    bdf: str
    element: ElementTree.Element

    def text(self, path: str) -> str | None:
        """The stripped text at ``path`` below the block; None where the element is absent or has no value."""
        return self.first(path)

    def first(self, *paths: str) -> str | None:
        """The first of several spellings that has a value: element names differ between branches."""
        for path in paths:
            raw = self.element.findtext(path)
            if raw is not None and raw.strip().lower() not in NO_VALUE:
                return raw.strip()
        return None

    def raw(self, path: str) -> str | None:
        """The stripped text at ``path`` even where it says that there is no value; None where it is absent."""
        raw = self.element.findtext(path)
        return None if raw is None else raw.strip()

    def number(self, path: str) -> int | None:
        """The leading integer at ``path`` (``16x``, ``183359 MiB``, ``0``); None where there is none."""
        match = re.match(r"-?[0-9]{1,18}(?![0-9])", self.text(path) or "")
        return int(match.group()) if match else None

    def row(self, fields: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
        """``{"bdf", name: raw text}`` by the first spelling of each field that is there; None: none of them is."""
        row: dict[str, Any] = {"bdf": self.bdf[:TEXT_KEPT]}
        for name, paths in fields.items():
            raw = next((text for text in map(self.raw, paths) if text is not None), None)
            row[name] = None if raw is None else raw[:TEXT_KEPT]
        return row


@dataclass(frozen=True)
class Smi:
    """The whole answer. Versions are None where the answer has none."""

    driver_version: str | None
    cuda_version: str | None
    attached_gpus: int | None
    gpus: list[Gpu]


def query(node: Node) -> Smi | Unknown:
    """Ask once. Unknown with the tool's own words where it is absent, hangs, fails or answers something unreadable."""

    def load() -> Smi | Unknown:
        result = node.run(ARGV)
        if result.error or result.rc != 0:
            return failure(result)
        return parse(result.stdout)

    return node.once("nvidia-smi parsed", load)


def result(node: Node) -> Result:
    """The command's own result (remembered): its text tells a version mismatch from an absent driver."""
    return node.run(ARGV)


def failure(result_: Result) -> Unknown:
    """Why it did not answer; the tool says most of its errors on standard output."""
    if result_.error:
        return result_.unknown()
    said = redact_all(" ".join((result_.stdout + " " + result_.stderr).split()), 300)
    return Unknown(f"`{SOURCE}` ended with {result_.rc} and said: {said or 'nothing'}", SOURCE)


def parse(text: str) -> Smi | Unknown:
    """Read the XML. Anything but a whole nvidia_smi_log with as many blocks as it announces is Unknown."""
    # Entities are not part of this format; declining them keeps a hostile answer from growing without bound.
    if "<!ENTITY" in text:
        return Unknown(f"the answer of `{SOURCE}` declares entities, which it never does", SOURCE)
    try:
        root = ElementTree.fromstring(text.encode("utf-8", "replace") if text.startswith("<?xml") else text)
    except (ElementTree.ParseError, ValueError, LookupError) as exc:
        return Unknown(f"the answer of `{SOURCE}` is not XML: {str(exc)[:120]}", SOURCE)
    if root.tag != "nvidia_smi_log":
        return Unknown(f"the answer of `{SOURCE}` is not an nvidia_smi_log", SOURCE)
    values: dict[str, str | None] = {}
    for name in ("driver_version", "cuda_version", "attached_gpus"):
        raw = (root.findtext(name) or "").strip()
        values[name] = None if raw.lower() in NO_VALUE else raw
    # 610 renames the driver's label; the element stays, newer ones are added beside it (facts 5.2, 5.3).
    values["driver_version"] = values["driver_version"] or (root.findtext("kmd_version") or "").strip() or None
    found = [Gpu(_bdf(block.get("id", "")), block) for block in root.findall("gpu")]
    count = values["attached_gpus"]
    attached = int(count) if count is not None and re.fullmatch(r"[0-9]{1,4}", count) else None
    return Smi(values["driver_version"], values["cuda_version"], attached, found)


def _bdf(identifier: str) -> str:
    """``00000000:8F:00.0`` (nvidia-smi) as ``0000:8f:00.0`` (sysfs)."""
    match = re.fullmatch(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])", identifier.strip())
    if not match:
        return identifier.strip().lower()
    domain = match.group(1)
    return ((domain[-4:] if domain[:-4].strip("0") == "" else domain) + ":" + match.group(2)).lower()
