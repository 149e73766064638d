# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How this node booted: command line, Secure Boot, and on a hypervisor or not."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node

EFI = "/sys/firmware/efi"
SECURE_BOOT = EFI + "/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SIG_ENFORCE = "/sys/module/module/parameters/sig_enforce"
# Where the arguments of the next boot are written down, before any tool has turned them into a menu entry.
ARGUMENT_FILES = ("/etc/default/grub", "/etc/kernel/cmdline")
ARGUMENT_FOLDER = "/etc/default/grub.d"
VM_VENDORS = ("qemu", "kvm", "vmware", "xen", "openstack", "bochs", "parallels")
VM_PRODUCTS = ("virtual machine", "google compute engine", "kvm", "openstack", "virtualbox", "hvm domu")


def arguments(node: Node) -> list[str] | Unknown:
    """The boot arguments of the running kernel, in order (a later one overrides an earlier one)."""
    text = node.read("/proc/cmdline")
    if isinstance(text, Unknown):
        return text
    if text is None or not text.strip("\0 \t\r\n"):
        return Unknown("/proc/cmdline is empty or absent", "/proc/cmdline")
    return text.split()


def value(args: list[str], name: str) -> str | None:
    """The value in effect of ``name=value``, None where it is not given."""
    given = [arg.split("=", 1)[1].strip('"') for arg in args if arg.startswith(name + "=")]
    return given[-1] if given else None


def configured(node: Node, argument: str) -> bool:
    """Whether the boot loader's own settings already name ``argument``: then a reboot brings it into effect."""
    names = node.listdir(ARGUMENT_FOLDER)
    files = list(ARGUMENT_FILES)
    files += [f"{ARGUMENT_FOLDER}/{name}" for name in names if name.endswith(".cfg")] if isinstance(names, list) else []
    pattern = re.compile(r"(?m)^(?!\s*#).*(?<![\w.=-])" + re.escape(argument) + r"(?![\w.=-])")
    texts = (node.read(path) for path in files)
    return any(isinstance(text, str) and pattern.search(text) is not None for text in texts)


def secure_boot(node: Node) -> bool | Unknown | None:
    """Whether Secure Boot is on; None where the node did not boot by UEFI.

    The variable is four bytes of attributes and one of value. Source: facts 1.31.
    """
    there = node.exists(EFI)
    if isinstance(there, Unknown):
        return there
    if not there:
        return None
    data = node.read_bytes(SECURE_BOOT, 64)
    if isinstance(data, Unknown):
        return data
    if data is None:
        return Unknown("this node booted by UEFI, but its SecureBoot variable is not there", SECURE_BOOT)
    if len(data) != 5 or data[4] not in (0, 1):
        return Unknown(f"the SecureBoot variable holds {data[:16].hex() or 'nothing'}", SECURE_BOOT)
    return data[4] == 1


def signatures_enforced(node: Node) -> bool:
    """Whether this kernel takes signed modules only, Secure Boot or not (module.sig_enforce)."""
    return node.value(SIG_ENFORCE) in ("Y", "1")


def virtual(node: Node) -> str | None:
    """What tells that this node is a virtual machine, None where nothing does (Arm has no such processor flag)."""
    cpuinfo = node.read("/proc/cpuinfo", 65536)
    if isinstance(cpuinfo, str) and re.search(r"(?m)^flags\s*:.*\bhypervisor\b", cpuinfo):
        return "/proc/cpuinfo: hypervisor"
    vendor, product = (node.value(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name"))
    vendor = vendor.lower() if isinstance(vendor, str) else ""
    product = product.lower() if isinstance(product, str) else ""
    # An EC2 instance names itself after its type; the bare-metal types carry .metal in it.
    ec2 = vendor == "amazon ec2" and ".metal" not in product
    if ec2 or vendor.startswith(VM_VENDORS) or product.startswith(VM_PRODUCTS):
        return f"/sys/class/dmi/id: {vendor} {product}"
    return None
