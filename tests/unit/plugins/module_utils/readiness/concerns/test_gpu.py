# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import gpu as concern
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import nvidia_smi, xid
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.captures import capture
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import fabric, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, Profile, Reply, pci_device

NAMES = [spec.name for spec in concern.CHECKS]
BDF = gpu.BDFS["b200"][3]
DEVICE = BDF[:-2]
WIDTHS = "pci/pci_gpu_link_info/link_widths"
SLOW = "clocks_event_reasons/clocks_event_reason"


def node(kind="b200", **changes):
    """A healthy node whose nvidia-smi answers with smi_xml(kind, **changes)."""
    profile = gpu.healthy(kind).plus(fabric.healthy(kind))
    return profile.plus(gpu.answering(kind, **changes)) if changes else profile


def logging(*lines, **changes):
    return node(**changes).plus(Profile(kernel_log=list(lines)))


def status(ask, profile, name, require=None, **options):
    return ask(profile, require, **options)["gpu." + name]["status"]


def captured_node(kind):
    """A node that shows what a real one showed: its XML, and its GPUs on the bus."""
    text = capture(f"nvidia-smi/qx-{kind}.xml").read_text()
    profile = node(kind).without(*(f"/sys/bus/pci/devices/{bdf}" for bdf in gpu.BDFS[kind]))
    for identifier in re.findall(r'<gpu id="0000([0-9A-F:.]+)">', text):
        profile = profile.plus(pci_device(identifier.lower(), "10de", gpu.DEVICES[kind], "030200", "nvidia"))
    return profile.plus(Profile(commands={gpu.QUERY: Reply(text)}))


def test_the_cuda_that_the_driver_serves_is_a_fact(make_node):
    assert concern.collect(make_node(node()))["smi"]["cuda_version"] == "13.0"


@pytest.mark.parametrize("kind", KINDS)
def test_healthy_gpus_pass_every_check(ask, kind):
    checks = ask(node(kind))
    assert {name: checks["gpu." + name]["status"] for name in NAMES} == dict.fromkeys(NAMES, "pass")


@pytest.mark.parametrize("kind", ["b200", "gb200"])
def test_a_real_capture_passes_every_check(ask, kind):
    checks = ask(captured_node(kind))
    assert {name: checks["gpu." + name]["status"] for name in NAMES} == dict.fromkeys(NAMES, "pass")


def test_real_captures_read_as_facts_5_4_says():
    b200, gb200 = (nvidia_smi.parse(capture(f"nvidia-smi/qx-{kind}.xml").read_text()) for kind in ("b200", "gb200"))
    assert (b200.driver_version, b200.attached_gpus, len(b200.gpus)) == ("580.105.08", 8, 8)
    assert (gb200.driver_version, gb200.attached_gpus, len(gb200.gpus)) == ("580.173.02", 4, 4)
    assert {item.text("fabric/cliqueId") for item in b200.gpus} == {"0"}
    assert {item.text("fabric/cliqueId") for item in gb200.gpus} == {"2"}
    assert b200.gpus[0].bdf == "0000:8f:00.0"


# ---- count and model ---------------------------------------------------------------------------------------------------


def test_a_machine_without_gpus_fails_once_in_one_sentence(ask):
    checks = ask(Profile(folders={"/sys/bus/pci/devices"}))
    assert checks["gpu.count"]["reason"].startswith("This machine has no GPU")
    ours = {name: check["status"] for name, check in checks.items() if name.startswith(("gpu.", "fabric."))}
    assert ours.pop("gpu.count") == "fail"
    assert set(ours.values()) == {"not_applicable"}


def test_an_unreadable_bus_is_unknown(ask):
    checks = ask(node().without("/sys/bus/pci"))
    assert checks["gpu.count"]["status"] == checks["gpu.model"]["status"] == "unknown"


@pytest.mark.parametrize(
    "changes",
    [
        {"without": (3,)},  # on the bus, not listed: it fell off
        {"without": (3,), "head": {"attached_gpus": "8"}},
        {"head": {"attached_gpus": "9"}},
    ],
)
def test_bus_and_driver_have_to_agree(ask, changes):
    check = ask(node(**changes))["gpu.count"]
    assert check["status"] == "fail"
    assert check["remedy"]["disruptive"] == "reboot"
    if "without" in changes:
        assert BDF in check["reason"]


@pytest.mark.parametrize("value", ["N/A", "", "many"])
def test_a_count_that_is_not_told_is_unknown(ask, value):
    assert status(ask, node(head={"attached_gpus": value}), "count") == "unknown"


def test_a_gpu_that_left_the_bus_fails(ask):
    lost = node(without=(3,)).without(f"/sys/bus/pci/devices/{BDF}")
    assert status(ask, lost, "count") == "fail"
    assert status(ask, lost, "count", {"gpu_count": 7}) == "pass"


def test_a_tray_has_four_gpus_and_not_eight(ask):
    assert ask(node("gb200"))["gpu.count"]["required"] == 4
    assert status(ask, node("gb200"), "count", {"gpu_count": 8}) == "fail"


def of_product(*devices, vendor="10de"):
    profile = Profile()
    for number, device in enumerate(devices):
        profile = profile.plus(pci_device(f"0000:0{number}:00.0", vendor, device, "030200"))
    return profile


@pytest.mark.parametrize(
    ("profile", "expected", "word"),
    [
        (of_product("26b9"), "fail", "l40s"),
        (of_product("2342"), "fail", "gh200"),  # C16: no h200 by its letters
        (of_product("2901", "2330"), "fail", "mixes"),
        (of_product("ffff"), "unknown", "10de:ffff"),
        (of_product(*["75a3"] * 8, vendor="1002"), "pass", "mi355x"),
        (of_product(*["74a1"] * 8, vendor="1002"), "fail", "mi300x"),
    ],
)
def test_the_product_comes_from_the_pci_id_without_any_driver(ask, profile, expected, word):
    check = ask(profile)["gpu.model"]
    assert check["status"] == expected
    assert word in check["reason"]


def test_amd_gpus_are_counted_and_the_rest_does_not_apply(ask):
    checks = ask(of_product(*["75a3"] * 8, vendor="1002"))
    assert checks["gpu.count"]["status"] == "pass"
    assert {checks["gpu." + name]["status"] for name in NAMES[2:]} == {"not_applicable"}
    assert ask(of_product(*["75a3"] * 7, vendor="1002"))["gpu.count"]["status"] == "fail"


def test_too_small_is_told_and_is_no_failure(ask):
    check = ask(node())["gpu.model"]
    assert check["status"] == "pass"
    assert "too little for one node alone" in check["reason"]


def test_a_product_of_varying_size_needs_a_declared_count(ask):
    profile = of_product("2bb5", "2bb5").without_command("nvidia-smi")
    assert status(ask, profile, "count") == "unknown"


# ---- the driver's tool -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(hang=True), "gave no answer within"),
        (Reply("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", rc=9), "communicate"),
        (Reply("Failed to initialize NVML: Driver/library version mismatch", rc=18), "version mismatch"),
        (Reply(gpu.smi_xml("b200")[:-30]), "not XML"),
        (Reply(""), "not XML"),
        (Reply("| NVIDIA-SMI 610.43.02   KMD Version: 610.43.02   CUDA UMD Version: 13.3 |"), "not XML"),  # C21
        (Reply("<nvidia_smi_log></nvidia_smi_log>"), "lists no GPU"),
    ],
)
def test_without_an_answer_everything_is_unknown_in_the_tools_own_words(ask, reply, words):
    checks = ask(node().plus(Profile(commands={gpu.QUERY: reply})))
    told = [name for name in NAMES if name not in ("count", "model", "xid")]
    assert {checks["gpu." + name]["status"] for name in told} == {"unknown"}
    assert all(words in checks["gpu." + name]["reason"] for name in told if name != "nvlink")
    assert checks["gpu.count"]["status"] != "pass"
    assert checks["gpu.model"]["status"] == "pass"


def test_an_absent_driver_is_unknown_and_not_a_fault_of_the_gpus(ask):
    checks = ask(node().without_command("nvidia-smi"))
    assert checks["gpu.ecc"]["reason"].startswith("the driver does not answer: nvidia-smi is not installed")
    assert checks["gpu.count"]["status"] == "unknown"


# ---- one field at a time -----------------------------------------------------------------------------------------------

FIELD_CASES = [
    ("recovery_action", "gpu_recovery_action", "Reset", "fail"),
    ("recovery_action", "gpu_recovery_action", "Reboot", "fail"),
    ("recovery_action", "gpu_recovery_action", "Drain P2P", "fail"),
    ("recovery_action", "gpu_recovery_action", "Drain and Reset", "fail"),
    ("recovery_action", "gpu_recovery_action", "Something new", "fail"),
    ("recovery_action", "gpu_recovery_action", "N/A", "unknown"),
    ("recovery_action", "gpu_recovery_action", None, "unknown"),
    ("ecc", "ecc_mode/current_ecc", "Disabled", "fail"),
    ("ecc", "ecc_mode/pending_ecc", "Disabled", "fail"),
    ("ecc", "ecc_mode/current_ecc", "N/A", "unknown"),
    ("ecc", "ecc_errors/volatile/dram_uncorrectable", "1", "fail"),
    ("ecc", "ecc_errors/volatile/sram_uncorrectable_parity", "2", "fail"),
    ("ecc", "ecc_errors/volatile/sram_uncorrectable_secded", "3", "fail"),
    ("ecc", "ecc_errors/volatile/dram_uncorrectable", "N/A", "unknown"),
    ("ecc", "ecc_errors/volatile/dram_uncorrectable", None, "unknown"),
    ("ecc", "ecc_errors/volatile/dram_uncorrectable", "-1", "unknown"),
    ("ecc", "ecc_errors/aggregate/sram_threshold_exceeded", "Yes", "fail"),
    ("ecc", "ecc_errors/aggregate/sram_threshold_exceeded", None, "unknown"),
    ("ecc", "ecc_errors/channel_repair_pending", "Yes", "fail"),
    ("ecc", "ecc_errors/tpc_repair_pending", "Yes", "fail"),
    ("ecc", "ecc_errors/tpc_repair_pending", "Perhaps", "unknown"),
    ("ecc", "ecc_errors/channel_repair_pending", None, "pass"),  # only newer branches have it
    ("ecc", "ecc_errors/unrepairable_memory", "Yes", "fail"),
    ("row_remap", "remapped_rows/remapped_row_pending", "Yes", "fail"),
    ("row_remap", "remapped_rows/remapped_row_failure", "Yes", "fail"),
    ("row_remap", "remapped_rows/remapped_row_pending", "N/A", "unknown"),
    ("row_remap", "remapped_rows/remapped_row_failure", None, "unknown"),
    ("mig", "mig_mode/current_mig", "Enabled", "fail"),
    ("mig", "mig_mode/pending_mig", "Enabled", "fail"),
    ("mig", "mig_mode/current_mig", "N/A", "unknown"),
    ("compute_mode", "compute_mode", "Exclusive_Process", "fail"),
    ("compute_mode", "compute_mode", "Prohibited", "fail"),
    ("compute_mode", "compute_mode", None, "unknown"),
    ("pcie", WIDTHS + "/current_link_width", "8x", "fail"),
    ("pcie", WIDTHS + "/current_link_width", "N/A", "unknown"),
    ("pcie", WIDTHS + "/max_link_width", None, "unknown"),
    ("pcie", "pci/replay_counter", "5", "pass"),
    ("pcie", "pci/replay_counter", "5000", "warn"),
    ("pcie", "pci/pci_gpu_link_info/pcie_gen/current_link_gen", "1", "pass"),  # facts 5.5: it drops at idle
    ("pcie", "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", "6", "pass"),
    ("throttle", SLOW + "_hw_slowdown", "Active", "fail"),
    ("throttle", SLOW + "_hw_thermal_slowdown", "Active", "fail"),
    ("throttle", SLOW + "_hw_power_brake_slowdown", "Active", "fail"),
    ("throttle", SLOW + "_sw_thermal_slowdown", "Active", "warn"),
    ("throttle", SLOW + "_sw_power_cap", "Active", "pass"),
    ("throttle", SLOW + "_hw_slowdown", None, "unknown"),
    ("firmware", "gsp_firmware_version", "580.105.08", "fail"),
    ("firmware", "gsp_firmware_version", "N/A", "unknown"),
    ("firmware", "vbios_version", "97.00.FA.00.01", "warn"),
    ("firmware", "vbios_version", "N/A", "unknown"),
    ("busy", "fb_memory_usage/used", "900 MiB", "pass"),
    ("busy", "fb_memory_usage/used", "170000 MiB", "warn"),
    ("busy", "fb_memory_usage/used", "N/A", "unknown"),
]


@pytest.mark.parametrize(("name", "path", "value", "expected"), FIELD_CASES)
def test_one_field_of_one_gpu_decides(ask, name, path, value, expected):
    check = ask(node(gpus={3: {path: value}}))["gpu." + name]
    assert check["status"] == expected
    if expected != "pass":
        assert BDF in check["reason"]
        assert BDF in check["evidence"][0]["line"]
    if expected == "fail":
        assert check["remedy"]["action"]


@pytest.mark.parametrize(
    ("values", "disruptive"),
    [({"2": "Reset"}, "drain"), ({"2": "Reset", "5": "Reboot"}, "reboot"), ({"1": "Drain P2P"}, "drain")],
)
def test_the_gravest_recovery_action_is_the_nodes_cure(ask, values, disruptive):
    gpus = {int(number): {"gpu_recovery_action": value} for number, value in values.items()}
    assert ask(node(gpus=gpus))["gpu.recovery_action"]["remedy"]["disruptive"] == disruptive


def test_repairs_are_no_question_to_a_hopper_that_has_none(ask):
    every = {"ecc_errors/channel_repair_pending": "N/A", "ecc_errors/tpc_repair_pending": "N/A"}
    assert status(ask, node("h100", every=every), "ecc") == "pass"
    assert status(ask, node("b200", every=every), "ecc") == "unknown"


def test_a_narrow_link_only_warns_where_c2c_carries_the_traffic(ask):
    assert status(ask, node("gb200", every={WIDTHS + "/current_link_width": "8x"}), "pcie") == "warn"


def test_older_names_of_the_throttle_reasons_are_read(ask):
    old = {path: None for path in gpu.fields("h100") if path.startswith("clocks_event")}
    names = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
    old |= {f"clocks_throttle_reasons/clocks_throttle_reason_{name}": "Not Active" for name in names}
    assert status(ask, node("h100", every=old), "throttle") == "pass"


def test_a_proprietary_driver_may_run_without_gsp(ask):
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.126.20  Mon Feb  2 10:00:00 UTC 2026\n"
    profile = node("h100", every={"gsp_firmware_version": "N/A"})
    assert status(ask, profile, "firmware") == "unknown"
    assert status(ask, profile.plus(Profile(files={"/proc/driver/nvidia/version": text})), "firmware") == "pass"


def test_residue_warns_by_name_and_serving_nodes_may_be_busy(ask):
    profile = node(processes={3: ["VLLM::Worker"]}, gpus={3: {"fb_memory_usage/used": "170000 MiB"}})
    check = ask(profile)["gpu.busy"]
    assert (check["status"], "4000 VLLM::Worker" in check["reason"]) == ("warn", True)
    assert status(ask, profile, "busy", {"gpu_busy_allowed": True}) == "pass"


# ---- NVLink ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        (["53.125 GB/s"] * 17 + ["<inactive>"], "fail"),
        (["53.125 GB/s"] * 17, "fail"),
        (["53.125 GB/s"] * 17 + ["26.562 GB/s"], "fail"),
        (["<inactive>"] * 18, "fail"),
        (["some new word"] * 18, "fail"),
        ([], "fail"),
    ],
)
def test_dead_and_slow_links_fail(ask, links, expected):
    profile = node().plus(Profile(commands={gpu.NVLINK: Reply(gpu.nvlink_text("b200", {3: links}))}))
    assert status(ask, profile, "nvlink") == expected


@pytest.mark.parametrize("reply", [Reply(rc=2, stderr="no"), Reply(""), Reply(hang=True), Reply("\0\1 GPU")])
def test_links_that_are_not_told_only_degrade(ask, reply):
    check = ask(node().plus(Profile(commands={gpu.NVLINK: reply})))["gpu.nvlink"]
    assert (check["status"], check["blocking"]) == ("unknown", False)


def test_c33_live_links_are_no_proof_of_a_working_fabric(ask):
    checks = ask(node(gpus={3: {"fabric/state": "In Progress", "fabric/status": "N/A"}}))
    assert checks["gpu.nvlink"]["status"] == "pass"
    assert checks["fabric.state"]["status"] == "fail"


def test_pcie_products_have_no_links_and_are_not_asked(ask, make_node):
    profile = of_product("26b9").plus(Profile(commands={gpu.QUERY: Reply(gpu.smi_xml("b200"))}))
    assert status(ask, profile, "nvlink") == "not_applicable"


# ---- Xid ---------------------------------------------------------------------------------------------------------------


def line(code, text="pid=1234", device=DEVICE):
    return f"[  812.124521] NVRM: Xid (PCI:{device}): {code}, {text}"


ASKS = {3: {"gpu_recovery_action": "Reset"}}


@pytest.mark.parametrize(
    ("lines", "gpus", "expected"),
    [
        ([line(13)], None, "warn"),  # an application's fault
        ([line(13)], ASKS, "warn"),
        ([line(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")], None, "pass"),
        ([line(63)], None, "warn"),
        ([line(79, "GPU has fallen off the bus.")], ASKS, "fail"),
        ([line(95)], ASKS, "fail"),
        ([line(95)], None, "warn"),  # the driver asks for nothing any more: it was reset since
        ([line(95, device="0000:77:00")], None, "fail"),  # of a GPU that nvidia-smi does not list
        ([line(999)], None, "warn"),
        (["[1.0] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 33 LTSSM Fault Up"], ASKS, "fail"),
        (["[1.0] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 33 LTSSM Fault Up"], None, "warn"),
        (["[1.0] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 11004, Non-fatal, Link 2"], ASKS, "warn"),
        (["[1.0] NVRM: Xid (PCI:zz): 79, broken", "[1.0] user said Xid 79"], ASKS, "pass"),
    ],
)
def test_events_are_classed_and_the_recovery_action_decides_first(ask, lines, gpus, expected):
    check = ask(logging(*lines, gpus=gpus or {}))["gpu.xid"]
    assert check["status"] == expected
    if expected == "fail":
        assert check["evidence"][0]["line"] == lines[0]


def test_an_event_counts_although_the_tool_hangs(ask):
    profile = logging(line(79)).plus(Profile(commands={gpu.QUERY: Reply(hang=True)}))
    check = ask(profile)["gpu.xid"]
    assert (check["status"], check["remedy"]["disruptive"]) == ("fail", "reboot")


def test_a_closed_kernel_log_degrades_and_does_not_block(ask):
    profile = node()
    profile.kernel_log.clear()
    check = ask(profile, machine_is_root=False)["gpu.xid"]
    assert (check["status"], check["reason"], check["blocking"]) == ("unknown", "needs root", False)


def test_the_same_event_is_told_once_with_its_number(ask):
    check = ask(logging(*[line(31)] * 500))["gpu.xid"]
    assert "500 times" in check["reason"]
    assert len(check["evidence"]) == 1


def test_the_table_of_xids_has_each_code_once():
    codes = [code for ranges in xid._RANGES.values() for first, last in ranges for code in range(first, last + 1)]
    assert len(codes) == len(set(codes)) == len(xid.CLASS_OF)
    expected = {13: xid.APPLICATION, 48: xid.RESET, 79: xid.REBOOT, 119: xid.RESET, 154: xid.INFORMATION, 63: xid.WATCH}
    assert {code: xid.CLASS_OF[code] for code in expected} == expected
