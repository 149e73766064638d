# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Room for the image and for the weights, on the filesystems where they really go."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import ANY, Remedy, Spec

CHECKS = (
    Spec(
        "image_room",
        "Free room and free inodes where the engine stores images.",
        "`image_room_gib` GiB on the filesystem of `image_store_path`, else of the engine's own store; inodes left",
        "facts 6.5; C44",
        Remedy(
            "Enlarge that filesystem, or move the engine's data root to a larger one. What may be removed from it is "
            "for its owner to say."
        ),
        machines=ANY,
    ),
    Spec(
        "weights_room",
        "Free room for the weights, what of them is there already counted in.",
        "`weights_room_gb` GB free or taken by the weights at `weights_path`, or a complete checkpoint there",
        "facts 0.7, 6.6",
        Remedy("Give the weights a filesystem that holds them, and declare it in `weights_path`."),
        machines=ANY,
    ),
)
