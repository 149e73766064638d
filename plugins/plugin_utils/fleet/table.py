# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The fleet checks: one table that judges, documents and orders them by cause. A new check is one more row."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Remedy
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet import (
    driver,
    firmware,
    gpudirect,
    hardware,
    network,
    peers,
    topology,
    verdicts,
)
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fleet.model import Spec

NO_DOMAIN = "no node of this run is in an NVLink domain"
NO_DEPLOYMENT = "no node of this run declares a deployment (k3_deployment)"
NO_FIGURE = "no source says that a mix breaks, so it only warns"

FLEET_CHECKS: tuple[Spec, ...] = (
    Spec(
        "domain",
        "Whether `k3_nvlink_domain` means the same clusterUuid on all nodes, and each clusterUuid has one name.",
        "each NVLink domain",
        "one name for one clusterUuid, declared on all nodes of a domain or on none",
        "facts, corrections (NVLink domain)",
        Remedy(
            "Correct `k3_nvlink_domain` in the inventory to the rack in which the named nodes are; where the inventory "
            "is right, look at the cabling and the fabric manager of the rack."
        ),
        NO_DOMAIN,
        topology.domain,
    ),
    Spec(
        "partition",
        "Whether `k3_nvlink_partition` means the same cliqueId on all nodes of an NVLink domain.",
        "each NVLink domain",
        "one name for one cliqueId, declared on all nodes of a domain or on none; 0 is a cliqueId",
        "facts, corrections (NVLink domain)",
        Remedy("Correct `k3_nvlink_partition` in the inventory, or the partitions of the rack's fabric manager."),
        NO_DOMAIN,
        topology.partition,
    ),
    Spec(
        "driver",
        "Whether all nodes of an NVLink domain have loaded the same driver version; elsewhere those of a deployment.",
        "each NVLink domain; each deployment for its nodes without one (differences only warn there)",
        "one loaded driver version",
        "C23; facts, corrections (NVLink domain)",
        Remedy(
            "Bring the whole rack to one version in one step: drain all of its nodes, install that version and reboot. "
            "Never tray by tray while others serve.",
            "drain",
        ),
        f"{NO_DOMAIN}, and {NO_DEPLOYMENT.replace('of this run ', '')}",
        driver.driver,
    ),
    Spec(
        "gpus",
        "Whether the nodes of a deployment have the same GPUs, in model and number.",
        "each deployment",
        "one model and one number of GPUs",
        "facts 7.1",
        Remedy(
            "Cure the named nodes (see gpu.count of their rows), or give nodes of another kind a `k3_deployment` of "
            "their own."
        ),
        NO_DEPLOYMENT,
        hardware.gpus,
    ),
    Spec(
        "rails",
        "Whether the nodes of a deployment have the same rails: number, rate and link layer.",
        "each deployment",
        "equal rails; InfiniBand beside Ethernet fails, other differences only warn",
        "facts 0.18; peers 2.17",
        Remedy(
            "Cure the rails of the named nodes (see rdma.ports of their rows), or declare `k3_rdma_hcas` alike on all."
        ),
        NO_DEPLOYMENT,
        hardware.rails,
    ),
    Spec(
        "peermem",
        "Whether peermem is bound on all nodes of a deployment as soon as one of them needs it.",
        "each deployment",
        "nvidia_peermem bound on all nodes, or needed by none",
        "C24, C25, C27",
        Remedy(
            "Bind nvidia_peermem on the named nodes, each as gpudirect.peermem of its row says; set "
            "NCCL_DMABUF_ENABLE=0 for the job only once it is bound on all of them.",
            "drain",
        ),
        NO_DEPLOYMENT,
        gpudirect.peermem,
    ),
    Spec(
        "firmware",
        "Whether GPUs and adapters of one kind have one firmware (VBIOS; HCA) in a deployment.",
        "each deployment",
        "one firmware for each kind of GPU and adapter",
        NO_FIGURE,
        Remedy("Update the firmware of the named nodes in the next maintenance window.", "reboot"),
        NO_DEPLOYMENT,
        firmware.firmware,
        blocking=False,
    ),
    Spec(
        "mtu",
        "Whether the data interfaces of a deployment have the same MTU.",
        "each deployment",
        "one MTU",
        NO_FIGURE,
        Remedy(
            "Set one MTU on the data interfaces of the deployment and on the switch ports between them; large packets "
            "may else be lost without an error."
        ),
        NO_DEPLOYMENT,
        network.mtu,
        blocking=False,
    ),
    Spec(
        "peer_tcp",
        "Whether the nodes of a deployment reach each other on its ports (rendezvous, data-parallel handshake, NIXL, "
        "and IMEX where there is one), with small and full packets. Tried only with `node_readiness_peer_test`.",
        "each deployment of two nodes or more",
        "every node reaches its two neighbours on every port",
        "facts 4.7, 7.3",
        Remedy(
            "Open the ports of the deployment between its nodes, in the firewalls of the named nodes and on the way; "
            "where only full packets are lost, set one MTU on the nodes and the switches between them."
        ),
        "no peer test was made: it needs node_readiness_peer_test and a deployment (k3_deployment) of two nodes",
        peers.peer_tcp,
        concern="network",
    ),
    Spec(
        "nodes",
        "Whether each node by itself is ready.",
        "the run",
        "at least one node, and all of them ready",
        "a fleet is as ready as its worst node",
        Remedy("Cure the nodes as their own rows say, the most frequent cause first."),
        "no node was asked",
        verdicts.own_verdicts,
    ),
)
