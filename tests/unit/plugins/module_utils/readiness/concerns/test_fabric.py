# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import fabric as concern
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.captures import capture
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import fabric, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, Profile, Reply, pci_device

NAMES = [spec.name for spec in concern.CHECKS]
MANAGER = "nvidia-fabricmanager.service"
JOURNAL = ("journalctl", "-u", "nvidia-fabricmanager", "-b", "-n", "50", "--no-pager")
DOWN = {"ActiveState": "failed", "SubState": "failed"}
REFUSED = (
    "node nv-fabricmanager[2113]: fabric manager NVIDIA GPU driver interface version 590.48.01 don't match with driver "
    "version 580.126.20. Please update with matching NVIDIA driver package."
)
NOTHING = (
    "node nv-fabricmanager[2113]: Detected Pre-NVL5 system\n"
    "node nv-fabricmanager[2113]: request to query NVSwitch device information from NVSwitch driver failed with "
    "error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
)
APPLIES = {
    "b200": {"manager", "nvlsm", "state"},
    "h100": {"manager", "state"},
    "gb200": {"state", "imex_channel", "imex", "domain", "partition"},
}
BDF = gpu.BDFS["b200"][3]


def node(kind="b200", **changes):
    """A healthy node whose nvidia-smi answers with smi_xml(kind, **changes)."""
    profile = gpu.healthy(kind).plus(fabric.healthy(kind))
    return profile.plus(gpu.answering(kind, **changes)) if changes else profile


def status(ask, profile, name, require=None, **options):
    return ask(profile, require, **options)["fabric." + name]["status"]


def less(profile, *, packages=(), modules=(), units=()):
    """The profile without some packages, modules and units."""
    for mapping, names in ((profile.packages, packages), (profile.modules, modules), (profile.units, units)):
        for name in names:
            del mapping[name]
    return profile


def of_product(device, count=1, pci_class="030200"):
    """A node of another product: nothing but its GPUs on the bus and an empty /proc."""
    profile = Profile(files={"/proc/1/comm": "systemd\n", "/proc/modules": ""})
    for number in range(count):
        profile = profile.plus(pci_device(f"0000:0{number}:00.0", "10de", device, pci_class))
    return profile


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_fabric_passes_what_applies_to_its_kind(ask, kind):
    checks = ask(node(kind))
    wanted = {name: "pass" if name in APPLIES[kind] else "not_applicable" for name in NAMES}
    assert {name: checks["fabric." + name]["status"] for name in NAMES} == wanted


@pytest.mark.parametrize(("kind", "version"), [("b200", "580.105.08"), ("gb200", "580.173.02")])
def test_a_real_capture_passes(ask, kind, version):
    text = capture(f"nvidia-smi/qx-{kind}.xml").read_text()
    profile = node(kind).without("/sys/bus/pci/devices")
    for identifier in re.findall(r'<gpu id="0000([0-9A-F:.]+)">', text):
        profile = profile.plus(pci_device(identifier.lower(), "10de", gpu.DEVICES[kind], "030200", "nvidia"))
    package = "nvidia-imex" if kind == "gb200" else "nvidia-fabricmanager"
    told = Profile({"/sys/module/nvidia/version": version}, commands={gpu.QUERY: Reply(text)})
    told.packages[package] = f"{version}-1"
    checks = ask(profile.plus(told))
    assert {name for name in NAMES if checks["fabric." + name]["status"] == "pass"} == APPLIES[kind]


def test_no_product_is_taken_for_another_by_its_letters(ask):
    """C16: GH200 is no H200, and a PCIe card has no switch; the unit's failure there is harmless."""
    for device in ("2342", "233b", "2331", "26b9"):
        profile = of_product(device).plus(
            Profile(units={MANAGER: DOWN}, commands={JOURNAL: Reply(NOTHING), gpu.QUERY: Reply(gpu.smi_xml("h100"))})
        )
        checks = ask(profile)
        assert {checks["fabric." + name]["status"] for name in NAMES} == {"not_applicable"}, device
    assert status(ask, of_product("2335", 8), "manager") == "fail"


# ---- state -------------------------------------------------------------------------------------------------------------

STATE_CASES = [
    ({"fabric/state": "In Progress", "fabric/status": "N/A"}, "fail"),
    ({"fabric/state": "Not Started", "fabric/status": "N/A"}, "fail"),
    ({"fabric/state": "N/A", "fabric/status": "N/A"}, "unknown"),
    ({"fabric/state": None, "fabric/status": None}, "unknown"),
    ({"fabric/status": "Unknown Error"}, "fail"),
    ({"fabric/status": "Insufficient Resources"}, "fail"),
    ({"fabric/status": "N/A"}, "unknown"),
    ({"fabric/health/summary": "Unhealthy"}, "fail"),
    ({"fabric/health/summary": "Limited Capacity"}, "warn"),
    ({"fabric/health/summary": "???"}, "unknown"),
    ({"fabric/health/bandwidth": "Degraded"}, "warn"),
    ({"fabric/health/route_unhealthy": "True"}, "fail"),
    ({"fabric/health/route_recovery_in_progress": "True"}, "warn"),
    ({"fabric/health/access_timeout_recovery": "True"}, "warn"),
    ({"fabric/health/incorrect_configuration": "Insufficient NVLinks"}, "fail"),
    ({"fabric/health/incorrect_configuration": "None"}, "pass"),
    ({"fabric/health/partition_assigned": "False"}, "warn"),
    ({"fabric/health/partition_assigned": "N/A"}, "pass"),
]


@pytest.mark.parametrize("kind", ["b200", "gb200"])
@pytest.mark.parametrize(("fields", "expected"), STATE_CASES)
def test_c33_one_gpu_of_many_decides(ask, kind, fields, expected):
    check = ask(node(kind, gpus={3: fields}))["fabric.state"]
    assert check["status"] == expected
    assert expected == "pass" or gpu.BDFS[kind][3] in check["reason"]


def test_c33_shortly_after_boot_the_reason_asks_for_another_try(ask):
    profile = node(every={"fabric/state": "In Progress", "fabric/status": "N/A"})
    young = ask(profile.plus(Profile(files={"/proc/uptime": "42.10 300.00\n"})))["fabric.state"]
    old = ask(profile.plus(Profile(files={"/proc/uptime": "86400.10 300.00\n"})))["fabric.state"]
    assert young["status"] == old["status"] == "fail"
    assert "probe again" in young["reason"]
    assert "probe again" not in old["reason"]
    assert (young["remedy"]["disruptive"], old["remedy"]["disruptive"]) == ("none", "reboot")


def test_without_the_driver_state_and_domain_are_unknown(ask):
    checks = ask(node("gb200").plus(Profile(commands={gpu.QUERY: Reply(hang=True)})))
    assert {checks["fabric." + name]["status"] for name in ("state", "domain", "partition")} == {"unknown"}
    assert checks["fabric.imex_channel"]["status"] == "pass"


def test_an_unlisted_product_shows_its_fabric_or_stays_unknown(ask):
    asked = of_product("ffff", 8).plus(Profile(commands={gpu.QUERY: Reply(gpu.smi_xml("b200"))}))
    assert {ask(asked)["fabric." + name]["status"] for name in NAMES} == {"unknown"}
    board = asked.plus(Profile(files={"/sys/class/infiniband/mlx5_2/device/vpd": b"\x82\x10\x00V3 \x05SW_MNG\x00"}))
    checks = ask(board)
    assert checks["fabric.state"]["status"] == "pass"
    assert checks["fabric.manager"]["status"] == checks["fabric.nvlsm"]["status"] == "fail"
    switches = asked.plus(pci_device("0000:07:00.0", "10de", "22a3", "068000"))
    assert ask(switches)["fabric.manager"]["status"] == "fail"


# ---- fabric manager ----------------------------------------------------------------------------------------------------


def test_c14_another_version_fails_although_the_unit_is_active(ask):
    check = ask(node().plus(Profile(packages={"nvidia-fabricmanager": "580.126.09-1ubuntu1"})))["fabric.manager"]
    assert check["status"] == "fail"
    assert "580.126.09" in check["reason"]
    assert "580.126.20" in check["reason"]
    assert check["remedy"]["disruptive"] == "drain"


def test_c14_the_journals_own_words_are_the_evidence(ask):
    profile = node().plus(Profile(units={MANAGER: DOWN}, commands={JOURNAL: Reply(REFUSED)}))
    check = ask(profile)["fabric.manager"]
    assert check["status"] == "fail"
    assert "590.48.01" in check["reason"]
    assert any("don't match" in item["line"] for item in check["evidence"])


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("nvidia-fabricmanager", "3:580.126.20-1.el9"),
        ("nvidia-fabricmanager-580", "580.126.20-0ubuntu0.24.04.1"),
        ("nvidia-fabric-manager", "580.126.20-1"),
    ],
)
def test_every_spelling_of_the_package_counts(ask, package, version):
    profile = less(node("h100"), packages=["nvidia-fabricmanager"])
    assert status(ask, profile.plus(Profile(packages={package: version})), "manager") == "pass"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("Fabric Manager version is : 580.126.20\n", "pass"),
        ("Fabric Manager version is : 580.95.05\n", "fail"),
        ("no version here\n", "unknown"),
    ],
)
def test_without_a_package_the_program_tells_its_version(ask, told, expected):
    profile = less(node("h100"), packages=["nvidia-fabricmanager"])
    profile = profile.plus(Profile(commands={("nv-fabricmanager", "--version"): Reply(told)}))
    assert status(ask, profile, "manager") == expected


def test_a_manager_that_is_missing_or_stopped_fails(ask):
    missing = less(node("h100"), packages=["nvidia-fabricmanager"], units=[MANAGER])
    assert "not installed" in ask(missing.plus(Profile(packages={"bash": "5"})))["fabric.manager"]["reason"]
    stopped = ask(less(node("h100"), units=[MANAGER]))["fabric.manager"]
    assert (stopped["status"], stopped["remedy"]["command"]) == ("fail", f"systemctl enable --now {MANAGER}")


@pytest.mark.parametrize("missing", [["ib_umad"], ["ib_umad", "mlx5_ib"]])
def test_c15_nothing_to_do_on_an_nvlink_5_board_names_the_modules(ask, missing):
    profile = less(node(), modules=missing).plus(
        Profile(files={"/proc/modules": "nvme 1 0 - Live 0x0\n"}) if len(missing) == 2 else Profile()
    )
    check = ask(profile.plus(Profile(units={MANAGER: DOWN}, commands={JOURNAL: Reply(NOTHING)})))["fabric.manager"]
    assert check["status"] == "fail"
    assert all(name in check["reason"] for name in missing)
    assert "nothing to do" in check["reason"]
    assert check["remedy"]["command"] == "modprobe -a " + " ".join(missing)


def test_c15_the_node_looks_healthy_to_nvidia_smi(ask):
    """All GPUs are listed and the unit is active: the missing module alone keeps the node from being ready."""
    assert status(ask, less(node(), modules=["ib_umad"]), "manager") == "fail"


@pytest.mark.parametrize(
    "profile",
    [
        node("h100").without("/sys/module/nvidia"),  # no driver to compare with
        node("h100").plus(Profile(files={"/sys/module/nvidia/version": "\0\0garbage"})),
        less(node("h100"), packages=["nvidia-fabricmanager"]).plus(
            Profile(commands={("dpkg-query",): Reply(), ("nv-fabricmanager", "--version"): Reply(hang=True)})
        ),
        node("b200").plus(Profile(files={"/proc/modules": b""})).without("/proc/modules"),
    ],
)
def test_what_cannot_be_compared_is_unknown(ask, profile):
    if "/sys/module/nvidia/version" in profile.files and "nvlsm.service" in profile.units:
        profile.modules.clear()
    assert status(ask, profile, "manager") == "unknown"


def test_systemd_that_does_not_answer_is_unknown_unless_the_process_is_seen(ask, make_node):
    from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import systemd

    silent = node("h100").plus(Profile(commands={tuple(systemd.ARGV): Reply(rc=1, stderr="no bus")}))
    assert status(ask, silent, "manager") == "unknown"
    running = silent.plus(Profile(files={"/proc/4711/comm": "nv-fabricmanage\n"}))
    assert status(ask, running, "manager") == "pass"


def test_a_manager_in_somebodys_container_is_seen_and_its_version_is_not(ask):
    profile = less(node("h100"), packages=["nvidia-fabricmanager"], units=[MANAGER])
    profile = profile.plus(Profile(packages={"bash": "5"}, files={"/proc/4711/comm": "nv-fabricmanage\n"}))
    assert status(ask, profile, "manager") == "warn"
    waiting = profile.plus(gpu.answering("h100", every={"fabric/state": "In Progress"}))
    assert status(ask, waiting, "manager") == "unknown"


def test_a_tray_needs_no_manager_and_is_told_when_one_runs(ask):
    failed = node("gb200").plus(Profile(units={MANAGER: DOWN}))
    assert status(ask, failed, "manager") == "not_applicable"
    assert status(ask, node("gb200").plus(Profile(units={MANAGER: {}})), "manager") == "warn"


# ---- nvlsm -------------------------------------------------------------------------------------------------------------


def test_nvlsm_is_present_and_running_whatever_its_version(ask):
    as_process = less(node(), units=["nvlsm.service"])
    assert status(ask, as_process.plus(Profile(files={"/proc/31060/comm": "nvlsm\n"})), "nvlsm") == "pass"
    stopped = ask(as_process)["fabric.nvlsm"]
    assert (stopped["status"], "does not run" in stopped["reason"]) == ("fail", True)
    absent = ask(less(as_process, packages=["nvlsm"]))["fabric.nvlsm"]
    assert (absent["status"], "not installed" in absent["reason"]) == ("fail", True)
    hidden = less(node(), units=["nvlsm.service"]).without("/proc/1")
    assert status(ask, hidden, "nvlsm") == "unknown"


# ---- IMEX --------------------------------------------------------------------------------------------------------------


def tray(**parts):
    return node("gb200").plus(Profile(**parts))


@pytest.mark.parametrize(
    ("profile", "expected", "word"),
    [
        (tray(packages={"nvidia-imex": "580.126.20-1"}), "fail", "580.126.20"),
        (less(tray(packages={"bash": "5"}), packages=["nvidia-imex"]), "fail", "not installed"),
        (tray(units={"nvidia-imex.service": DOWN}), "fail", "failed"),
        (tray(files={fabric.NODES: ""}), "fail", "no node"),
        (tray(files={fabric.NODES: "# nothing\n\n"}), "fail", "no node"),
        (tray().without(fabric.NODES), "fail", "no node"),
        (tray(files={fabric.NODES: b"\x00\xff\x00"}), "unknown", fabric.NODES),
        (tray(commands={fabric.IMEX_CTL: Reply(hang=True)}), "fail", "not ready"),
        (tray(commands={fabric.IMEX_CTL: Reply(rc=1, stderr="cannot connect")}), "unknown", "cannot connect"),
        (tray(commands={fabric.IMEX_CTL: Reply("{}")}), "unknown", "did not tell"),
        (tray(commands={fabric.IMEX_CTL: Reply("[1, 2]")}), "unknown", "did not tell"),
        (tray(commands={fabric.IMEX_CTL: Reply("READY\nDomain State: UP\n")}), "pass", "UP"),
        (tray(commands={fabric.IMEX_CTL: Reply(fabric.imex_answer("DOWN"))}), "fail", "DOWN"),
        (
            tray(commands={fabric.IMEX_CTL: Reply(fabric.imex_answer("DEGRADED", ("192.0.2.11",)))}),
            "warn",
            "192.0.2.11",
        ),
        (tray(files={"/proc/900/comm": "compute-domain-\n"}), "fail", "two owners"),
        (
            tray(files={"/proc/900/comm": "compute-domain-\n"}, units={"nvidia-imex.service": DOWN}),
            "warn",
            "with each job",
        ),
    ],
)
def test_c34_imex_has_one_owner_the_drivers_version_and_an_answer(ask, profile, expected, word):
    check = ask(profile)["fabric.imex"]
    assert check["status"] == expected
    assert word in check["reason"]


def test_c34_another_nodes_file_is_followed(ask):
    config = {"/etc/nvidia-imex/config.cfg": "IMEX_NODE_CONFIG_FILE=/etc/rack.cfg\n"}
    assert "/etc/rack.cfg" in ask(tray(files=config))["fabric.imex"]["reason"]


def test_imex_is_required_on_a_tray_even_where_the_plan_uses_rdma(ask):
    """Facts 3.14: where the fabric holds, NCCL uses it and dies on a broken IMEX."""
    profile = tray(units={"nvidia-imex.service": DOWN})
    assert status(ask, profile, "imex", {"interconnect": "rdma"}) == "fail"


def test_the_channel_must_exist_and_the_modules_option_is_the_evidence(ask):
    gone = node("gb200").without("/dev")
    check = ask(gone.plus(Profile(files={"/proc/driver/nvidia/params": "CreateImexChannel0: 0\n"})))[
        "fabric.imex_channel"
    ]
    assert check["status"] == "fail"
    assert "CreateImexChannel0=0" in check["reason"]
    by_job = gone.plus(Profile(files={"/proc/900/comm": "compute-domain-\n"}))
    assert status(ask, by_job, "imex_channel") == "warn"


# ---- domain and partition ----------------------------------------------------------------------------------------------

OTHER = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize("clique", ["0", "2", "32766"])
def test_every_clique_is_legal_also_zero(ask, report_of, clique):
    profile = node("gb200", every={"fabric/cliqueId": clique})
    assert status(ask, profile, "partition") == "pass"
    assert status(ask, profile, "partition", {"nvlink_partition": clique}) == "pass"
    assert status(ask, profile, "partition", {"nvlink_partition": "7"}) == "fail"
    facts = report_of(profile)["facts"]["fabric"]
    assert (facts["domain"], facts["partition"]) == (gpu.CLUSTER, clique)


def test_a_declared_domain_is_held_against_the_gpus(ask):
    assert status(ask, node("gb200"), "domain", {"nvlink_domain": gpu.CLUSTER.upper()}) == "pass"
    assert status(ask, node("gb200"), "domain", {"nvlink_domain": OTHER}) == "fail"


@pytest.mark.parametrize(
    ("changes", "domain", "partition"),
    [
        ({"gpus": {1: {"fabric/clusterUuid": OTHER}}}, "fail", "unknown"),
        ({"gpus": {1: {"fabric/cliqueId": "3"}}}, "pass", "fail"),
        ({"every": {"fabric/clusterUuid": gpu.NO_CLUSTER}}, "fail", "unknown"),
        ({"every": {"fabric/clusterUuid": "N/A"}}, "unknown", "unknown"),
        ({"every": {"fabric/clusterUuid": None}}, "unknown", "unknown"),
        ({"every": {"fabric/cliqueId": "N/A"}}, "pass", "unknown"),
        ({"every": {"fabric/cliqueId": "-5"}}, "pass", "unknown"),
    ],
)
def test_a_tray_has_one_domain_and_one_partition(ask, changes, domain, partition):
    checks = ask(node("gb200", **changes))
    assert (checks["fabric.domain"]["status"], checks["fabric.partition"]["status"]) == (domain, partition)


@pytest.mark.parametrize("kind", ["b200", "h100"])
def test_hgx_boards_have_no_domain_and_must_not_be_declared_into_one(ask, report_of, kind):
    facts = report_of(node(kind))["facts"]["fabric"]
    assert (facts["domain"], facts["partition"]) == (None, None)
    assert status(ask, node(kind), "domain", {"nvlink_domain": OTHER}) == "fail"
    assert status(ask, node(kind), "partition", {"nvlink_partition": "0"}) == "fail"


@pytest.mark.parametrize("kind", ["b200", "h100"])
def test_a_node_without_a_domain_cannot_talk_over_nvlink(ask, kind):
    check = ask(healthy(kind), {"interconnect": "nvlink"})["fabric.domain"]
    assert check["status"] == "fail"
    assert "interconnect" in check["remedy"]["action"]
