# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is proven before a reboot, and what is told of a run."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver import proof, summary
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.driver.request import request
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.driver_wishes import KERNELS, facts, item, plan, table, wish

KERNEL = KERNELS["ubuntu"]
NEXT = "6.8.0-90-generic"
VERSION = "580.126.20"
GOOD = {"version": VERSION, "flavour": "open", "license": "Dual MIT/GPL", "filename": ""}
UNKNOWN = {"unknown": "modinfo is not installed"}
REQUEST = request(facts(), wish(version=VERSION), table())


def done(**changes):
    """A node on which the transaction ended well."""
    node = facts(disk={KERNEL: GOOD}, **changes)
    node["driver"]["packages"]["locked"] = {
        "nvidia-open": f"{VERSION}-1ubuntu1",
        "libnvidia-compute-580": f"{VERSION}-1ubuntu1",
    }
    return node


def test_a_whole_set_with_its_module_is_proven():
    assert proof.faults(done(), REQUEST) == []


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (None, "has no nvidia module"),
        (UNKNOWN, "modinfo is not installed"),
        ({**GOOD, "version": "580.95.05"}, "would load 580.95.05"),
        ({**GOOD, "flavour": "proprietary"}, "the proprietary flavour"),
        ({**GOOD, "flavour": UNKNOWN}, "modinfo is not installed"),
    ],
)
def test_the_running_kernel_has_the_module_of_the_wanted_version(module, says):
    node = done()
    node["driver"]["disk"][KERNEL] = module
    (said,) = proof.faults(node, REQUEST)
    assert says in said


def test_a_kernel_that_came_with_the_transaction_counts_too():
    node = done(kernels={"running": KERNEL, "boot": NEXT, "installed": [KERNEL, NEXT], "how": ""})
    node["driver"]["disk"][NEXT] = None
    node["driver"]["headers"] = {KERNEL: True, NEXT: False}
    (said,) = proof.faults(node, REQUEST)
    assert said == f"kernel {NEXT} has no nvidia module: its headers are not there, so DKMS skipped the build"


@pytest.mark.parametrize(
    ("kind", "need", "says"),
    [
        ("compiler", "gcc-12", "(gcc-12)"),
        ("kernel interface", None, "newer version of the branch"),
        ("unclear", None, "read the log"),
    ],
)
def test_a_build_that_failed_is_told_with_its_cause(kind, need, says):
    node = done()
    node["driver"]["disk"][KERNEL] = None
    failure = {
        "kernel": KERNEL,
        "kind": kind,
        "need": need,
        "line": "cc: error: …",
        "source": "/var/lib/dkms/nvidia/x/build/make.log",
    }
    node["driver"]["dkms"] = [{"name": "nvidia", "version": VERSION, "kernels": {}, "failure": failure}]
    (said,) = proof.faults(node, REQUEST)
    assert says in said
    assert "make.log says: cc: error" in said


@pytest.mark.parametrize(
    ("locked", "says"),
    [
        ({}, "no package of the driver"),
        ({"a": "580.126.20-1", "b": "550.90.07-1"}, "2 versions"),
        ({"a": "3:580.95.05-1.el9"}, "are 580.95.05, not 580.126.20"),
    ],
)
def test_success_of_the_package_manager_is_no_proof_of_one_set(locked, says):
    node = done()
    node["driver"]["packages"]["locked"] = locked
    (said,) = proof.faults(node, REQUEST)
    assert says in said


def test_a_half_configured_package_is_named():
    node = done()
    node["driver"]["packages"]["broken"] = {"nvidia-dkms-580-open": "iF"}
    assert "nvidia-dkms-580-open iF" in proof.faults(node, REQUEST)[0]


# ---- what is told --------------------------------------------------------------------------------------------------


def told(node=None, planned=None, files=None, services=None, wanted=None):
    return summary.lines(
        node or facts(), wanted or REQUEST, [planned or plan()], files or {}, services or {}, "not needed"
    )


def test_packages_files_services_and_holds_are_lines():
    planned = plan(
        item("nvidia-open", "575.57.08-1", "580.126.20-1", "nvidia-driver"),
        item("libnvidia-compute-575", "575.57.08-1", None),
        repositories=[{"path": "/etc/x.sources", "action": "create"}, {"path": "/etc/y", "action": "none"}],
        streams=[{"name": "nvidia-driver", "from": None, "to": "580-open", "action": "enable"}],
    )
    planned["holds"]["add"] = ["nvidia-open"]
    lines = told(planned=planned, files={"/etc/a": True, "/etc/b": False}, services={"nvidia-persistenced": "enabled"})
    assert lines[1:-2] == [
        "repository file /etc/x.sources: create",
        "module stream nvidia-driver: none -> 580-open",
        "hold nvidia-open",
        "package nvidia-open 575.57.08-1 -> 580.126.20-1 (from nvidia-driver)",
        "package libnvidia-compute-575 575.57.08-1 removed",
        "file /etc/a",
        "service nvidia-persistenced: enabled",
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"loaded": {"version": VERSION, "flavour": "open", "line": ""}}, "reboot: no"),
        ({}, "reboot: yes, no driver is loaded"),
        ({"loaded": {"version": "575.57.08", "flavour": "open", "line": ""}}, "reboot: yes, driver 575.57.08 is loaded"),
        ({"loaded": {"version": VERSION, "flavour": "proprietary", "line": ""}}, "reboot: yes, the proprietary module"),
        ({"loaded": {"version": UNKNOWN, "flavour": None, "line": ""}}, "reboot: yes, which driver is loaded is not known"),
        ({"gpus": [{"driver": "nouveau", "product": "h100", "open_only": False}]}, "nouveau has the GPUs"),
        ({"kernels": {"running": KERNEL, "boot": NEXT, "installed": [], "how": ""}}, f"{NEXT} boots next"),
    ],
)  # fmt: skip
def test_a_reboot_is_told_with_its_reason(changes, says):
    assert says in told(facts(**changes))[-1]


def test_what_is_not_certain_is_told():
    wanted = {**REQUEST, "version": ""}
    lines = told(planned=plan(unknown=["the index cannot be reached"]), wanted=wanted)
    assert "not certain: the index cannot be reached" in lines
    assert "which version is not known" in lines[0]
