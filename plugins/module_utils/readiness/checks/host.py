# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The host below everything: who manages it, its OS and kernel, its clock and memory, and whether a reboot is due."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import ANY, GPU, Remedy, Spec

OS_REQUIRED = (
    "Ubuntu 22.04, 24.04 or 26.04, Debian 12 or 13, EL 9 or 10, Amazon Linux 2023; another only warns, EL 8 is refused"
)

CHECKS = (
    Spec(
        "managed_by",
        "Who else manages this node or a part of it.",
        "no scheduler runs here and no part has another owner; else it is said who has to be asked first",
        "peers 2.14; a scheduler has to be told before its node changes",
        Remedy("Ask the owner named here before anything is changed on this node."),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "arch",
        "The processor architecture: one the image exists for, and the one the GPU product comes with.",
        "x86_64 or aarch64; aarch64 where the GPU is part of a Grace superchip",
        "facts 6.1, 7.1",
        Remedy("Serve Kimi K3 on a node whose architecture the image exists for (x86_64 or aarch64)."),
        machines=ANY,
    ),
    Spec(
        "os",
        "The operating system and its release, and whether the roles of this collection manage it.",
        OS_REQUIRED,
        "facts 1.12, 1.15 and corrections (EL 8); C67",
        Remedy("Install a release that the roles manage, or keep managing this node by its own tools."),
        machines=ANY,
    ),
    Spec(
        "python",
        "The Python that runs the probe and the modules of the roles.",
        "3.9 or newer",
        "C67",
        Remedy("Install Python 3.9 or newer and name it in ansible_python_interpreter."),
        machines=ANY,
    ),
    Spec(
        "kernel",
        "The running kernel, against what GPUDirect asks of it.",
        "5.12 or newer (registration of GPU memory by dmabuf); 6.1 where `gpudirect_gin` is on",
        "facts 3.1, 7.2 and corrections (GIN)",
        Remedy("Boot a newer kernel of the distribution.", "reboot"),
        machines=ANY,
    ),
    Spec(
        "secure_boot",
        "Whether Secure Boot keeps the driver's modules out.",
        "off, or the nvidia module is loaded (so its signature was accepted)",
        "facts 1.31; C19",
        Remedy(
            "Install the driver's signed modules of the distribution, or enrol the key that signed them: "
            "mokutil --import, then confirm at the console during the next boot.",
            "reboot",
        ),
        machines=ANY,
    ),
    Spec(
        "kernel_args",
        "Boot arguments for direct traffic between GPU and network card.",
        "IOMMU in passthrough (iommu=pt, on Arm iommu.passthrough=1); on Grace also init_on_alloc=0 and "
        "numa_balancing=disable. A virtual machine's IOMMU is its host's",
        "facts, corrections (kernel argument) and 1.45; C30",
        Remedy("Add the arguments to the boot loader's command line and reboot.", "reboot"),
        blocking=False,
        machines=GPU,
    ),
    Spec(
        "selinux",
        "Whether SELinux stands between containers and the GPU devices.",
        "not enforcing, or enforcing with an engine that does not label containers",
        "facts 6.9",
        Remedy("Start the container with --security-opt label=disable; SELinux itself may stay on."),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "memory",
        "The memory of the host, and whether GPU memory is mixed into it.",
        "at least `host_memory_min_gib` GiB; no NUMA node made of GPU memory",
        "no source names a figure for the size; facts 1.45, 7.7 for GPU memory",
        Remedy(
            "Keep GPU memory out of the host's: set NVreg_CoherentGPUMemoryMode=driver (CDMM) for the nvidia module.",
            "reboot",
        ),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "clock",
        "Whether the clock is synchronised: the first exception of a deployment is found by time.",
        "synchronised",
        "the earliest real exception over all nodes is the cause, so their clocks must agree",
        Remedy("Start time synchronisation (chrony, systemd-timesyncd)."),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "uptime",
        "Days since the last boot: B200 and B300 have lost NVLink after about sixty.",
        "below `host_uptime_max_days` days on B200 and B300",
        "peers 2.17",
        Remedy("Plan a reboot of this node.", "reboot"),
        blocking=False,
        machines=ANY,
    ),
    Spec(
        "reboot_due",
        "Whether the running system differs from the one the next boot would bring.",
        "running kernel = next kernel, loaded driver = driver on disk, boot arguments in effect, no reboot-required",
        "C22; facts 1.30",
        Remedy("Drain and reboot this node.", "reboot"),
        blocking=False,
        machines=ANY,
    ),
)
