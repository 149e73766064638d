# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which path GPU memory can take to the HCAs. Pure: from the facts of gpudirect and the rails."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _rails
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Evidence, Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_module, verbs

DMABUF, PEERMEM, HOST = "dmabuf", "peermem", "none"


def since(release: str, wanted: tuple[int, int]) -> bool | None:
    """Whether a kernel release is at least ``wanted``; None for one that is not a version."""
    match = re.match(r"([0-9]{1,3})\.([0-9]{1,4})", release)
    return (int(match.group(1)), int(match.group(2))) >= wanted if match else None


def dmabuf(facts: dict[str, Any], found: _rails.Rails | Unknown) -> tuple[str, str, list[Evidence]]:
    """(capable, not capable or unknown; the reason; evidence) for the rails.

    The kernel's version is not asked: distributions carry it back, and the request itself tells (facts 3.1).
    """
    flavour = facts["driver"]["flavour"]
    evidence = [Evidence(nvidia_module.PROC_VERSION, facts["driver"]["line"])]
    if isinstance(flavour, Unknown):
        return verbs.UNKNOWN, flavour.reason, evidence
    if flavour is None:
        return verbs.UNKNOWN, "the NVIDIA driver is not loaded, see driver.loaded", evidence
    if flavour != nvidia_module.OPEN:
        return verbs.NOT_CAPABLE, "The proprietary kernel modules are loaded, which export no dma-buf.", evidence
    if isinstance(found, Unknown):
        return verbs.UNKNOWN, f"the rails are not known: {found.reason}", evidence
    if not found.rails:
        return verbs.UNKNOWN, "this node has no rail to ask, see rdma.ports", evidence
    asked = facts["verbs"]
    if isinstance(asked, Unknown):
        return verbs.UNKNOWN, f"the HCAs could not be asked: {asked.reason}", evidence
    answers = {rail.device: asked.get(rail.device) for rail in found.rails}
    for wanted in (verbs.NOT_CAPABLE, verbs.UNKNOWN):
        for device, answer in answers.items():
            if answer is None and wanted == verbs.UNKNOWN:
                return verbs.UNKNOWN, f"libibverbs does not know {device}", evidence
            if answer is not None and answer["answer"] == wanted:
                words = f"{device} at step {answer['step'] or 'none'}: {answer['meaning']}"
                return wanted, f"dma-buf is {wanted} on {words}.", [Evidence(verbs.SOURCE, words), *evidence]
    means: dict[str, list[str]] = {}
    for device, answer in answers.items():
        means.setdefault(answer["meaning"] if answer else "", []).append(device)
    told = [Evidence(verbs.SOURCE, f"{', '.join(names)}: {meaning}") for meaning, names in means.items()]
    why = (
        f"Open kernel modules, and all {len(found.rails)} rails take a dma-buf: capable, not proven, which only a "
        "registration of GPU memory would be."
    )
    return verbs.CAPABLE, why, [*evidence, *told]


def resolve(facts: dict[str, Any], found: _rails.Rails | Unknown, asked: str) -> tuple[str | Unknown, str]:
    """(dmabuf, peermem, none or Unknown; the reason) under ``gpudirect_path``.

    A path that works wins over one that cannot be read; none is only said where both are known not to work.
    """
    answer, why, _evidence = dmabuf(facts, found)
    bound = facts["peermem"]["bound"]
    if asked in ("auto", DMABUF) and answer == verbs.CAPABLE:
        return DMABUF, why
    if isinstance(found, _rails.Rails) and not found.rails:
        # Whatever the drivers could do, there is no rail to do it on.
        return Unknown("this node has no rail, see rdma.ports"), ""
    if asked in ("auto", PEERMEM) and bound is True:
        return PEERMEM, "nvidia_peermem is bound to ib_core" + (f"; dma-buf: {why}" if asked == "auto" else ".")
    if asked in ("auto", DMABUF) and answer == verbs.UNKNOWN:
        return Unknown(why), why
    if asked in ("auto", PEERMEM) and isinstance(bound, Unknown):
        return bound, bound.reason
    if asked in ("auto", PEERMEM) and facts["peermem"]["ib_core"] is False:
        return Unknown("the RDMA stack is not loaded, see rdma.stack"), ""
    parts = [] if asked == PEERMEM else [why]
    return HOST, " ".join([*parts, *([] if asked == DMABUF else ["nvidia_peermem is not bound to ib_core."])])
