# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NVLink fabric a node has, and whose it is to set up."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import kind
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError
from ansible_collections.gpufleet.kimi_k3.tests.fixtures import fabric_wishes
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy, variants
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KERNELS, Profile


def with_device(profile, kind_of_node, device):
    """The node with another product in place of its GPUs."""
    for bdf in gpu.BDFS[kind_of_node]:
        profile.files[f"/sys/bus/pci/devices/{bdf}/device"] = f"0x{device}\n"
    return profile


@pytest.mark.parametrize(("name", "told"), [("h100", "hgx"), ("b200", "hgx_nvlink5"), ("gb200", "tray")])
def test_the_gpus_tell_it(make_node, name, told):
    found = kind.of(fabric_wishes.facts(make_node(healthy(name))), "auto")
    assert found == {"kind": told, "evidence": f"product {name}", "kernels": [KERNELS[name]]}


@pytest.mark.parametrize("name", ["no-gpu", "amd-mi355x"])
def test_without_nvidia_gpus_there_is_nothing_to_do(make_node, name):
    facts = fabric_wishes.facts(make_node(variants.VARIANTS[name].profile()))
    assert kind.of(facts, "auto") == {"kind": "none", "evidence": "no NVIDIA GPU on the PCI bus", "kernels": []}


@pytest.mark.parametrize("device", ["2342", "2bb5"])
def test_c16_superchips_and_pcie_cards_have_no_switch(make_node, device):
    profile = with_device(healthy("b200"), "b200", device)
    assert kind.of(fabric_wishes.facts(make_node(profile)), "auto")["kind"] == "none"


def test_an_unlisted_product_is_refused_until_the_site_says_what_it_is(make_node):
    profile = with_device(healthy("b200"), "b200", "ffff").without("/sys/class/infiniband")
    facts = fabric_wishes.facts(make_node(profile))
    with pytest.raises(FabricError, match=r"this GPU product is not in the table.*nvidia_fabric_kind"):
        kind.of(facts, "auto")
    found = kind.of(facts, "hgx_nvlink5")
    assert found["kind"] == "hgx_nvlink5"
    assert "the probe cannot tell" in found["evidence"]


def test_the_site_cannot_make_another_of_what_is_known(make_node):
    facts = fabric_wishes.facts(make_node(healthy("h100")))
    with pytest.raises(FabricError, match=r"nvidia_fabric_kind: 'tray' is not allowed on this node, which is hgx"):
        kind.of(facts, "tray")
    assert kind.of(facts, "none") == {"kind": "none", "evidence": "nvidia_fabric_kind: none", "kernels": []}


def test_what_somebody_else_manages_is_left_to_them(make_node):
    facts = fabric_wishes.facts(make_node(healthy("h100").plus(Profile(files={"/etc/dgx-release": ""}))))
    with pytest.raises(FabricError, match=r"The vendor image \(DGX OS\) manages this node's fabric"):
        kind.of(facts, "auto")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"owners": {"unknown": "needs root"}}, "who manages this node's fabric is not known: needs root"),
        ({"owners": {"fabric": {"unknown": "needs root"}}}, "who manages this node's fabric is not known: needs root"),
        ({"fabric": {"unknown": "reading took too long"}}, "is not known: reading took too long"),
        ({"driver": {"unknown": "reading took too long"}}, "which kernels this node has is not known: reading took"),
    ],
)
def test_what_is_not_known_is_refused_and_never_guessed(make_node, changed, says):
    facts = {**fabric_wishes.facts(make_node(healthy("h100"))), **changed}
    with pytest.raises(FabricError, match=says):
        kind.of(facts, "auto")


def test_without_a_probe_nothing_is_changed():
    with pytest.raises(FabricError, match=r"the probe gave no facts"):
        kind.of({}, "auto")


def test_where_the_next_kernel_is_not_known_every_one_is_looked_at():
    known = {"running": "6.8.0-1", "boot": {"unknown": "no grub"}, "installed": ["6.8.0-1", "6.8.0-2"]}
    assert kind.kernels({"driver": {"kernels": known}}) == ["6.8.0-1", "6.8.0-2"]
    with pytest.raises(FabricError, match=r"which kernel the next boot takes is not known: no grub"):
        kind.kernels({"driver": {"kernels": {**known, "installed": {"unknown": "no grub"}}}})
    with pytest.raises(FabricError, match=r"no name of a kernel"):
        kind.kernels({"driver": {"kernels": {**known, "boot": "6.8 ; reboot"}}})
