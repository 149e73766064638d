# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One loaded driver version in an NVLink domain (C23), and better one in a deployment of nodes without a domain."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import WARN
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.agreement import compare, judge
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import Answer, Spec
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Member, Reading, Survey, Unread

WHAT = "The loaded driver version"
SOURCE = "/sys/module/nvidia/version"


def driver(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer a domain, and one a deployment for its nodes that belong to none: those may differ, so it warns."""
    answers = [judge(spec, scope, compare(members, version), WHAT, SOURCE) for scope, members in survey.domains]
    for scope, members in survey.deployments:
        alone = [member for member in members if member.domain is None]
        if alone:
            answers.append(judge(spec, scope, compare(alone, version), WHAT, SOURCE, differing=WARN, blocking=False))
    return answers


def version(member: Member) -> Reading:
    """The version of the module that is loaded, which is what the rack has to share; not what is on disk."""
    told = member.text("driver", "loaded", "version")
    return Unread("no driver is loaded") if told is None else told
