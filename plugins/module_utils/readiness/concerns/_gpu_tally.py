# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One answer from many GPUs: the worst of them decides, and the sentence names the GPUs and what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    FAIL,
    UNKNOWN,
    WARN,
    Evidence,
    Findings,
    Remedy,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_smi

SHOWN = 4
# What a field says when it has nothing to say; None where the element is absent.
SILENT = (None, "", "N/A", "[N/A]")


@dataclass(frozen=True)
class Remark:
    """What is wrong with one GPU: ``text`` continues "GPU x: ", ``line`` is the evidence."""

    status: str
    bdf: str
    text: str
    line: str
    remedy: Remedy | None = None


class Tally:
    """Collects remarks about GPUs and answers one check with the worst of them: fail, then unknown, then warn."""

    def __init__(self) -> None:
        self.remarks: list[Remark] = []

    def add(self, status: str, bdf: str, text: str, line: str = "", remedy: Remedy | None = None) -> None:
        """One remark; ``status`` is fail, unknown or warn. Where several remedies are given, the first one stands."""
        self.remarks.append(Remark(status, bdf, text, line or text, remedy))

    def flag(
        self,
        bdf: str,
        name: str,
        value: Any,
        good: Sequence[str | None],
        bad: Mapping[str, tuple[str, str, Remedy | None]] | None = None,
    ) -> None:
        """Judge a field of few values: one of ``good`` says nothing, one of ``bad`` its remark, all else is unknown."""
        if value in good:
            return
        line = f"{bdf}: {name} = {value}"
        if bad and isinstance(value, str) and value in bad:
            status, text, remedy = bad[value]
            self.add(status, bdf, text, line, remedy)
        elif value in SILENT:
            self.add(UNKNOWN, bdf, f"{name} is not told", line)
        else:
            self.add(UNKNOWN, bdf, f"{name} is {value!r}, which this check does not know", line)

    def worst(self) -> str | None:
        """The status that decides; None where nothing was remarked."""
        return next((status for status in (FAIL, UNKNOWN, WARN) if self._of(status)), None)

    def answer(
        self,
        findings: Findings,
        name: str,
        passed: str,
        observed: Any = None,
        required: Any = None,
        source: str = nvidia_smi.SOURCE,
        line: str = "",
    ) -> None:
        """Answer the check ``name``; ``passed`` is the sentence for the case that nothing was remarked."""
        status = self.worst()
        if status is None:
            findings.passed(name, passed, observed, required, Evidence(source, line))
            return
        decisive = self._of(status)
        evidence = [Evidence(source, remark.line) for remark in decisive[:SHOWN]]
        remedy = next((remark.remedy for remark in decisive if remark.remedy), None)
        text = sentence(decisive)
        if status == FAIL:
            findings.failed(name, text, observed, required, evidence, remedy)
        elif status == WARN:
            findings.warned(name, text, observed, required, evidence, remedy)
        else:
            findings.unknown(name, text, observed, required, evidence)

    def _of(self, status: str) -> list[Remark]:
        return [remark for remark in self.remarks if remark.status == status]


def sentence(remarks: Sequence[Remark]) -> str:
    """The remarks as one sentence, GPUs with the same remark named together."""
    groups: dict[str, list[str]] = {}
    for remark in remarks:
        groups.setdefault(remark.text, []).append(remark.bdf)
    parts = [f"GPU {named(bdfs)}: {text}" for text, bdfs in groups.items()]
    more = len(parts) - SHOWN
    return "; ".join(parts[:SHOWN]) + (f"; and {more} more remarks." if more > 0 else ".")


def named(bdfs: Sequence[str]) -> str:
    """``a, b and 6 more``, each once."""
    unique = list(dict.fromkeys(bdfs))
    if len(unique) <= SHOWN:
        return ", ".join(unique)
    return ", ".join(unique[: SHOWN - 1]) + f" and {len(unique) - SHOWN + 1} more"


def whole(value: Any) -> int | None:
    """The non-negative integer at the head of ``16x``, ``0``, ``183359 MiB``; None for anything else."""
    if not isinstance(value, str):
        return None
    head = value.split(" ", 1)[0].rstrip("x")
    return int(head) if head.isascii() and head.isdigit() and len(head) <= 18 else None
