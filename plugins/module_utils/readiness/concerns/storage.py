# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Room for the image and for the weights, on the filesystems where they really go."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks.storage import CHECKS
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    Check,
    Evidence,
    Findings,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import container_engine, filesystems

GIB = 1 << 30
GB = 10**9


def collect(node: Node) -> dict[str, Any]:
    """``{"stores": [folder of images], "told": engine or contract named them, "rooms": {path: room}, "weights": {…}}``.

    Which paths are measured comes from the contract: assess() answers for these paths only.
    """
    declared = node.require.get("image_store_path") or ""
    engine = {} if declared else container_engine.find(node)
    stores = [declared] if declared else list(engine.get("roots", []))
    weights_path = node.require.get("weights_path") or ""
    rooms = {path: filesystems.room(node, path) for path in [*stores, weights_path] if path}
    there: dict[str, Any] = {}
    room = rooms.get(weights_path)
    # Looking for files takes its time: only where room alone does not decide.
    if isinstance(room, dict) and room["free"] < node.require.get("weights_room_gb", 0) * GB:
        exists = room["at"] == weights_path
        there[weights_path] = filesystems.weights(node, weights_path) if exists else {"files": 0, "bytes": 0}
    told = bool(declared) or engine.get("state") == container_engine.ANSWERING
    return {"stores": stores, "told": told, "rooms": rooms, "weights": there}


def assess(facts: dict[str, Any], require: dict[str, Any]) -> list[Check]:
    """Answers for image_room and weights_room."""
    findings = Findings("storage", CHECKS)
    storage = facts["storage"]
    _assess_image(findings, storage, require)
    _assess_weights(findings, storage, require)
    return findings.checks()


def _room(storage: dict[str, Any], path: str) -> Any:
    return storage["rooms"].get(path, Unknown(f"the room at {path} was not measured", path))


def _assess_image(findings: Findings, storage: dict[str, Any], require: dict[str, Any]) -> None:
    name, least = "image_room", require["image_room_gib"]
    required = f"{least} GiB"
    declared = require["image_store_path"]
    stores = [declared] if declared else storage["stores"]
    if not stores:
        findings.unknown(name, "no container engine tells where images go", required=required)
        return
    worst: tuple[int, dict[str, Any], str] | None = None
    observed = []
    for path in stores:
        room = _room(storage, path)
        if isinstance(room, Unknown):
            findings.unknown(name, room, required=required)
            return
        observed.append({"store": path, "free_gib": room["free"] // GIB, "inodes_free": room["inodes"], **_place(room)})
        if worst is None or room["free"] < worst[0]:
            worst = (room["free"], room, path)
    rooms = [(path, _room(storage, path)) for path in stores]
    evidence = [Evidence(f"df {room['at']}", f"{room['free']} bytes free on {room['mount']}") for _path, room in rooms]
    full = [(path, room) for path, room in rooms if room["inodes"] == 0]
    few = [(path, room) for path, room in rooms if room["inodes"] is not None]
    few = [(path, room) for path, room in few if room["inodes"] < require["image_inodes_min"]]
    if full:
        path, room = full[0]
        findings.failed(
            name,
            f"The filesystem {room['mount']} of the image store {path} is out of inodes, whatever room it shows.",
            observed,
            required,
            evidence,
        )
    elif worst is not None and worst[0] < least * GIB:
        findings.failed(
            name,
            f"The image store {worst[2]} has {worst[0] // GIB} GiB free on {worst[1]['mount']}, less than {least} GiB.",
            observed,
            required,
            evidence,
        )
    elif few:
        path, room = few[0]
        findings.warned(
            name,
            f"The image store {path} has {room['inodes']} inodes left, few for an image (no source names a figure).",
            observed,
            required,
            evidence,
        )
    else:
        shown = ", ".join(f"{path} has {room['free'] // GIB} GiB free" for path, room in rooms)
        source = "" if storage["told"] else " (by its configuration: the engine does not answer)"
        findings.passed(name, f"{shown}{source}.", observed, required, evidence)


def _place(room: dict[str, Any]) -> dict[str, Any]:
    return {"mount": room["mount"], "fstype": room["fstype"]}


def _assess_weights(findings: Findings, storage: dict[str, Any], require: dict[str, Any]) -> None:
    name, path, least = "weights_room", require["weights_path"], require["weights_room_gb"]
    required = f"{least} GB"
    if not path:
        findings.warned(
            name,
            "It is not decided where the weights go (`weights_path` is empty), so their room was not measured.",
            None,
            required,
        )
        return
    room = _room(storage, path)
    if isinstance(room, Unknown):
        findings.unknown(name, room, required=required)
        return
    there = storage["weights"].get(path, {})
    observed: dict[str, Any] = {"path": path, "free_gb": room["free"] // GB, **_place(room)}
    evidence = [Evidence(f"df {room['at']}", f"{room['free']} bytes free on {room['mount']}")]
    if room["free"] >= least * GB:
        if room["inodes"] == 0:
            findings.failed(name, f"The filesystem {room['mount']} is out of inodes.", observed, required, evidence)
            return
        _assess_shared(findings, storage, require, room, observed, evidence)
        return
    if isinstance(there, Unknown):
        findings.unknown(
            name,
            f"{room['free'] // GB} GB are free, and what is already there could not be counted: {there.reason}",
            observed,
            required,
            evidence,
        )
        return
    present = there.get("bytes", 0)
    observed["present_gb"] = present // GB
    if present:
        evidence.append(Evidence(f"find {path}", f"{there['files']} files of weights take {present} bytes"))
    if there.get("complete") is True:
        findings.passed(
            name, f"A complete checkpoint of {present // GB} GB is at {path}.", observed, required, evidence
        )
    elif room["free"] + present >= least * GB:
        findings.passed(
            name,
            f"{path} has {room['free'] // GB} GB free beside {present // GB} GB of weights.",
            observed,
            required,
            evidence,
        )
    else:
        beside = f" beside {present // GB} GB of weights" if present else ""
        findings.failed(
            name,
            f"{path} has {room['free'] // GB} GB free on {room['mount']}{beside}, and the weights need {least} GB.",
            observed,
            required,
            evidence,
        )


def _assess_shared(
    findings: Findings,
    storage: dict[str, Any],
    require: dict[str, Any],
    room: dict[str, Any],
    observed: dict[str, Any],
    evidence: list[Evidence],
) -> None:
    """The room suffices; unless the image goes to the same filesystem and both do not fit."""
    name, path, least = "weights_room", require["weights_path"], require["weights_room_gb"]
    required = f"{least} GB"
    both = least * GB + require["image_room_gib"] * GIB
    stores = [require["image_store_path"]] if require["image_store_path"] else storage["stores"]
    others = [storage["rooms"].get(store) for store in stores]
    shared = any(isinstance(other, dict) and other["mount"] == room["mount"] for other in others)
    if shared and room["free"] < both:
        findings.warned(
            name,
            f"{path} has {room['free'] // GB} GB free, but the image store is on {room['mount']} too: together they "
            f"need {-(-both // GB)} GB.",
            observed,
            f"{-(-both // GB)} GB",
            evidence,
        )
        return
    findings.passed(name, f"{path} has {room['free'] // GB} GB free.", observed, required, evidence)
