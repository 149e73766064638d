# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PCI devices as /sys/bus/pci/devices shows them."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.products import AMD_VENDOR, NVIDIA_VENDOR

DEVICES = "/sys/bus/pci/devices"
DISPLAY_CLASSES = ("0300", "0302", "0380", "1200")  # VGA, 3D, other display (some AMD), processing accelerator
SWITCH_CLASS = "0680"


@dataclass(frozen=True)
class PciDevice:
    """One function. Ids are lower-case hexadecimal without 0x; ``driver`` is None where nothing is bound."""

    bdf: str
    vendor: str
    device: str
    pci_class: str
    driver: str | Unknown | None

    @property
    def folder(self) -> str:
        """Where its attributes stand."""
        return DEVICES + "/" + self.bdf

    @property
    def is_gpu(self) -> bool:
        """An NVIDIA or AMD display or accelerator function; a management controller's display is none."""
        return self.vendor in (NVIDIA_VENDOR, AMD_VENDOR) and self.pci_class[:4] in DISPLAY_CLASSES

    @property
    def is_nvswitch(self) -> bool:
        """An NVSwitch on this node (A100 to H200; from NVLink 5 on they are not PCI devices of class 0680)."""
        return self.vendor == NVIDIA_VENDOR and self.pci_class[:4] == SWITCH_CLASS


def devices(node: Node) -> list[PciDevice] | Unknown:
    """Every PCI function; Unknown when the bus cannot be read. A machine without PCI has an empty list."""

    def load() -> list[PciDevice] | Unknown:
        names = node.listdir(DEVICES)
        if isinstance(names, Unknown):
            return names
        if names is None:
            return Unknown(f"{DEVICES} does not exist, so devices cannot be seen", DEVICES)
        found = []
        for name in names:
            ids = [_hex(node.value(f"{DEVICES}/{name}/{part}")) for part in ("vendor", "device", "class")]
            vendor, device, pci_class = ids
            if vendor is None or device is None or pci_class is None:
                return Unknown(f"{DEVICES}/{name} has no readable vendor, device or class", DEVICES)
            link = node.readlink(f"{DEVICES}/{name}/driver")
            found.append(
                PciDevice(
                    name,
                    vendor,
                    device,
                    pci_class.rjust(6, "0"),
                    link.rsplit("/", 1)[-1] if isinstance(link, str) else link,
                )
            )
        return found

    return node.once("pci devices", load)


def gpus(node: Node) -> list[PciDevice] | Unknown:
    """The GPUs of this machine, NVIDIA and AMD."""
    found = devices(node)
    return found if isinstance(found, Unknown) else [item for item in found if item.is_gpu]


def _hex(value: str | Unknown | None) -> str | None:
    if not isinstance(value, str) or not value.lower().startswith("0x"):
        return None
    digits = value[2:].lower()
    return digits if digits and all(char in "0123456789abcdef" for char in digits) and len(digits) <= 8 else None
