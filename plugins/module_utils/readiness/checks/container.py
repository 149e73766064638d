# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The container engine: does it answer, does it know the GPUs, are its device lists current, how much may it lock."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import GPU, Remedy, Spec

CHECKS = (
    Spec(
        "engine",
        "The container engine that runs the image: installed, running, this node's own, and running as configured.",
        "`container_engine` (auto: docker, else podman, else containerd) answers",
        "facts 6.9; C39",
        Remedy("Install docker, podman or containerd and start it."),
        machines=GPU,
        owner="container",
    ),
    Spec(
        "gpu_runtime",
        "Whether the engine can give a container the GPUs: the toolkit, and the runtime or CDI in the running engine.",
        "NVIDIA Container Toolkit of one version, and docker with the nvidia runtime or with CDI and a specification",
        "facts 1.46, 1.47, 6.9; C39",
        Remedy("Install the NVIDIA Container Toolkit and configure the engine for it.", "restart"),
        owner="container",
    ),
    Spec(
        "cdi",
        "Whether the device specification (CDI) names the libraries of the loaded driver, once.",
        "one specification of nvidia.com/gpu, of the loaded driver's version, that the engine can read",
        "facts 1.47, 1.48; C41",
        Remedy(
            "Write the specification anew; remove one that stands elsewhere and is older.",
            command="nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml",
        ),
        owner="container",
    ),
    Spec(
        "memlock",
        "How much memory a container may lock when its start does not say: registration of RDMA buffers locks.",
        "at least `memlock_min_kib` KiB (-1: unlimited)",
        "facts 6.8; C28",
        Remedy(
            "Set LimitMEMLOCK=infinity for the engine's unit (systemctl edit), or start containers with "
            "--ulimit memlock=-1:-1.",
            "restart",
        ),
        machines=GPU,
        owner="container",
    ),
)
