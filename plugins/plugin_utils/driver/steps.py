# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The steps of the action driver_decision: each takes its arguments, the task's variables and whether it is a check."""

from __future__ import annotations

import urllib.error
from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.urls import open_url

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver import (
    key as keys,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver import (
    proof,
    refusals,
    summary,
    variables,
    versions,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver import (
    request as requests,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver import (
    table as tables,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.table import DriverError

Answer = dict[str, Any]


def _refuse(reasons: list[str]) -> None:
    if reasons:
        raise DriverError("\n".join(reasons))


def preflight(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """Refuses wrong variables of any host of the play."""
    hosts = task_vars["ansible_play_hosts_all"]
    _refuse(variables.faults({host: task_vars["hostvars"][host] for host in hosts}))
    return {"nodes": len(hosts)}


def key(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """The public keys of the repositories that the hosts of the play take: ``{"key_texts": {row of the table: text}}``.

    The vendor's are fetched over https, once each, and their fingerprints checked.
    """
    table = arguments["table"]
    found: dict[str, str] = {}
    for host in task_vars["ansible_play_hosts"]:
        values = task_vars["hostvars"][host]
        result = values.get("node_readiness_result")
        facts = result.get("readiness", {}).get("facts") if isinstance(result, Mapping) else None
        if (
            not facts
            or values.get("nvidia_driver_source", "vendor") != "vendor"
            or values.get("nvidia_driver_key_file")
        ):
            continue
        try:
            row = tables.distribution(table, facts["host"])
            machine = tables.machine(table, row, facts["host"], "vendor")
        except DriverError:
            # Told by the step `request`, of this host alone.
            continue
        if row["key"] not in found:
            wanted = values.get("nvidia_driver_key_fingerprint") or table["keys"][row["key"]]["fingerprint"]
            found[row["key"]] = _fetch(table, row, machine, wanted)
    return {"key_texts": found}


def _fetch(table: Mapping[str, Any], row: Mapping[str, Any], machine: str, wanted: str) -> str:
    file = table["keys"][row["key"]]["file"]
    url = f"{table['vendor_url']}/{row['folder']}/{machine}/{file}"
    try:
        with open_url(url, timeout=30, http_agent="gpufleet.kimi_k3") as answer:
            text = answer.read(keys.SIZE_MAX).decode("ascii")
        keys.check(text, wanted, file)
    except (OSError, ValueError, urllib.error.URLError) as exc:
        raise DriverError(
            f"the key {url} cannot be fetched ({exc}); where this control node has no way there, give the file of the "
            "key as nvidia_driver_key_file"
        ) from exc
    except keys.KeyFault as exc:
        raise DriverError(f"the key {url} is not taken: {exc}") from exc
    return text


def request(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """What is asked of the node, and what keeps the role off it; ``now`` is asked of the node before."""
    facts, wish, table = arguments["facts"], arguments["wish"], arguments["table"]
    if not facts:
        raise DriverError("the probe gave no facts of this node, so nothing of it is changed")
    reasons = []
    made: Answer = {}
    try:
        made = requests.request(facts, _with_key(facts, wish, table), table)
    except DriverError as exc:
        reasons.append(str(exc))
    if arguments["now"]:
        reasons += refusals.of_node(facts, wish, arguments["now"])
    _refuse(reasons)
    return {"request": {**made, "recorded_as": versions.key(wish)}}


def _with_key(facts: Mapping[str, Any], wish: Mapping[str, Any], table: Mapping[str, Any]) -> Answer:
    """The wish with the text of the repository's key, from the file of the site or from what was fetched."""
    if wish["source"] == "distribution":
        return {**wish, "key": None}
    if wish["key_file"]:
        return {**wish, "key": variables.read_key(wish["key_file"])}
    row = tables.distribution(table, facts["host"])
    text = wish["key_texts"].get(row["key"])
    if text is None:
        raise DriverError("the key of the repository was not fetched")
    return {**wish, "key": text}


def resolve(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """One version for all hosts of the play that want the same: ``{"versions": {host: version}, "file"}``."""
    folder = arguments["dir"]
    record = versions.read(folder)
    offers = {}
    for host in task_vars["ansible_play_hosts"]:
        values = task_vars["hostvars"][host]
        survey = values.get("__nvidia_driver_survey")
        # Where the index was not reached, nothing is known of what is offered; told of this host alone, below.
        if isinstance(survey, Mapping) and survey.get("plan", {}).get("certain"):
            wanted = values["__nvidia_driver_request"]["request"]
            offers[host] = {
                "key": wanted["recorded_as"],
                "branch": wanted["branch"],
                "versions": survey["plan"]["available"].get(wanted["decides"], []),
            }
    chosen, after = versions.resolve(offers, record)
    new = {name: row["version"] for name, row in after.items() if name not in record}
    file = versions.write(folder, after) if new and not check else ""
    return {"versions": chosen, "new": new, "file": file, "changed": bool(new)}


def recorded(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """The version that was chosen earlier for this host's branch and source, or empty."""
    row = versions.read(arguments["dir"]).get(versions.key(arguments["wish"]))
    return {"version": row["version"] if row else ""}


def change(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """Whether the planned change may be: ``{"refused", "left_behind", "old", "old_versions"}``.

    Only a real run fails for a reason: a dry run shows it beside everything else. What would be left behind has to be
    planned for removal, too; ``old`` is what a rollback needs.
    """
    facts, made, plan = arguments["facts"], arguments["request"], arguments["plan"]
    reasons = refusals.of_change(facts, arguments["wish"], arguments["now"], made, plan, arguments["table"])
    reasons += refusals.of_headers(made["headers"], arguments["predicted"])
    if not check:
        _refuse(reasons)
    old = [
        {"name": item["name"], "arch": item["arch"], "version": item["from"]}
        for item in refusals.changes(plan)
        if item["from"] is not None
    ]
    locked = requests.installed(facts["driver"])
    versions_now = sorted({requests.upstream(version) for version in locked.values() if version})
    return {
        "refused": reasons,
        "left_behind": requests.left_behind(facts, plan, made["version"]) if made["version"] else [],
        "old": old,
        "old_versions": "+".join(versions_now) or "unknown",
    }


def idle(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """Whether nobody works on the GPUs, asked again right before the transaction."""
    reason = refusals.busy(arguments["now"], arguments["wish"], arguments["table"])
    _refuse([reason] if reason else [])
    return {}


def same(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """Whether a plan made again holds nothing that was not predicted: the headers came in between."""
    told = {(item["name"], item["to"]) for plan in arguments["predicted"] for item in refusals.changes(plan)}
    fresh = [item for item in refusals.changes(arguments["plan"]) if (item["name"], item["to"]) not in told]
    _refuse(
        [f"the plan changed since it was shown: {', '.join(summary.package(item) for item in fresh[:6])}"]
        if fresh
        else []
    )
    return {}


def prove(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """Fails the node that must not be rebooted, with every reason."""
    reasons = proof.faults(arguments["facts"], arguments["request"])
    if reasons:
        raise DriverError(
            "\n".join([f"DO NOT REBOOT {task_vars['inventory_hostname']}: its driver is not complete", *reasons])
        )
    return {}


def unbuilt(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """``{"commands"}`` that build the module for the kernels that lack it."""
    return {"commands": proof.unbuilt(arguments["facts"], arguments["request"])}


def tell(arguments: Answer, task_vars: Mapping[str, Any], check: bool) -> Answer:
    """What the run does to the node, line by line; as ``msg`` it is printed."""
    found = [f"would be refused: {reason}" for reason in arguments["refused"]] + summary.lines(
        arguments["facts"],
        arguments["request"],
        [*arguments["predicted"], arguments["plan"]],
        arguments["files"],
        arguments["services"],
        _rollback(arguments["rollback"]),
    )
    changed = [item for plan in [*arguments["predicted"], arguments["plan"]] for item in refusals.changes(plan)]
    after = {item["name"]: requests.upstream(item["to"]) if item["to"] else None for item in changed}
    return {
        "summary": found,
        "msg": found,
        "foreseen": {"version": arguments["request"]["version"], "packages": after},
    }


def _rollback(answer: Mapping[str, Any]) -> str:
    if not answer:
        return "not needed"
    if answer.get("missing"):
        return (
            f"unavailable ({'; '.join(answer['missing'][:4])}); without nvidia_driver_allow_no_rollback the run stops"
        )
    return f"the old packages are in {answer['folder']}" if answer.get("complete") else "the old packages can be had"


STEPS: dict[str, Callable[[Answer, Mapping[str, Any], bool], Answer]] = {
    "preflight": preflight,
    "key": key,
    "request": request,
    "recorded": recorded,
    "resolve": resolve,
    "change": change,
    "idle": idle,
    "same": same,
    "prove": prove,
    "tell": tell,
    "unbuilt": unbuilt,
}
