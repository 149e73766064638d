# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The NVIDIA driver: who manages it, what is loaded, on disk and in the libraries, and what the next boot will load."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import cures
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Remedy, Spec

REBOOT = Remedy("Drain the node and reboot it; do not reinstall the driver.", "reboot")

CHECKS = (
    Spec(
        "managed_by",
        "Who owns the driver on this node: this host's packages, a driver container or the vendor's image. "
        "It never fails.",
        "the owner is known; where it is somebody else, no cure is offered here",
        "gpu-driver-container; peers 2.14",
        Remedy("Find out who manages the driver of this node before anything is changed."),
        blocking=False,
    ),
    Spec(
        "installed",
        "Libraries and a kernel module for the running kernel are on this node, by an installation that ended.",
        "libcuda and libnvidia-ml, and a module for the running kernel",
        "C04, C05; facts 1.29",
        Remedy(
            "Install the open driver of the wanted branch, with the headers of the running kernel first.",
            "reboot",
            **cures.DRIVER,
        ),
        owner="driver",
    ),
    Spec(
        "leftover",
        "Nothing of a runfile installation stands under the packaged driver.",
        "no nvidia-uninstall, no /var/lib/nvidia/log, no library or module that no package owns",
        "C03",
        Remedy("Drain the node, run nvidia-uninstall, reinstall the driver packages and reboot.", "reboot"),
        owner="driver",
    ),
    Spec(
        "single_origin",
        "All version-locked driver packages have one version and one origin.",
        "one version; one of NVIDIA's repository and the distribution's archive, decided by a pin where both are there",
        "C07, C11, C12, C13; facts, corrections (version lock)",
        Remedy(
            "Bring all driver packages to one version from one origin in one transaction, then reboot.",
            "reboot",
            **cures.DRIVER,
        ),
        owner="driver",
    ),
    Spec(
        "consistent",
        "The loaded module, the module on disk and the libraries have one version; else a reboot is due.",
        "loaded = on disk = libraries",
        "C01, C02, C03, C22; facts 1.37",
        REBOOT,
        owner="driver",
    ),
    Spec(
        "flavour",
        "The kernel module has the flavour this GPU needs, read from the module `nvidia` only.",
        "`driver_flavour`; auto: open from Blackwell on",
        "C17; facts 1.10",
        Remedy("Install the open flavour of the same version, then reboot.", "reboot", **cures.DRIVER),
        owner="driver",
    ),
    Spec(
        "branch",
        "The driver is of a branch the image runs on, compared as integers.",
        "branch `driver_branch_min` or newer, version `driver_version_min` or newer, and `driver_version` if given",
        "C21, C49; facts 1.3, 1.5",
        Remedy("Upgrade the driver to an allowed branch.", "reboot", **cures.DRIVER),
        owner="driver",
    ),
    Spec(
        "bound",
        "Each NVIDIA GPU is bound to the kernel driver nvidia.",
        "/sys/bus/pci/devices/GPU/driver leads to nvidia",
        "C20; facts 5.13",
        Remedy("Find out in the kernel log why the driver did not take the GPU, then reboot.", "reboot"),
        owner="driver",
    ),
    Spec(
        "loaded",
        "The nvidia module is loaded.",
        "/sys/module/nvidia/version and /proc/driver/nvidia/version tell one version",
        "C22; facts 5.11, 5.12",
        Remedy("Load the module; reboot the node if that fails.", "none", command="modprobe nvidia"),
        owner="driver",
    ),
    Spec(
        "next_boot",
        "The next boot will load a driver: a module of the libraries' version for the running and the default kernel.",
        "a module of one version for both kernels, no failed build, no half-configured package",
        "C04, C05; facts 1.30",
        Remedy("Build and install the module for that kernel before the node is rebooted.", "none", **cures.DRIVER),
        owner="driver",
    ),
    Spec(
        "pinned",
        "The driver packages are held at their version, by the effect of holds, pins and locks.",
        "each is held, or is out of reach of automatic updates",
        "C01, C08; facts 1.19, 1.38; peers trap 11",
        Remedy("Hold the driver packages, and keep them out of automatic updates.", **cures.DRIVER),
        blocking=False,
        owner="driver",
    ),
    Spec(
        "persistence",
        "The persistence daemon runs and keeps the GPUs initialised.",
        "nvidia-persistenced active, persistence mode enabled on each GPU",
        "facts 1.43, 5.6; C02",
        Remedy(
            "Start the persistence daemon and let it start at boot.",
            "none",
            command="systemctl enable --now nvidia-persistenced.service",
        ),
        blocking=False,
        owner="driver",
    ),
)
