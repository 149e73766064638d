# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GPU products by PCI id: what a node is before any driver answers, and what it therefore needs.

Source: pci.ids of November 2026 (ids and names), facts 5.4 (ids on hardware), facts 1.41 and 7.1 (what each needs).
"""

from __future__ import annotations

from dataclasses import dataclass

NVIDIA_VENDOR = "10de"
AMD_VENDOR = "1002"

AMPERE = "Ampere"
ADA = "Ada Lovelace"
HOPPER = "Hopper"
BLACKWELL = "Blackwell"
CDNA3 = "CDNA3"
CDNA4 = "CDNA4"
# Architectures whose GPUs only the open kernel modules drive (C17).
OPEN_ONLY = (BLACKWELL,)


@dataclass(frozen=True)
class Product:
    """One GPU product.

    ``name`` is the short name of the recipe's hardware table where it has one. ``form``: hgx (eight GPUs behind
    NVSwitches on this node), tray (a part of an NVLink rack whose switches are elsewhere), superchip (GPU and CPU, no
    switch), pcie (no switch). ``per_node``: GPUs of a whole node of this product, 0 where it varies.
    """

    name: str
    architecture: str
    form: str
    per_node: int

    @property
    def fabric_manager(self) -> bool:
        """A local fabric manager has to run: only where NVSwitches are on this node."""
        return self.form == "hgx" and self.architecture in (AMPERE, HOPPER, BLACKWELL)

    @property
    def nvlsm(self) -> bool:
        """NVLink 5 baseboards: the subnet manager runs beside the fabric manager (C15)."""
        return self.form == "hgx" and self.architecture == BLACKWELL

    @property
    def imex(self) -> bool:
        """Trays of an NVLink rack exchange memory handles through IMEX (C34)."""
        return self.form == "tray"

    @property
    def nvlink_fabric(self) -> bool:
        """The GPUs register with an NVLink fabric, whose state then has to be Completed and Success."""
        return self.form in ("hgx", "tray")

    @property
    def open_only(self) -> bool:
        """Only the open flavour of the kernel modules drives it."""
        return self.architecture in OPEN_ONLY


H100 = Product("h100", HOPPER, "hgx", 8)
H200 = Product("h200", HOPPER, "hgx", 8)
B200 = Product("b200", BLACKWELL, "hgx", 8)
B300 = Product("b300", BLACKWELL, "hgx", 8)
GB200 = Product("gb200", BLACKWELL, "tray", 4)
GB300 = Product("gb300", BLACKWELL, "tray", 4)

PRODUCTS: dict[tuple[str, str], Product] = {
    (NVIDIA_VENDOR, "20b0"): Product("a100", AMPERE, "hgx", 8),
    (NVIDIA_VENDOR, "20b2"): Product("a100", AMPERE, "hgx", 8),
    (NVIDIA_VENDOR, "20bd"): Product("a800", AMPERE, "hgx", 8),
    (NVIDIA_VENDOR, "20b1"): Product("a100-pcie", AMPERE, "pcie", 0),
    (NVIDIA_VENDOR, "20b5"): Product("a100-pcie", AMPERE, "pcie", 0),
    (NVIDIA_VENDOR, "26b9"): Product("l40s", ADA, "pcie", 0),
    (NVIDIA_VENDOR, "2330"): H100,
    (NVIDIA_VENDOR, "2331"): Product("h100-pcie", HOPPER, "pcie", 0),
    (NVIDIA_VENDOR, "2335"): H200,
    (NVIDIA_VENDOR, "2337"): H100,
    (NVIDIA_VENDOR, "2338"): H100,
    (NVIDIA_VENDOR, "2339"): H100,
    (NVIDIA_VENDOR, "233b"): Product("h200-nvl", HOPPER, "pcie", 0),
    (NVIDIA_VENDOR, "2342"): Product("gh200", HOPPER, "superchip", 1),
    (NVIDIA_VENDOR, "2348"): Product("gh200", HOPPER, "superchip", 1),
    (NVIDIA_VENDOR, "2901"): B200,
    (NVIDIA_VENDOR, "2909"): B200,
    (NVIDIA_VENDOR, "290a"): B200,
    (NVIDIA_VENDOR, "2941"): GB200,
    (NVIDIA_VENDOR, "2bb5"): Product("rtx-pro-6000", BLACKWELL, "pcie", 0),
    (NVIDIA_VENDOR, "3182"): B300,
    (NVIDIA_VENDOR, "31a1"): GB300,
    (NVIDIA_VENDOR, "31c2"): GB300,
    (AMD_VENDOR, "74a1"): Product("mi300x", CDNA3, "oam", 8),
    (AMD_VENDOR, "74a5"): Product("mi325x", CDNA3, "oam", 8),
    (AMD_VENDOR, "75a0"): Product("mi350x", CDNA4, "oam", 8),
    (AMD_VENDOR, "75a3"): Product("mi355x", CDNA4, "oam", 8),
}

# What the recipe's hardware table serves Kimi K3 on. Source: recipe at 8959cf6; mi350x is the same gfx950 class.
SERVES_K3 = ("h100", "h200", "b200", "b300", "gb200", "gb300", "mi350x", "mi355x")


def product(vendor: str, device: str) -> Product | None:
    """The product of a PCI id in lower-case hexadecimal without 0x; None for one the table does not list."""
    return PRODUCTS.get((vendor, device))
