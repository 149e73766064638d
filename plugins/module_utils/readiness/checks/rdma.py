# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""RDMA between nodes: its kernel modules, the ports of the rails, their GIDs, and what stands between GPU and HCA."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import GPU, Remedy, Spec

CHECKS = (
    Spec(
        "stack",
        "The kernel modules of the HCAs are loaded, and a vendor stack that is installed is the one in use.",
        "loaded: the driver and RDMA module of each HCA, ib_uverbs, and ib_umad for InfiniBand and NVLink 5 boards; "
        "where `ofed_info` answers, ib_core of this kernel comes from it",
        "C15, C25; facts 2.9",
        Remedy("Load the missing modules now and at boot (a file in /etc/modules-load.d)."),
        machines=GPU,
        owner="rdma",
    ),
    Spec(
        "ports",
        "The ports of the rails are up.",
        "every rail (`rdma_hcas`, else the active ports of the highest rate) is ACTIVE and LinkUp, and there is one",
        "facts 0.18, 5.14; C31",
        Remedy("Look at cable, switch port and subnet manager of the port, or correct `rdma_hcas`.", "drain"),
        machines=GPU,
    ),
    Spec(
        "rate",
        "The rate of the rails.",
        "all rails equal, and at least `rdma_rate_min_gbps`",
        "peers 2.17; facts 5.14",
        Remedy("Have cable, transceiver and switch port of the slow rail checked.", "drain"),
        machines=GPU,
    ),
    Spec(
        "gid",
        "RoCE rails have an address that NCCL can use.",
        "every Ethernet rail has a GID of type RoCE v2 with an IPv4 address",
        "C31: the index is found on the node, never a constant 3",
        Remedy("Give the network interface of the rail an IPv4 address."),
        machines=GPU,
    ),
    Spec(
        "rails",
        "The rails match the GPUs.",
        "as many rails as GPUs or a multiple, spread over the NUMA nodes as the GPUs are",
        "facts 0.18; no source names a figure that fails, so it only warns",
        Remedy("Declare the rails in `rdma_hcas`, or look for the adapter that is missing."),
        blocking=False,
        machines=GPU,
    ),
    Spec(
        "acs",
        "PCIe bridges do not redirect traffic between GPU and HCA through the root complex.",
        "bare metal: ReqRedir and CmpltRedir off on the bridges above GPUs and HCAs",
        "C30",
        Remedy(
            "Decide on the site's isolation policy first; then switch ACS redirection off on these bridges with setpci "
            "from a unit that runs at every boot, or with pci=config_acs= on the kernel command line.",
            "drain",
        ),
        machines=GPU,
    ),
    Spec(
        "counters",
        "Error counters of the rails, as totals since the driver was loaded.",
        "link flaps at most `rdma_flaps_max`, errors at most `rdma_errors_max`",
        "C36, peers 1b; one reading of a total proves no present fault, so it only warns",
        Remedy(
            "Read the counters again after an hour of traffic; where they still grow, take the node out and have the "
            "cable and the adapter replaced.",
            "drain",
        ),
        blocking=False,
        machines=GPU,
    ),
)
