# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, rdma
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import gpudirect as part
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import STUB_VERBS, VERSIONS, Profile, Reply

NAMES = ("dmabuf", "peermem", "gin", "path")
PEERMEM = {"gpudirect_path": "peermem"}
GIN = {"gpudirect_gin": True}
VERSIONED = "[88.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
UNKNOWN_22 = "[88.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)"
SAID_535 = "[  9.1] nvidia-peermem nv_mem_client_init:551 ERROR module compiled without IB peer memory symbols present"
SYMBOLS = "0000000000000000 T ib_register_device\t[ib_core]\n"
PEER_SYMBOL = "0000000000000000 T ib_register_peer_memory_client\t[ib_core]\n"


def statuses(checks):
    return {name: checks["gpudirect." + name]["status"] for name in NAMES}


def proprietary(kind):
    return healthy(kind).plus(driver.loaded(VERSIONS[kind], flavour="proprietary"))


def unbound(kind="h100", depends="nvidia,ib_core", symbols=SYMBOLS + PEER_SYMBOL, log=()):
    """A node on whose ib_core no nvidia_peermem hangs, of a driver built with or without peer-memory symbols."""
    profile = healthy(kind).without(part.HOLDER, part.AT_BOOT)
    profile.modules.pop("nvidia_peermem", None)
    profile.commands[part.MODINFO] = part.modinfo(kind, depends)
    profile.files["/proc/kallsyms"] = symbols
    profile.kernel_log += log
    return profile


def inbox(profile):
    """The kernel's own ib_core in place of the vendor's."""
    profile.commands[("modinfo", "ib_core")] = rdma.modinfo_core("h100", "kernel/drivers/infiniband/core")
    return profile


@pytest.mark.parametrize(
    ("kind", "peermem"), [("b200", "not_applicable"), ("gb200", "not_applicable"), ("h100", "pass")]
)
def test_a_healthy_node_passes(ask, kind, peermem):
    checks = ask(healthy(kind))
    assert statuses(checks) == {"dmabuf": "pass", "peermem": peermem, "gin": "not_applicable", "path": "pass"}
    assert checks["gpudirect.path"]["observed"]["path"] == "dmabuf"
    assert "capable, not proven" in checks["gpudirect.dmabuf"]["reason"]


# ---- dma-buf ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "root", "status", "word"),
    [
        ("reg 9", True, "pass", "capable"),
        ("reg 0", True, "pass", "capable"),
        ("reg 95", True, "fail", "EOPNOTSUPP (95)"),
        ("reg 93", True, "fail", "older than 5.12"),
        ("reg 22", True, "unknown", "EINVAL (22)"),
        ("reg 12", True, "unknown", "locked-memory limit"),
        ("reg 524", True, "unknown", "ENOTSUPP (524)"),
        ("reg 121", True, "unknown", "121"),
        ("open 13", False, "unknown", "needs root"),
        ("open 13", True, "unknown", "permission denied"),
        # EBADF from another step says nothing about registration.
        ("pd 9", True, "unknown", "at step pd"),
        ("crash 0", True, "unknown", "signal 6"),
        ("hang 0", True, "unknown", "signal 14"),
    ],
)
def test_one_rails_answer_decides_for_the_node(ask, answer, root, status, word):
    profile = healthy("b200").plus(part.verbs("b200", mlx5_7=answer))
    check = ask(profile, {"gpudirect_path": "dmabuf"}, machine_is_root=root)["gpudirect.dmabuf"]
    assert check["status"] == status
    assert word in check["reason"]


@pytest.mark.parametrize(("kind", "device"), [("h100", "mlx5_bond_0"), ("b200", "mlx5_0")])
def test_only_rails_matter(ask, kind, device):
    assert ask(healthy(kind).plus(part.verbs(kind, **{device: "reg 95"})))["gpudirect.dmabuf"]["status"] == "pass"


@pytest.mark.parametrize(
    ("lines", "word"),
    [(None, "libibverbs.so.1 cannot be loaded"), ("- list 38\n", "no RDMA stack"), ("mlx5_4 reg 9\n", "mlx5_5")],
)
def test_a_library_that_does_not_answer_is_unknown(ask, lines, word):
    profile = healthy("b200").without(STUB_VERBS)
    if lines:
        profile.files[STUB_VERBS] = lines
    checks = ask(profile)
    assert {**statuses(checks), "gin": ""} == {**dict.fromkeys(NAMES, "unknown"), "gin": ""}
    assert word in checks["gpudirect.dmabuf"]["reason"]


@pytest.mark.parametrize(("line", "status"), [("\x00\xff", "unknown"), ("", "unknown"), (None, "unknown")])
def test_an_unreadable_or_absent_driver_is_unknown(ask, line, status):
    profile = healthy("b200").without("/proc/driver/nvidia/version", "/sys/module/nvidia/version")
    if line is not None:
        profile.files["/proc/driver/nvidia/version"] = line
    answers = statuses(ask(profile))
    assert answers["dmabuf"] == answers["path"] == status


def test_a_refusal_for_the_topology_shows_524_where_the_request_cannot_c27(ask):
    profile = healthy("b200")
    profile.kernel_log.append(
        "[ 99.0] NVRM: GPU0 nv_dma_buf_attach: topology not supported for mapping type FORCE_PCIE"
    )
    check = ask(profile)["gpudirect.dmabuf"]
    assert check["status"] == "warn"
    action = check["remedy"]["action"]
    # The narrowest cure first; NCCL_DMABUF_ENABLE=0 never without peermem.
    assert action.index("NCCL_IB_DATA_DIRECT=0") < action.index("NCCL_DMABUF_ENABLE=0, with nvidia_peermem bound")


# ---- peermem ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "cause"),
    [
        (unbound(log=[VERSIONED, UNKNOWN_22]), "peermem_abi_mismatch"),
        (unbound(log=[UNKNOWN_22]), "peermem_abi_mismatch"),
        (unbound(log=["[1] nvidia_peermem: disagrees about version of symbol nvidia_p2p_get_pages"]),
         "peermem_driver_mismatch"),
        (unbound(depends=""), "peermem_built_without_ofed"),
        (unbound(depends="nvidia"), "peermem_built_without_ofed"),
        (unbound(log=[SAID_535]), "peermem_built_without_ofed"),
        (unbound(symbols=SYMBOLS), "peermem_no_interface_in_ib_core"),
        (unbound(log=["[1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err 0)"]),
         "peermem_no_interface_in_ib_core"),
        (unbound(log=["[1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"]),
         "peermem_no_interface_in_ib_core"),
        (unbound(log=["[1] nvidia_peermem: Loading module failed: key was rejected by service"]),
         "peermem_key_rejected"),
        (unbound(), "peermem_not_loaded"),
        # The last word counts: it was rebuilt and refused for another reason.
        (unbound(log=[VERSIONED, "[99] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)"]),
         "peermem_no_interface_in_ib_core"),
        (unbound(log=["[1] mlx5_ib: disagrees about version of symbol ib_register_device"]), "peermem_not_loaded"),
    ],
)  # fmt: skip
def test_every_cause_is_told_apart_c24_c25(ask, profile, cause):
    check = ask(profile, PEERMEM)["gpudirect.peermem"]
    assert (check["status"], check["observed"]["cause"]) == ("fail", cause)
    assert "too old" not in check["reason"]
    assert check["evidence"][0]["line"]


def test_a_clean_file_on_disk_proves_nothing_c24_b(ask):
    # Silent log, modinfo answers, and yet the load would end with Invalid argument: no kernel or driver bug.
    check = ask(unbound(depends=""), PEERMEM)["gpudirect.peermem"]
    assert "Invalid argument" in check["reason"]
    assert "DOCA-OFED first" in check["remedy"]["action"]


def test_the_cure_of_a_mere_absence_is_one_safe_line(ask):
    remedy = ask(unbound(), PEERMEM)["gpudirect.peermem"]["remedy"]
    assert (remedy["command"], remedy["disruptive"]) == ("modprobe nvidia-peermem", "none")


def test_debians_name_of_the_module_is_known(ask):
    profile = unbound()
    profile.commands[part.MODINFO] = Reply(stderr="modinfo: ERROR: Module nvidia_peermem not found.", rc=1)
    name = "nvidia-current-peermem"
    text = f"filename: /lib/modules/6.1.0-57-amd64/updates/dkms/{name}.ko\ndepends: nvidia-current,ib_core\n"
    profile.commands[("modinfo", name)] = Reply(text)
    assert ask(profile, PEERMEM)["gpudirect.peermem"]["remedy"]["command"] == f"modprobe {name}"


def test_a_module_that_no_kernel_has_is_not_on_disk(ask):
    profile = unbound()
    for name in ("nvidia_peermem", "nvidia-current-peermem", "nvidia-current-open-peermem"):
        profile.commands[("modinfo", name)] = Reply(stderr=f"modinfo: ERROR: Module {name} not found.", rc=1)
    assert ask(profile, PEERMEM)["gpudirect.peermem"]["observed"]["cause"] == "peermem_not_on_disk"


def test_an_ofed_of_another_kernel_is_named_before_peermem_c25(ask):
    checks = ask(inbox(unbound(symbols=SYMBOLS)), PEERMEM)
    assert checks["gpudirect.peermem"]["observed"]["cause"] == "ofed_not_active_for_kernel"
    assert checks["rdma.stack"]["observed"]["cause"] == "ofed_not_active_for_kernel"


def test_peermem_that_dmabuf_makes_needless_is_unsupported_not_failed_c25(ask):
    checks = ask(unbound("b200", symbols=SYMBOLS))
    assert statuses(checks)["peermem"] == "not_applicable"
    assert "not failed" in checks["gpudirect.peermem"]["reason"]
    assert ask(unbound("b200", symbols=SYMBOLS), {"gpudirect_path": "dmabuf"})["gpudirect.path"]["status"] == "pass"


@pytest.mark.parametrize("bound", [True, False])
def test_the_legacy_module_conflicts(ask, bound):
    profile = healthy("h100") if bound else unbound()
    profile.modules["nv_peer_mem"] = (0, [])
    check = ask(profile, PEERMEM)["gpudirect.peermem"]
    assert (check["status"], check["observed"]["cause"]) == ("warn" if bound else "fail", "peermem_legacy_module")


@pytest.mark.parametrize("proof", ["holder", "users", "peers"])
def test_what_proves_that_peermem_is_bound(ask, proof):
    profile = unbound()
    profile.modules["nvidia_peermem"] = (0, [])
    assert ask(profile, PEERMEM)["gpudirect.peermem"]["status"] == "fail"
    if proof == "holder":
        profile.folders.add(part.HOLDER)
    elif proof == "users":
        profile.modules["ib_core"] = (4, ["nvidia_peermem", "ib_uverbs"])
    else:
        profile.files["/sys/kernel/mm/memory_peers/nv_mem/version"] = "1.0\n"
    assert ask(profile, PEERMEM)["gpudirect.peermem"]["status"] == "pass"


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"commands": {part.MODINFO: Reply(hang=True)}}, "fail", "not known"),
        ({"files": {"/proc/kallsyms": ""}}, "fail", "not known"),
        ({"commands": {("dmesg",): Reply(rc=1), }}, "fail", "kernel log"),
    ],
)  # fmt: skip
def test_a_cause_that_cannot_be_read_is_said_to_be_unknown(ask, change, status, word):
    check = ask(unbound().plus(Profile(**change)), PEERMEM)["gpudirect.peermem"]
    assert (check["status"], check["observed"].get("cause")) == (status, None)
    assert word in check["reason"]


def test_without_a_list_of_modules_a_module_that_sysfs_lacks_is_unknown(ask):
    profile = unbound()
    profile.modules = {}
    profile.folders |= {"/sys/module/ib_core", "/sys/module/mlx5_core"}
    answers = statuses(ask(profile, PEERMEM))
    assert answers["peermem"] == answers["path"] == "unknown"


def test_peermem_is_not_blamed_for_a_driver_or_a_stack_that_is_absent(ask):
    gone = unbound().without("/proc/driver/nvidia", "/sys/module/nvidia")
    assert ask(gone, PEERMEM)["gpudirect.peermem"]["status"] == "unknown"
    profile = unbound().without("/sys/module/ib_core")
    del profile.modules["ib_core"]
    answers = statuses(ask(profile, PEERMEM))
    assert answers["peermem"] == answers["path"] == "unknown"


# ---- the path --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "require", "expected"),
    [
        (proprietary("h100"), {}, ("not_applicable", "pass", "pass", "peermem")),
        (proprietary("b200"), {}, ("warn", "fail", "fail", "none")),
        (proprietary("h100"), {"gpudirect_path": "dmabuf"}, ("fail", "pass", "fail", "none")),
        (healthy("h100"), PEERMEM, ("not_applicable", "pass", "pass", "peermem")),
        (healthy("b200"), PEERMEM, ("not_applicable", "fail", "fail", "none")),
        (healthy("b200"), {"gpudirect_path": "none"}, ("not_applicable", "not_applicable", "pass", "none")),
        (healthy("h100").without(STUB_VERBS), {}, ("not_applicable", "pass", "pass", "peermem")),
    ],
)
def test_the_path_is_resolved_against_the_contract(ask, profile, require, expected):
    checks = ask(profile, require)
    found = statuses(checks)
    assert (found["dmabuf"], found["peermem"], found["path"], checks["gpudirect.path"]["observed"]["path"]) == expected


def test_host_memory_is_called_slow_without_an_error(ask):
    check = ask(proprietary("b200"))["gpudirect.path"]
    assert "slow and says no error" in check["reason"]


def test_a_tray_that_talks_over_nvlink_is_only_warned(ask):
    answers = statuses(ask(healthy("gb200").plus(part.verbs("gb200", number=95))))
    assert (answers["dmabuf"], answers["peermem"], answers["path"]) == ("warn", "warn", "warn")


def test_a_dead_network_is_not_blamed_on_gpudirect(report_of):
    profile = healthy("h100")
    for name in rdma.RAILS["h100"] + ["mlx5_bond_0"]:
        profile.files.update(rdma.port_files(name, "DOWN"))
    report = report_of(profile)
    checks = {check["id"]: check for check in report["checks"]}
    assert report["root_cause"] == "rdma.ports"
    assert statuses(checks)["path"] == "unknown"
    assert report["facts"]["gpudirect"]["path"] == {"unknown": "this node has no rail, see rdma.ports"}


def test_facts_tell_the_same_path(report_of):
    facts = report_of(proprietary("h100"))["facts"]["gpudirect"]
    assert (facts["path"], facts["capable"]) == ("peermem", {"dmabuf": "not capable", "peermem": True})


# ---- GIN -------------------------------------------------------------------------------------------------------------


def for_gin(profile, kernel="6.8.0-85-generic", options=part.GIN_OPTIONS):
    profile.files.update({"/proc/sys/kernel/osrelease": kernel + "\n", part.PARAMS: options})
    return profile


def dual_port():
    profile = for_gin(healthy("b200"))
    second = rdma.address("b200", "mlx5_4")[:-1] + "1"
    profile.files[STUB_VERBS] += "mlx5_12 reg 9\n"
    return profile.plus(rdma.hca("mlx5_12", second, 0))


@pytest.mark.parametrize(
    ("profile", "require", "status"),
    [
        (for_gin(healthy("b200")), {}, "pass"),
        (for_gin(healthy("b200"), kernel="5.15.0-1072-nvidia"), {}, "fail"),
        (for_gin(healthy("h100"), kernel="5.15.0-1072-nvidia"), {}, "pass"),
        (for_gin(healthy("b200"), kernel="unreadable"), {}, "unknown"),
        (for_gin(healthy("b200")), {"rail_isolated": True}, "fail"),
        (for_gin(healthy("b200")), {"interconnect": "nvlink"}, "fail"),
        (for_gin(healthy("b200")), {"interconnect": "none"}, "fail"),
        (for_gin(healthy("b200"), options="EnableStreamMemOPs: 0\nRegistryDwords: \"\"\n"), {}, "warn"),
        (for_gin(healthy("b200"), options="EnableStreamMemOPs: 1\nRegistryDwords: \"PeerMappingOverride=0;\"\n"), {},
         "warn"),
        (for_gin(healthy("b200")).without(part.PARAMS), {}, "unknown"),
        (for_gin(healthy("b200").without(STUB_VERBS)), {}, "unknown"),
        (for_gin(healthy("gb200")), {}, "pass"),
        (dual_port(), {}, "warn"),
    ],
)  # fmt: skip
def test_what_deepep_v2_needs_c37(ask, profile, require, status):
    assert ask(profile, {**GIN, **require})["gpudirect.gin"]["status"] == status


def test_an_old_kernel_makes_peermem_needed_for_gin(ask):
    # "Not applicable where dma-buf works" does not hold here (facts, corrections (GIN)).
    checks = ask(for_gin(unbound("b200"), kernel="5.15.0-1072-nvidia"), GIN)
    assert statuses(checks)["peermem"] == "fail"
    assert "before 6.1" in checks["gpudirect.peermem"]["reason"]
