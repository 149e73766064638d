# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import _rails, rdma
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import pci_config
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.captures import capture
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import rdma as part
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, Profile, Reply, pci_device

NAMES = ("stack", "ports", "rate", "gid", "rails", "acs", "counters")
PORT = part.CLASS + "/{}/ports/1"
IPV4, OTHER_IPV4 = "0000:0000:0000:0000:0000:ffff:c000:020a", "0000:0000:0000:0000:0000:ffff:c000:020b"
IPV6, LINK_LOCAL = "2001:0db8:0000:0000:0000:0000:0000:0001", "fe80:0000:0000:0000:5054:00ff:fe12:3456"


def statuses(checks):
    return {name: checks["rdma." + name]["status"] for name in NAMES}


def with_files(kind, *changes):
    profile = healthy(kind)
    for files in changes:
        profile.files.update(files)
    return profile


def without_modules(kind, *names):
    profile = healthy(kind)
    for name in names:
        del profile.modules[name]
    return profile


def roce(*tables):
    """An h100 node whose rails are RoCE; the rails take the given GID tables in turn."""
    profile = healthy("h100")
    for number, name in enumerate(part.RAILS["h100"]):
        profile.files.update(part.port_files(name, layer="Ethernet"))
        profile.files.update(part.gid_files(name, tables[number % len(tables)]))
    return profile


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_node_passes(ask, kind):
    assert statuses(ask(healthy(kind))) == {**dict.fromkeys(NAMES, "pass"), "gid": "not_applicable"}


# ---- whether RDMA matters at all -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "asked", "level"),
    [
        ("b200", {}, "required"),
        ("gb200", {}, "informative"),
        ("gb200", {"interconnect": "rdma"}, "required"),
        ("gb200", {"gpudirect_gin": True}, "required"),
        ("h100", {"interconnect": "nvlink"}, "informative"),
        ("h100", {"interconnect": "none"}, "none"),
    ],
)
def test_what_the_contract_and_the_hardware_make_of_rdma(make_node, kind, asked, level):
    facts = rdma.collect(make_node(healthy(kind)))
    assert _rails.need(facts, contract.resolve(asked)).level == level


@pytest.mark.parametrize(("kind", "status"), [("b200", "fail"), ("gb200", "warn")])
def test_a_dead_network_only_warns_where_nodes_talk_over_nvlink(ask, kind, status):
    down = [part.port_files(name, "DOWN") for name in part.RAILS[kind]]
    checks = ask(with_files(kind, *down))
    assert checks["rdma.ports"]["status"] == status
    blocking = {name: check["blocking"] for name, check in checks.items() if name.startswith(("rdma.", "gpudirect."))}
    assert (True in blocking.values()) is (kind == "b200")


def test_a_single_node_needs_no_rdma_but_its_nvswitches_need_the_modules_c15(ask):
    assert set(statuses(ask(healthy("h100"), {"interconnect": "none"})).values()) == {"not_applicable"}
    check = ask(without_modules("b200", "ib_umad"), {"interconnect": "none"})["rdma.stack"]
    assert (check["status"], check["observed"]["missing"]) == ("fail", ["ib_umad"])


@pytest.mark.parametrize(("kind", "status"), [("h100", "warn"), ("gb200", "not_applicable")])
def test_a_node_without_any_hca_is_told_so_where_it_could_have_one(ask, kind, status):
    bare = healthy(kind).without(
        part.CLASS, *[f"/sys/bus/pci/devices/{part.address(kind, n)}" for n in part.RAILS[kind]]
    )
    bare = bare.without("/sys/bus/pci/devices/0000:a0:00.0")
    checks = ask(bare)
    assert checks["rdma.ports"]["status"] == status
    assert checks["gpudirect.path"]["status"] == "not_applicable"
    declared = ask(bare, {"interconnect": "rdma"})
    assert declared["rdma.ports"]["status"] == "fail"
    assert not [name for name, check in declared.items() if name.startswith("gpudirect") and check["status"] == "fail"]


def test_an_unreadable_bus_leaves_rdma_unknown(ask):
    profile = with_files("b200", {"/sys/bus/pci/devices/0000:17:01.0/class": "\x00\xff"})
    assert set(statuses(ask(profile)).values()) == {"unknown"}


# ---- stack -----------------------------------------------------------------------------------------------------------


def test_missing_modules_are_named_c15(ask):
    check = ask(without_modules("b200", "ib_umad", "mlx5_ib"))["rdma.stack"]
    assert (check["status"], check["observed"]["missing"]) == ("fail", ["mlx5_ib", "ib_umad"])
    assert check["remedy"]["command"] == "modprobe -a mlx5_ib ib_umad"


def test_an_unbound_mellanox_adapter_misses_its_driver(ask):
    profile = without_modules("h100", "mlx5_core", "mlx5_ib").without(part.CLASS)
    profile.links = {path: text for path, text in profile.links.items() if not text.endswith("/mlx5_core")}
    assert ask(profile)["rdma.stack"]["observed"]["missing"] == ["mlx5_core", "mlx5_ib"]


def test_adapters_of_another_vendor_need_their_own_module_not_mlx5(ask):
    profile = without_modules("h100", "mlx5_core", "mlx5_ib").without(part.CLASS)
    for name in part.RAILS["h100"]:
        bdf = part.address("h100", name)
        device = pci_device(bdf, "14e4", "1760", "020000", "bnxt_en")
        profile = profile.without(f"/sys/bus/pci/devices/{bdf}").plus(device)
        profile.links[f"{part.CLASS}/{name}/device"] = f"../../../bus/pci/devices/{bdf}"
        profile.files.update(part.port_files(name, layer="Ethernet"))
    profile = profile.without("/sys/bus/pci/devices/0000:a0:00.0")
    assert ask(profile)["rdma.stack"]["observed"]["missing"] == ["bnxt_en", "bnxt_re"]
    profile.modules.update({"bnxt_en": (1, []), "bnxt_re": (0, [])})
    assert ask(profile)["rdma.stack"]["status"] == "pass"


def test_drivers_built_into_the_kernel_count_as_loaded(ask):
    profile = without_modules("b200", "ib_uverbs")
    profile.folders.add("/sys/module/ib_uverbs")
    assert ask(profile)["rdma.stack"]["status"] == "pass"


def test_an_installed_ofed_that_this_kernel_does_not_use_fails_c25(ask):
    profile = healthy("h100")
    profile.commands[("modinfo", "ib_core")] = part.modinfo_core("h100", "kernel/drivers/infiniband/core")
    check = ask(profile)["rdma.stack"]
    assert (check["status"], check["observed"]["cause"]) == ("fail", "ofed_not_active_for_kernel")
    # Libraries without kernel modules are a choice, not a fault.
    profile.packages["doca-ofed-userspace"] = "25.10-1.2.8"
    assert ask(profile)["rdma.stack"]["status"] == "pass"


@pytest.mark.parametrize("folder", ["updates/dkms", "extra/mlnx-ofa_kernel", "weak-updates/mlnx-ofa_kernel"])
def test_the_vendors_places_for_modules_are_known(ask, folder):
    profile = healthy("h100")
    profile.commands[("modinfo", "ib_core")] = part.modinfo_core("h100", folder)
    check = ask(profile)["rdma.stack"]
    assert (check["status"], check["observed"]["stack"]) == ("pass", "vendor")


def test_a_stack_that_was_replaced_on_disk_is_due_for_a_restart(ask):
    check = ask(with_files("h100", {"/sys/module/ib_core/srcversion": "AAAA\n"}))["rdma.stack"]
    assert (check["status"], check["remedy"]["disruptive"]) == ("warn", "reboot")


@pytest.mark.parametrize(
    ("argv", "reply"),
    [
        (("modinfo", "ib_core"), Reply(hang=True)),
        (("modinfo", "ib_core"), Reply("filename: /somewhere/ib_core.ko\n")),
        (("modinfo", "ib_core"), Reply(stderr="modinfo: ERROR: Module ib_core not found.", rc=1)),
        (("ofed_info", "-s"), Reply(hang=True)),
    ],
)
def test_a_stack_that_cannot_be_read_is_unknown(ask, argv, reply):
    profile = healthy("b200")
    profile.commands[argv] = reply
    assert ask(profile)["rdma.stack"]["status"] == "unknown"


# ---- ports -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "state", "words"),
    [
        (["mlx5_4", "mlx5_5"], "DOWN", ["mlx5_4 (DOWN, Disabled)"]),
        (["mlx5_4:1"], "INIT", ["mlx5_4 (INIT, LinkUp)", "subnet manager"]),
        (["mlx5_5", "mlx5_77"], "ACTIVE", ["mlx5_77 (not on this node)"]),
    ],
)
def test_declared_rails_have_to_work_c31(ask, declared, state, words):
    check = ask(with_files("b200", part.port_files("mlx5_4", state)), {"rdma_hcas": declared})["rdma.ports"]
    assert check["status"] == "fail"
    assert all(word in check["reason"] for word in words)


def test_a_port_that_the_platform_leaves_unused_is_only_listed(ask):
    # Facts 0.18: mlx5_0 is down on some B300 nodes, and every rail is there.
    profile = healthy("gb200").plus(part.hca("mlx5_9", "0000:f1:00.0", 0))
    profile.files.update(part.port_files("mlx5_9", "DOWN"))
    check = ask(profile, {"interconnect": "rdma"})["rdma.ports"]
    assert (check["status"], check["observed"]["down"]) == ("pass", ["mlx5_9 (DOWN, Disabled)"])


def test_a_port_that_is_down_while_rails_are_short_warns(ask):
    checks = ask(with_files("b200", part.port_files("mlx5_7", "DOWN")))
    assert statuses(checks)["ports"] == statuses(checks)["rails"] == "warn"
    assert "mlx5_7 (DOWN" in checks["rdma.ports"]["reason"]


def test_no_active_port_fails_and_the_root_cause_is_rdma(report_of):
    report = report_of(with_files("b200", *[part.port_files(name, "INIT") for name in part.RAILS["b200"]]))
    checks = {check["id"]: check for check in report["checks"]}
    assert checks["rdma.ports"]["status"] == "fail"
    assert "subnet manager" in checks["rdma.ports"]["reason"]
    assert {checks[f"rdma.{name}"]["status"] for name in ("rate", "rails", "counters")} == {"unknown"}
    assert (report["root_cause"], report["verdict"]) == ("rdma.ports", "not_ready")


@pytest.mark.parametrize("name", ["state", "phys_state", "rate"])
@pytest.mark.parametrize("content", ["", "\x00\xff\x1b[2J", "9" * 9000, "ACTIVE", "400 furlongs"])
def test_what_a_port_says_is_read_strictly(ask, name, content):
    answers = statuses(ask(with_files("b200", {PORT.format("mlx5_6") + "/" + name: content})))
    assert answers["ports"] == answers["rate"] == "unknown"


def test_an_emulated_device_is_no_rail(ask):
    profile = healthy("h100")
    profile.files.update(part.port_files("rxe0", rate="800 Gb/sec (4X XDR)", layer="Ethernet"))
    check = ask(profile)["rdma.ports"]
    assert "rxe0" not in check["observed"]["rails"] + check["observed"]["others"]


def test_hcas_of_the_nvswitches_are_no_rails(ask):
    assert ask(healthy("b200"))["rdma.ports"]["observed"]["rails"] == part.RAILS["b200"]
    bare = healthy("b200")
    for number in range(4):
        del bare.files[f"/sys/bus/pci/devices/0000:05:0{number}.0/vpd"]
    assert ask(bare)["rdma.rails"]["status"] == "warn"


def test_virtual_functions_beside_their_physical_one_are_left_out(ask):
    profile = healthy("h100").plus(part.hca("mlx5_40", "0000:f0:00.1", 0))
    profile.links["/sys/bus/pci/devices/0000:f0:00.1/physfn"] = "../0000:a0:00.0"
    assert ask(profile)["rdma.rails"]["observed"]["rails"] == 8


# ---- rate, gid -------------------------------------------------------------------------------------------------------

SLOW = {PORT.format("mlx5_5") + "/rate": "200 Gb/sec (4X HDR)\n"}


@pytest.mark.parametrize(
    ("changes", "require", "status"),
    [
        ({}, {"rdma_rate_min_gbps": 400}, "pass"),
        ({}, {"rdma_rate_min_gbps": 401}, "fail"),
        (SLOW, {"rdma_hcas": ["mlx5_4", "mlx5_5"]}, "fail"),
        (SLOW, {}, "warn"),
    ],
)
def test_rails_are_equal_and_fast_enough(ask, changes, require, status):
    assert ask(with_files("b200", changes), require)["rdma.rate"]["status"] == status


@pytest.mark.parametrize(
    ("tables", "status", "index"),
    [
        ([{0: (LINK_LOCAL, "IB/RoCE v1"), 3: (IPV4, "RoCE v2")}], "pass", 3),
        ([{2: (IPV4, "IB/RoCE v1"), 5: (IPV4, "RoCE v2")}], "pass", 5),
        ([{1: (IPV4, "RoCE v2"), 5: (OTHER_IPV4, "RoCE v2")}, {5: (IPV4, "RoCE v2")}], "pass", 5),
        ([{3: (IPV4, "RoCE v2")}, {5: (IPV4, "RoCE v2")}], "warn", None),
        ([{3: (IPV4, "IB/RoCE v1")}], "fail", None),
        ([{1: (LINK_LOCAL, "RoCE v2")}], "fail", None),
        ([{1: (LINK_LOCAL, "RoCE v2"), 3: (IPV6, "RoCE v2")}], "warn", None),
        ([{3: (IPV4, "RoCE v2")}, {}], "fail", None),
    ],
)
def test_the_gid_index_is_found_never_assumed_c31(ask, tables, status, index):
    check = ask(roce(*tables))["rdma.gid"]
    assert (check["status"], check["observed"]["nccl_ib_gid_index"]) == (status, index)


def test_a_port_of_unreadable_kind_leaves_the_gid_unknown(ask):
    profile = with_files("h100", {PORT.format("mlx5_4") + "/link_layer": "\x01\n"})
    assert ask(profile)["rdma.gid"]["status"] == "unknown"


# ---- rails, acs, counters --------------------------------------------------------------------------------------------


def test_rails_are_spread_as_the_gpus_are(ask):
    moved = {f"/sys/bus/pci/devices/{part.address('h100', name)}/numa_node": "0\n" for name in part.RAILS["h100"]}
    assert ask(with_files("h100", moved))["rdma.rails"]["status"] == "warn"
    blind = dict.fromkeys(moved, "-1\n")
    assert ask(with_files("h100", blind))["rdma.rails"]["status"] == "pass"


def test_rails_without_product_data_are_unknown_without_root(make_node):
    facts = {"rdma": rdma.collect(make_node(healthy("b200")))}
    for device in facts["rdma"]["devices"].values():
        device["switch_management"] = Unknown("needs root")
    checks = {check.id: check for check in rdma.assess(facts, contract.defaults())}
    assert (checks["rdma.rails"].status, checks["rdma.rails"].reason) == ("unknown", "needs root")


@pytest.mark.parametrize(
    ("kind", "controls", "status"),
    [
        ("b200", ["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"], "fail"),
        ("b200", ["CmpltRedir"], "fail"),
        ("gb200", ["ReqRedir"], "warn"),
        ("b200", ["SrcValid"], "warn"),
        ("b200", ["UpstreamFwd"], "pass"),
    ],
)
def test_acs_redirection_on_bare_metal_c30(ask, kind, controls, status):
    check = ask(healthy(kind).plus(part.bridge(part.BRIDGES[1], *controls)))["rdma.acs"]
    assert check["status"] == status
    assert (list(check["observed"]["redirecting"]) == [part.BRIDGES[1]]) is bool(
        {"ReqRedir", "CmpltRedir"} & {*controls}
    )


def test_acs_is_left_to_the_host_of_a_virtual_machine_c30(ask):
    profile = with_files("b200", {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor avx\n"})
    assert ask(profile.plus(part.bridge(part.BRIDGES[0], "ReqRedir")))["rdma.acs"]["status"] == "not_applicable"


@pytest.mark.parametrize(
    ("config", "root", "reason"),
    [
        (part.config_space("ReqRedir")[:64], False, "needs root"),
        (part.config_space("ReqRedir")[:64], True, "64 bytes"),
        (b"\xff" * 4096, True, "does not answer"),
        (b"", True, "0 bytes"),
        (part.config_space("ReqRedir")[:0x14B], True, "is broken"),
        (part.config_space("ReqRedir")[:0x14E], True, "is broken"),
    ],
)
def test_acs_that_cannot_be_read_is_unknown(ask, config, root, reason):
    profile = with_files("b200", {f"/sys/bus/pci/devices/{part.BRIDGES[0]}/config": config})
    check = ask(profile, machine_is_root=root)["rdma.acs"]
    assert check["status"] == "unknown"
    assert reason in check["reason"]


def test_only_bridges_above_gpus_and_hcas_count_where_they_are_known(make_node):
    profile = part.bridge("0000:00:01.0", "ReqRedir").plus(part.bridge("0000:80:01.0"))
    below = "../../../devices/pci0000:80/0000:80:01.0/0000:81:00.0"
    profile.links["/sys/bus/pci/devices/0000:81:00.0"] = below
    # The link leads into /sys/devices as on a real node, where the function has its files.
    ids = {"vendor": "0x15b3\n", "device": "0x1021\n", "class": "0x020700\n"}
    profile.files.update({f"/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/{n}": text for n, text in ids.items()})
    node = make_node(profile)
    assert pci_config.bridges(node, ["0000:81:00.0"]) == {"0000:80:01.0": []}
    assert pci_config.bridges(node, []) == {"0000:00:01.0": ["ReqRedir"], "0000:80:01.0": []}


def test_bare_metal_without_a_visible_bridge_is_unknown(ask):
    profile = healthy("b200").without(*[f"/sys/bus/pci/devices/{bdf}" for bdf in part.BRIDGES])
    assert ask(profile)["rdma.acs"]["status"] == "unknown"


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("counters/link_downed", 3, "pass"),
        ("counters/link_downed", 4, "warn"),
        ("hw_counters/rx_icrc_encapsulated", 1, "warn"),
        ("counters/symbol_error", 18446744073709551615, "warn"),
        ("hw_counters/out_of_sequence", 10**9, "pass"),
    ],
)
def test_counters_that_speak_of_damage_warn_and_congestion_does_not_c36(ask, name, value, status):
    check = ask(with_files("b200", {f"{PORT.format('mlx5_10')}/{name}": f"{value}\n"}))["rdma.counters"]
    assert check["status"] == status
    assert status == "pass" or "no source names a figure" in check["reason"]


def test_missing_counters_are_unknown_and_do_not_block(ask):
    check = ask(healthy("b200").without(PORT.format("mlx5_10") + "/counters", PORT.format("mlx5_10") + "/hw_counters"))
    assert (check["rdma.counters"]["status"], check["rdma.counters"]["blocking"]) == ("unknown", False)


@pytest.mark.parametrize("content", ["", "\x00\xff\x1b[2J", "-1", "9" * 30, "N/A (no PMA)", "3 3", None])
def test_a_counter_that_tells_no_number_is_unknown_by_name(ask, content):
    path = PORT.format("mlx5_10") + "/counters/link_downed"
    change = Profile(folders={path}) if content is None else Profile(files={path: content})
    check = ask(healthy("b200").without(path).plus(change))["rdma.counters"]
    assert (check["status"], check["blocking"]) == ("unknown", False)
    assert "mlx5_10 link_downed" in check["reason"]


def test_an_unread_counter_hides_no_fault_and_an_absent_one_is_none(ask):
    folder = PORT.format("mlx5_10") + "/counters/"
    worn = with_files("b200", {folder + "link_downed": "", folder + "symbol_error": "4000000\n"})
    assert ask(worn)["rdma.counters"]["status"] == "warn"
    assert ask(healthy("b200").without(folder + "link_downed"))["rdma.counters"]["status"] == "pass"


def test_a_congestion_counter_that_tells_no_number_decides_nothing(ask):
    path = PORT.format("mlx5_10") + "/hw_counters/out_of_sequence"
    assert ask(with_files("b200", {path: ""}))["rdma.counters"]["status"] == "pass"


# ---- a real node -----------------------------------------------------------------------------------------------------


def test_the_captured_h100_node_has_eight_rails_and_a_bond_that_is_none(ask):
    root = capture("sysfs/sys-class-infiniband-h100.0")
    files = {f"{part.CLASS}/{path.relative_to(root)}": path.read_text() for path in root.rglob("*") if path.is_file()}
    profile = gpu.healthy("h100").plus(Profile(files=files))
    checks = ask(profile, {"interconnect": "rdma", "rdma_rate_min_gbps": 400})
    assert checks["rdma.ports"]["observed"]["rails"] == part.RAILS["h100"]
    assert checks["rdma.ports"]["observed"]["others"] == ["mlx5_bond_0"]
    assert {checks[f"rdma.{name}"]["status"] for name in ("ports", "rate", "rails")} == {"pass"}
    assert (checks["rdma.gid"]["status"], checks["rdma.counters"]["status"]) == ("not_applicable", "unknown")


def test_declared_rails_are_required_also_where_the_node_has_no_adapter(ask):
    bare = healthy("b200")
    adapters = [path.rsplit("/", 1)[0] for path, text in bare.files.items() if text == "0x15b3\n"]
    bare = bare.without("/sys/class/infiniband", *adapters)
    assert ask(bare, {"rdma_hcas": ["mlx5_4"]})["rdma.ports"]["status"] == "fail"


@pytest.mark.parametrize("text", ["zz\n", "In\n", "", "Ethernet2\n"])
def test_an_unfamiliar_link_layer_is_not_taken_for_infiniband(ask, text):
    profile = healthy("b200")
    rails = [path for path in profile.files if path.endswith("/link_layer")]
    assert rails
    profile.files.update(dict.fromkeys(rails, text))
    assert ask(profile)["rdma.gid"]["status"] == "unknown"
