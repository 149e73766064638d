# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The MTU of the interface on which the nodes of a deployment meet."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import WARN
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.agreement import compare, judge
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import Answer, Spec
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.survey import Member, Reading, Survey, Unread

CHECK = "network.mtu"


def mtu(spec: Spec, survey: Survey) -> list[Answer]:
    """One answer a deployment."""
    return [
        judge(
            spec, scope, compare(members, of_data_interface), "The MTU of the data interface", "ip -j addr show", WARN
        )
        for scope, members in survey.deployments
    ]


def of_data_interface(member: Member) -> Reading:
    """Bytes, as the node's own check read them of the declared data interface, else of the default route's."""
    unread = member.fact("network", "interfaces")
    if isinstance(unread, Unread):
        return unread
    check = member.checks.get(CHECK, {})
    value = check.get("observed")
    if isinstance(value, bool) or not isinstance(value, int):
        return Unread(str(check.get("reason") or f"its answer has no check {CHECK}"))
    return str(value)
