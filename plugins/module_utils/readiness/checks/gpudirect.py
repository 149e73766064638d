# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How GPU memory gets to the HCA: dma-buf, nvidia_peermem, or through host memory, which is slow and says no error."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Remedy, Spec

CHECKS = (
    Spec(
        "dmabuf",
        "GPU memory can be registered with the HCAs of the rails as a dma-buf: capable, which is not proven.",
        "open kernel modules, and every rail's library and driver take the request (fd -1 gives EBADF); a failure only "
        "where `gpudirect_path` is dmabuf",
        "facts 3.1 to 3.13; C27",
        Remedy("Install the open kernel modules, or give the plan `gpudirect_path: peermem`.", "reboot"),
        owner="driver",
    ),
    Spec(
        "peermem",
        "nvidia_peermem is bound to ib_core, and where it is not, why.",
        "bound where the plan needs it: `gpudirect_path` is peermem, dma-buf is not possible, or `gpudirect_gin` on a "
        "kernel before 6.1",
        "facts 2.1 to 2.11; C24, C25",
        Remedy("Load nvidia_peermem."),
        owner="driver",
    ),
    Spec(
        "gin",
        "GPU-initiated networking, which deepep_v2 needs, is possible.",
        "where `gpudirect_gin` is asked for: dma-buf on kernel 6.1 or later, or peermem; rails not isolated; "
        "EnableStreamMemOPs and PeerMappingOverride on, else it runs through the CPU",
        "facts, corrections (GIN); C37",
        Remedy("Choose allgather_reducescatter instead of deepep_v2, or meet what is missing."),
        owner="driver",
    ),
    Spec(
        "path",
        "The path that GPU memory takes to the HCA.",
        "as `gpudirect_path` says; auto: dma-buf, else peermem",
        "facts 2.10, 3.13, 4.5",
        Remedy("Make dma-buf or peermem possible; see gpudirect.dmabuf and gpudirect.peermem."),
        owner="driver",
    ),
)
