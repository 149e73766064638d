# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The ordinary network: the interface of rendezvous and control traffic, its MTU, and what filters it."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import ANY, Remedy, Spec

# Ports a deployment listens on. Source: facts 4.7 (NIXL), 7.3 (IMEX); vLLM's defaults for rendezvous and API.
PORTS = "8000 (API), 29500 and 29501 (rendezvous), 5600 (NIXL), 50000 and 50005 (IMEX)"

CHECKS = (
    Spec(
        "data_interface",
        "The interface NCCL and Gloo bootstrap over exists, is up and has an address.",
        "`data_interface`, else the interface of the default route, is up with an IPv4 or IPv6 address",
        "facts 3.4: Gloo wants one exact name",
        Remedy("Declare the interface in `data_interface`, or bring it up and give it an address."),
        machines=ANY,
    ),
    Spec(
        "mtu",
        "The MTU of that interface.",
        "at least `network_mtu_min`",
        "no source names a figure, so without `network_mtu_min` the value is only shown",
        Remedy("Set the MTU on the interface and on the switch ports of its network."),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "firewall",
        "Whether something filters incoming traffic on this node.",
        "no active input filter, or one that lets the ports of the deployment in: " + PORTS,
        "facts 4.7, 7.3",
        Remedy(f"Open the ports of the deployment between its nodes: {PORTS}."),
        blocking=False,
        machines=ANY,
    ),
)
