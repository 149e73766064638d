# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GPUs: how many, which, whether they are sound, and whether they are set up and free for one engine."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import ANY, GPU, Remedy, Spec
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import SERVES_K3

CHECKS = (
    Spec(
        "count",
        "The PCI bus, nvidia-smi and the product agree on the number of GPUs; a GPU that only the bus shows fell off.",
        "`gpu_count`, else the number a node of this product has (HGX 8, GB200/GB300 tray 4)",
        "facts 7.1, 5.13",
        Remedy(
            "Drain the node and reboot it; where the GPU stays away, have the machine looked at. Declare `gpu_count` "
            "where this node is meant to have another number.",
            "reboot",
        ),
        machines=ANY,
    ),
    Spec(
        "model",
        "The GPUs are of one product, and Kimi K3 is served on it.",
        "one product of: " + ", ".join(SERVES_K3),
        "recipe at 8959cf6, hardware table; a wrong product is another finding than too little memory",
        Remedy("Serve Kimi K3 on another node: no setting makes these GPUs fit."),
        machines=GPU,
    ),
    Spec(
        "recovery_action",
        "What the driver asks to be done to recover each GPU.",
        "None on every GPU",
        "NVML gpuRecoveryAction; peers 1b, section 6",
        Remedy("Drain the node and do what the driver asks for.", "drain"),
    ),
    Spec(
        "xid",
        "Xid and SXid events of this boot by what they ask for. The driver's recovery action decides first: where it "
        "asks for nothing, an old event only warns.",
        "no event that asks for a reset, a reboot or service while the GPU's recovery action is open",
        "NVIDIA Xid catalogue; peers 1b and section 5",
        Remedy("Drain the node, reset the GPU, and have it serviced where the event comes back.", "drain"),
        blocking=False,
    ),
    Spec(
        "ecc",
        "ECC is on, no uncorrectable error happened since the driver was loaded, no repair is due.",
        "ECC Enabled now and after the next reset; no volatile uncorrectable error; no repair or replacement due",
        "facts 5.4 (fields); peers 1b",
        Remedy("Drain the node and reset the GPU; have it replaced where the error comes back.", "drain"),
    ),
    Spec(
        "row_remap",
        "No row of GPU memory waits for its remapping, and none could not be remapped.",
        "pending No, failure No",
        "facts 5.4 (fields); peers 1b",
        Remedy("Drain the node and reset the GPU: the remapping then takes effect.", "drain"),
    ),
    Spec(
        "mig",
        "Multi-instance mode is off.",
        "Disabled now and after the next reset",
        "recipe: the engine takes whole GPUs",
        Remedy("Stop what uses the GPUs and turn MIG off.", "drain", "nvidia-smi -mig 0"),
    ),
    Spec(
        "compute_mode",
        "Every process may use the GPUs.",
        "Default",
        "recipe: several processes share each GPU",
        Remedy("Set the compute mode back.", "none", "nvidia-smi -c 0"),
    ),
    Spec(
        "nvlink",
        "All NVLinks of each GPU are up at full speed. It shows dead links; a live link proves no working fabric: "
        "that is fabric.state.",
        "18 links a GPU from Hopper on: Hopper 26.562 GB/s, Blackwell 53.125 GB/s each",
        "peers section 5 (nvlink_active, nvlink_bandwidth_count_speed); C33",
        Remedy("Drain the node and reboot it; where the link stays down, have the machine looked at.", "reboot"),
        blocking=False,
    ),
    Spec(
        "pcie",
        "The PCIe link of each GPU has its full width. Its generation is not judged: it drops at idle, and the "
        "device's own maximum is not the slot's.",
        "current width = maximum width = 16x; replays at most `gpu_pcie_replays_max`",
        "facts 5.5; peers 1b",
        Remedy("Drain the node and power-cycle it; where the link stays narrow, have the GPU reseated.", "reboot"),
    ),
    Spec(
        "throttle",
        "The hardware does not slow the GPUs down for heat or power.",
        "hardware slowdown, thermal slowdown and power brake Not Active",
        "facts 5.4 (fields); peers 1b",
        Remedy("Look at the cooling and the power supplies of this machine (BMC)."),
        blocking=False,
    ),
    Spec(
        "firmware",
        "The GPUs run the GSP firmware of the loaded driver, and all have one VBIOS.",
        "GSP firmware = driver version; one VBIOS version",
        "facts 5.4 (fields)",
        Remedy("Drain the node and reboot it, so that the driver loads its own firmware.", "reboot"),
        blocking=False,
    ),
    Spec(
        "busy",
        "No process and no memory is left on the GPUs, unless `gpu_busy_allowed`.",
        "no process; at most `gpu_idle_memory_mib` MiB used a GPU",
        "a process left from an earlier start holds memory and looks like a model too large",
        Remedy(
            "Stop the processes that are left on the GPUs, or set `gpu_busy_allowed` on a node that serves.", "drain"
        ),
        blocking=False,
    ),
)
