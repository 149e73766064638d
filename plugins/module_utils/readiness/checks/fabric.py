# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The NVLink fabric: the GPUs' registration with it, and the services that a node of this kind needs for it."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Remedy, Spec

CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"

CHECKS = (
    Spec(
        "manager",
        "Where NVSwitches are on the node, the fabric manager is installed in the loaded driver's version to the last "
        "digit and runs. Elsewhere it is not needed, and on a tray of an NVLink rack it must not run.",
        "HGX: package version = loaded driver; nvidia-fabricmanager active; on NVLink 5 ib_umad and mlx5_ib loaded",
        "C14, C15, C16; facts 1.39-1.42; peers traps 2, 7, 12, 13",
        Remedy(
            "Install the fabric manager in the version of the loaded driver, and start it.",
            "drain",
            **cures.DRIVER_AND_FABRIC,
        ),
        owner="fabric",
    ),
    Spec(
        "nvlsm",
        "On NVLink 5 boards (B200, B300) the NVLink subnet manager is installed and runs beside the fabric manager.",
        "nvlsm present and running; it is date-versioned, so its version is not compared",
        "C15; facts, corrections (version lock); peers trap 2",
        Remedy("Install nvlsm and restart the fabric manager, which starts it.", "drain", **cures.DRIVER_AND_FABRIC),
        owner="fabric",
    ),
    Spec(
        "state",
        "Every GPU has registered with the fabric, and the driver reports it healthy.",
        "state Completed and status Success on every GPU; health not limited, degraded or misconfigured",
        "C33; facts 5.4, 5.9; peers trap 7",
        Remedy(
            "See to the fabric manager (HGX) or the rack's fabric (GB200/GB300), then reset the GPUs or reboot.",
            "reboot",
        ),
        owner="fabric",
    ),
    Spec(
        "imex_channel",
        "A tray has the device over which processes exchange memory handles.",
        CHANNEL,
        "facts 7.4, 3.14, 1.44; C34",
        Remedy(
            "Load the nvidia module with NVreg_CreateImexChannel0=1 (a file in /etc/modprobe.d), and reboot.",
            "reboot",
            **cures.FABRIC,
        ),
        owner="driver",
    ),
    Spec(
        "imex",
        "A tray has one IMEX service: installed in the loaded driver's version, active, with the domain's nodes in its "
        "file, and answering.",
        "package version = loaded driver; one owner; nodes_config.cfg not empty; the domain's state UP",
        "C34; facts 7.3, 3.14; peers trap 3",
        Remedy(
            "Install nvidia-imex in the version of the loaded driver, write its nodes file, and start it.",
            "drain",
            **cures.DRIVER_AND_FABRIC,
        ),
        owner="fabric",
    ),
    Spec(
        "domain",
        "The NVLink domain (the rack: unit of driver change) that the GPUs belong to.",
        "tray: one non-zero clusterUuid on all GPUs, equal to `nvlink_domain` where that is declared",
        "facts, corrections (NVLink domain) and 5.4; C23",
        Remedy("Compare the declared domain with the rack this node stands in, and correct the one that is wrong."),
    ),
    Spec(
        "partition",
        "The NVLink partition (unit of NVLink reachability) that the GPUs belong to. cliqueId 0 is legal.",
        "where there is a domain: one cliqueId on all GPUs, equal to `nvlink_partition` where that is declared",
        "facts, corrections (NVLink domain), 5.4 and 7.5",
        Remedy("Compare the declared partition with what the rack's fabric manager has assigned, and correct one."),
    ),
)
