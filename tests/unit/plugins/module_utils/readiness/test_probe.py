# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, ownership, probe
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.checks import TABLES, specs
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import load
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import (
    DISRUPTIONS,
    STATUSES,
    Check,
    Evidence,
    Remedy,
    Unknown,
)
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, Profile, pci_device

# The ids that the project promises; more are welcome, none of these may go.
PROMISED = {
    "host": "managed_by os arch kernel kernel_args secure_boot uptime clock memory selinux python reboot_due",
    "driver": "managed_by installed loaded branch consistent flavour next_boot bound single_origin leftover pinned"
    " persistence",
    "gpu": "count model ecc row_remap recovery_action busy mig compute_mode nvlink pcie throttle xid firmware",
    "fabric": "state manager nvlsm imex imex_channel domain partition",
    "rdma": "stack ports rate gid rails acs counters",
    "gpudirect": "dmabuf peermem gin path",
    "container": "engine gpu_runtime cdi memlock",
    "network": "data_interface mtu firewall",
    "storage": "image_room weights_room",
}

COLLECTION = Path(__file__).resolve().parents[5]


def test_every_promised_check_is_there():
    ids = set(probe.check_ids())
    assert {f"{concern}.{name}" for concern, names in PROMISED.items() for name in names.split()} <= ids


@pytest.mark.parametrize(("check_id", "spec"), specs())
def test_every_check_is_specified_to_the_end(check_id, spec):
    for text in (spec.decides, spec.required, spec.source, spec.remedy.action):
        assert text.strip() == text != ""
    assert spec.remedy.disruptive in DISRUPTIONS
    assert spec.owner in (None, *ownership.PARTS)
    _names_what_is_there(spec.remedy)


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_node_is_ready(report_of, kind):
    report = report_of(healthy(kind))
    assert {
        check["id"]: check["reason"] for check in report["checks"] if check["status"] not in ("pass", "not_applicable")
    } == {}
    assert (report["verdict"], report["root_cause"]) == ("ready", None)


@pytest.mark.parametrize("profile", [*map(healthy, KINDS), Profile()], ids=[*KINDS, "empty"])
def test_every_check_is_answered_once_in_order(report_of, profile):
    report = report_of(profile)
    assert [check["id"] for check in report["checks"]] == probe.check_ids()
    assert {check["status"] for check in report["checks"]} <= set(STATUSES)
    assert all(check["reason"].strip() for check in report["checks"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_fails_or_warns_comes_with_a_cure(report_of, kind):
    empty = Profile(files=dict.fromkeys(healthy(kind).files, ""))
    for report in (report_of(Profile()), report_of(empty), report_of(healthy(kind).plus(empty))):
        for check in report["checks"]:
            if check["status"] in ("fail", "warn"):
                assert check["remedy"]["action"], check["id"]


def test_a_node_that_shows_nothing_is_not_ready_and_nothing_passes_for_want_of_evidence(report_of):
    report = report_of(Profile())
    assert report["verdict"] == "not_ready"
    passing = {check["id"] for check in report["checks"] if check["status"] == "pass"}
    assert not {
        check_id
        for check_id in passing
        if check_id.split(".")[0] in ("driver", "gpu", "fabric", "gpudirect") and not check_id.endswith(".managed_by")
    }


RDMA = "/sys/class/infiniband"


def _names_what_is_there(remedy):
    """A remedy names only what the collection has: all of role, entry point and playbook, or none."""
    if remedy.role is None:
        assert (remedy.entry_point, remedy.playbook, remedy.tag) == (None,) * 3
        return
    assert (COLLECTION / "roles" / remedy.role / "tasks" / f"{remedy.entry_point}.yml").is_file()
    assert remedy.playbook.startswith("gpufleet.kimi_k3.")
    playbook = COLLECTION / "playbooks" / f"{remedy.playbook.rsplit('.', 1)[-1]}.yml"
    text = playbook.read_text(encoding="utf-8")
    assert f"gpufleet.kimi_k3.{remedy.role}\n" in text
    assert remedy.tag is None or f"tags: [{remedy.tag}]" in text


def no_gpu():
    """A server with a network card and a management controller's display, and nothing of NVIDIA's on it."""
    gone = ("/sys/bus/pci/devices", "/proc/driver", "/sys/module/nvidia", "/sys/module/nvidia_peermem", RDMA)
    bare = healthy("b200").without(*gone)
    bare = bare.without_command("nvidia-smi")
    bare.packages = {name: version for name, version in bare.packages.items() if "nvidia" not in name}
    return bare.plus(pci_device("0000:03:00.0", "1a03", "2000", "030000", "ast"))


def test_a_machine_without_gpus_says_so_in_one_line(report_of):
    report = report_of(no_gpu())
    assert (report["verdict"], report["root_cause"]) == ("not_ready", "gpu.count")
    assert [check["id"] for check in report["checks"] if check["status"] == "fail"] == ["gpu.count"]
    nvidia = [check for check in report["checks"] if check["id"].split(".")[0] in ("driver", "fabric")]
    assert {check["status"] for check in nvidia} == {"not_applicable"}


@pytest.mark.parametrize(("device", "name"), [("75a3", "mi355x"), ("75a0", "mi350x")])
def test_amd_nodes_are_recognised_and_get_no_driver_cure(report_of, device, name):
    amd = no_gpu()
    for number in range(8):
        amd = amd.plus(pci_device(f"0000:{number + 16:02x}:00.0", "1002", device, "120000", "amdgpu"))
    checks = {check["id"]: check for check in report_of(amd)["checks"]}
    assert checks["gpu.count"]["status"] == "pass"
    assert checks["gpu.model"]["observed"]["products"] == [name]
    assert {check["status"] for check_id, check in checks.items() if check_id.startswith(("driver.", "fabric."))} == {
        "not_applicable"
    }
    assert not [check for check_id, check in checks.items() if check_id.startswith("driver.") and check["remedy"]]


def test_a_skipped_check_shows_its_reason_and_degrades(report_of):
    report = report_of(healthy("b200"), skip={"host.clock": "Being replaced."})
    check = next(check for check in report["checks"] if check["id"] == "host.clock")
    assert (check["status"], check["reason"]) == ("skipped", "skipped: Being replaced.")
    assert report["verdict"] == "degraded"


def test_that_there_is_no_gpu_cannot_be_skipped(report_of):
    report = report_of(no_gpu(), skip={"gpu.count": "It is a lab."})
    assert (report["verdict"], report["root_cause"]) == ("not_ready", "gpu.count")


@pytest.mark.parametrize("half", ["collect", "assess"])
@pytest.mark.parametrize("concern", TABLES)
def test_a_concern_that_breaks_is_unknown_and_never_ready(report_of, monkeypatch, concern, half):
    def broken(*_arguments):
        raise RuntimeError("boom")

    monkeypatch.setattr(load(concern), half, broken)
    report = report_of(healthy("b200"))
    own = [check for check in report["checks"] if check["id"].startswith(concern + ".")]
    assert {check["status"] for check in own} == {"unknown"}
    assert "boom" in own[0]["reason"]
    assert report["verdict"] != "ready"


def test_a_concern_that_hangs_costs_its_limit_and_is_unknown(make_node, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(load("storage"), "collect", lambda node: released.wait(30))
    report = probe.probe(make_node(healthy("b200"), timeout=0.3), contract.defaults(), {})
    released.set()
    own = [check for check in report["checks"] if check["id"].startswith("storage.")]
    assert {check["status"] for check in own} == {"unknown"}
    assert "longer than 0.9 s" in own[0]["reason"]


def test_a_report_has_a_limit_and_still_tells_the_verdict(report_of, monkeypatch):
    monkeypatch.setattr(load("network"), "collect", lambda node: {"huge": ["x" * 500] * 1000})
    report = report_of(healthy("b200"))
    assert len(json.dumps(report)) <= probe.SIZE_LIMIT
    assert [check["id"] for check in report["checks"]] == probe.check_ids()
    assert report["verdict"] == "not_ready"


@pytest.mark.parametrize("kind", KINDS)
def test_a_usual_report_keeps_its_facts_within_the_limit(report_of, kind):
    report = report_of(healthy(kind))
    assert len(json.dumps(report)) <= probe.SIZE_LIMIT
    assert "left out" not in json.dumps(report["facts"])


def test_every_owner_that_is_not_us_is_named_and_no_cure_is_offered(report_of):
    told = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (builder)\n"
    foreign = healthy("b200").plus(
        Profile(
            files={
                "/run/nvidia/driver/usr/bin/nvidia-smi": "",
                "/sys/module/nvidia/version": "570.86.15\n",
                "/proc/driver/nvidia/version": told,
            }
        )
    )
    report = report_of(foreign)
    wrong = [check for check in report["checks"] if check["id"].startswith("driver.") and check["status"] == "fail"]
    assert wrong
    for check in wrong:
        assert "GPU operator" in check["remedy"]["action"]
        assert check["remedy"]["command"] is None


def test_what_cannot_be_known_of_ownership_is_not_nobody(make_node, monkeypatch):
    node = make_node(healthy("b200"))
    monkeypatch.setattr(node, "exists", lambda path: Unknown("needs root", path))
    assert isinstance(ownership.collect(node)["driver"], Unknown)


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("systemctl enable --now nvidia-imex.service", True),
        ("apt-get install linux-headers-6.8.0-60-generic && dkms autoinstall -k 6.8.0-60-generic", True),
        ("dkms install $(reboot)/1 -k 6.1", False),
        ("dkms install a;reboot", False),
        ("dkms install a\nreboot", False),
        ("dkms install `reboot`", False),
        ("modprobe 'x' | sh", False),
    ],
)
def test_a_command_to_copy_carries_nothing_that_a_node_could_have_written_into_it(command, kept):
    check = Check("driver.loaded", "fail", None, None, "why", remedy=Remedy("Load it.", command=command))
    told = probe.report([check], {})["checks"][0]["remedy"]
    assert told["command"] == (command if kept else None)
    assert told["action"] == "Load it."


@pytest.mark.parametrize("text", ["x" * 5000, "\n" * 5000, "\u4e00" * 5000, '"' * 5000])
def test_checks_that_say_too_much_are_cut_and_keep_their_answers(text):
    remedy = Remedy(text, command="x" * 5000)
    checks = [
        Check(check_id, "fail", {text: [text] * 9}, [text] * 99, text, [Evidence(text, text)] * 99, remedy)
        for check_id in probe.check_ids()
    ]
    report = probe.report(checks, {"host": {"texts": [text] * 999}})
    assert len(json.dumps(report)) <= probe.SIZE_LIMIT
    assert [(check["id"], check["status"]) for check in report["checks"]] == [
        (check_id, "fail") for check_id in probe.check_ids()
    ]
    assert report["verdict"] == "not_ready"


def test_c05_no_reboot_is_advised_before_the_next_boot_has_a_driver(report_of):
    node = healthy("b200").plus(Profile(files={"/run/reboot-required": ""}))
    checks = {check["id"]: check for check in report_of(node)["checks"]}
    assert "reboot this node" in checks["host.reboot_due"]["remedy"]["action"]
    boots_without = node.plus(Profile(files={"/boot/vmlinuz-9.9.9-generic": "", "/lib/modules/9.9.9-generic/x": ""}))
    checks = {check["id"]: check for check in report_of(boots_without)["checks"]}
    assert checks["driver.next_boot"]["status"] in ("fail", "unknown")
    assert checks["host.reboot_due"]["remedy"]["action"].startswith("Cure driver.next_boot first")


def test_c19_a_module_that_secure_boot_refuses_is_not_loaded_by_hand(report_of):
    node = healthy("b200").without("/sys/module/nvidia", "/proc/driver/nvidia")
    del node.modules["nvidia"]
    node.files["/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"] = b"\x06\0\0\0\x01"
    node.kernel_log.append("[   12.000000] Loading of module with unavailable key is rejected")
    node.kernel_log.append("[   12.000001] nvidia: Key was rejected by service")
    report = report_of(node)
    loaded = next(check for check in report["checks"] if check["id"] == "driver.loaded")
    assert (report["root_cause"], loaded["status"]) == ("host.secure_boot", "fail")
    assert loaded["remedy"]["action"].startswith("Cure host.secure_boot first")
    assert loaded["remedy"]["command"] is None


def test_a_concern_whose_code_cannot_be_loaded_is_unknown_and_never_ready(report_of, monkeypatch):
    def broken(name):
        if name == "storage":
            raise SyntaxError("not for this Python")
        return load(name)

    monkeypatch.setattr(probe, "load", broken)
    report = report_of(healthy("b200"))
    own = [check for check in report["checks"] if check["id"].startswith("storage.")]
    assert {check["status"] for check in own} == {"unknown"}
    assert "not for this Python" in own[0]["reason"]
    assert report["verdict"] == "not_ready"
