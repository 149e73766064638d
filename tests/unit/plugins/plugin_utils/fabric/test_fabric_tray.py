# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is done to trays of an NVLink rack."""

from __future__ import annotations

import json
import re

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import imex, kind, tray
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError
from ansible_collections.gpufleet.kimi_k3.tests.fixtures import fabric_wishes
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, fabric, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts.network import ADDRESSES
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KERNELS, Profile, Reply

IMEX = "nvidia-imex.service"
MANAGER = "nvidia-fabricmanager.service"
SINCE = ("systemctl", "show", IMEX, "--property=ActiveState,ActiveEnterTimestampMonotonic")
STOPPED = {"ActiveState": "inactive", "SubState": "dead", "UnitFileState": "disabled"}
OPTIONS = (
    "# Written by gpufleet.kimi_k3.nvidia_fabric.\n"
    "options nvidia NVreg_CoherentGPUMemoryMode=driver\noptions nvidia NVreg_CreateImexChannel0=1\n"
)
PARAMS = 'CreateImexChannel0: 1\nCoherentGPUMemoryMode: "driver"\n'
NODES = ["192.0.2.10", "192.0.2.11"]
HOST = fabric_wishes.wish(owner="host", nodes=NODES)


def rack(unit=None, address="192.0.2.10", **changes):
    """A tray that has its options, and whose IMEX is in this state."""
    profile = healthy("gb200").plus(gpu.answering("gb200", **changes))
    profile.files |= {tray.OPTIONS_FILE: OPTIONS, "/proc/driver/nvidia/params": PARAMS}
    unit = STOPPED if unit is None else unit
    profile.units[IMEX] = unit
    links = [ADDRESSES[0], {**ADDRESSES[1], "addr_info": [{"local": address, "scope": "global"}]}]
    profile.commands["ip", "-j", "addr", "show"] = Reply(json.dumps(links))
    state = unit.get("ActiveState", "active")
    # Long before any file of the test was written.
    profile.commands[SINCE] = Reply(
        f"ActiveState={state}\nActiveEnterTimestampMonotonic={0 if state != 'active' else 1}\n"
    )
    return profile


def others(**rest):
    """The second tray of the partition, as the run knows it."""
    known = {"holders": [], "addresses": ["192.0.2.11"], "domain": gpu.CLUSTER, "partition": "2"}
    return {"tray-2": {**known, "nodes": NODES, "owner": "host", **rest}}


@pytest.fixture
def decide(make_node):
    """decide(profile, wish, views, **changes): the plan for tray-1."""

    def plan(profile, wish=None, views=None, **changes):
        wish = HOST if wish is None else wish
        node = make_node(profile)
        facts = fabric_wishes.facts(node)
        now = {**fabric_wishes.now(node, "tray"), **changes}
        own = imex.view(
            {
                "__now": {"now": now},
                "node_readiness_result": {"readiness": {"facts": facts}},
                "nvidia_fabric_imex_nodes": wish["nodes"],
                "nvidia_fabric_imex_owner": wish["owner"],
            },
            "__now",
        )
        seen = {"tray-1": own, **(others() if views is None else views)}
        return tray.plan(kind.of(facts, "auto"), facts, now, wish, fabric_wishes.table(), "tray-1", seen)

    return plan


def of_unit(plan, name=IMEX):
    """What becomes of a unit."""
    found = [item for item in plan.as_dict()["services"] if item["unit"] == name]
    return {key: value for key, value in found[0].items() if key != "unit"} if found else {}


def of_file(plan, path):
    """The text that a file gets, or None."""
    return next((item["content"] for item in plan.as_dict()["files"] if item["path"] == path), None)


# ---- who owns IMEX ---------------------------------------------------------------------------------------------------


def test_a_tray_of_which_nobody_said_who_starts_imex_is_refused(decide):
    with pytest.raises(FabricError, match=r"nvidia_fabric_imex_owner: '' is not allowed.*host .*slurm or dra .*none"):
        decide(rack(), fabric_wishes.wish())


def test_the_host_writes_the_nodes_and_starts_imex(decide):
    plan = decide(rack().without(fabric.NODES))
    assert of_unit(plan) == {"enabled": True, "state": "started", "disturbs": True}
    assert of_file(plan, imex.NODES_FILE) == "192.0.2.10\n192.0.2.11\n"
    assert plan.awaits == "imex"
    assert f"file {imex.NODES_FILE}: made (disturbs every tray of the NVLink partition)" in plan.lines()


def test_where_all_is_done_nothing_changes(decide):
    told = decide(rack(unit={}), nodes_newer=False).as_dict()
    assert (told["changes"], told["disturbs"]) == (False, False)


def test_other_nodes_restart_it_where_everybody_is_idle(decide):
    plan = decide(rack(unit={}).plus(Profile(files={fabric.NODES: "192.0.2.10\n"})))
    assert of_unit(plan) == {"state": "restarted", "disturbs": True}
    assert plan.as_dict()["disturbs"] is True


def test_nobody_is_disturbed_for_a_comment(decide):
    text = "# rack 7\n192.0.2.10\n\n 192.0.2.11 \n"
    plan = decide(rack(unit={}).plus(Profile(files={fabric.NODES: text})), nodes_newer=False)
    assert plan.as_dict()["changes"] is False
    other_order = decide(rack(unit={}).plus(Profile(files={fabric.NODES: "192.0.2.11\n192.0.2.10\n"})))
    assert of_unit(other_order) == {"state": "restarted", "disturbs": True}


def test_a_file_that_is_newer_than_the_service_restarts_it(decide):
    # What a run leaves that was killed between the two.
    assert of_unit(decide(rack(unit={}), nodes_newer=True)) == {"state": "restarted", "disturbs": True}


def test_slurm_keeps_the_unit_from_the_boot_and_its_jobs_alive(decide):
    plan = decide(rack(unit={}), fabric_wishes.wish(owner="slurm"))
    assert of_unit(plan) == {"enabled": False, "disturbs": False}
    assert of_file(plan, imex.NODES_FILE) is None
    assert "it may serve a job of Slurm" in plan.said[0]
    masked = decide(
        rack(unit={**STOPPED, "LoadState": "masked", "UnitFileState": "masked"}), fabric_wishes.wish(owner="slurm")
    )
    assert of_unit(masked) == {}
    assert "so Slurm cannot start it either" in masked.said[0]


def test_dra_masks_the_unit_and_stops_it_only_when_asked(decide):
    assert of_unit(decide(rack(), fabric_wishes.wish(owner="dra"))) == {"masked": True, "disturbs": False}
    runs = decide(rack(unit={}), fabric_wishes.wish(owner="dra"))
    assert of_unit(runs) == {"masked": True, "disturbs": False}
    assert runs.said[0].startswith(f"stop due: {IMEX} runs beside the DRA driver's")
    asked = decide(rack(unit={}), fabric_wishes.wish(owner="dra", restart=True))
    assert of_unit(asked) == {"masked": True, "state": "stopped", "disturbs": True}
    done = decide(
        rack(unit={**STOPPED, "LoadState": "masked", "UnitFileState": "masked"}), fabric_wishes.wish(owner="dra")
    )
    assert of_unit(done) == {}


def test_none_leaves_it_as_it_is(decide):
    plan = decide(rack(), fabric_wishes.wish(owner="none"))
    assert of_unit(plan) == {}
    assert plan.said == [f"{IMEX}: left as it is (nvidia_fabric_imex_owner: none)"]


def test_the_hosts_own_unit_is_unmasked(decide):
    plan = decide(rack(unit={**STOPPED, "LoadState": "masked", "UnitFileState": "masked"}))
    assert of_unit(plan) == {"masked": False, "enabled": True, "state": "started", "disturbs": True}


def test_c34_the_host_is_refused_where_the_dra_driver_runs(decide):
    profile = rack().plus(Profile(files={"/proc/88/comm": "compute-domain-\n"}))
    with pytest.raises(FabricError, match=r"'host' is not allowed on this node, where Kubernetes' DRA driver"):
        decide(profile)


# ---- the nodes -------------------------------------------------------------------------------------------------------


def test_without_nodes_the_host_is_refused(decide):
    with pytest.raises(FabricError, match=r"nvidia_fabric_imex_nodes: \[\] is not allowed"):
        decide(rack(), fabric_wishes.wish(owner="host"))


def test_nodes_without_this_one_are_refused(decide):
    with pytest.raises(
        FabricError, match=r"none of 192.0.2.10, 192.0.2.11 is an address of this node, which has 192.0.2.77"
    ):
        decide(rack(address="192.0.2.77"))


def test_an_address_counts_however_it_is_written(decide):
    plan = decide(rack(address="2001:db8::1"), {**HOST, "nodes": ["2001:0DB8:0::1"]}, {})
    assert of_unit(plan)["state"] == "started"


def test_a_configuration_that_names_another_file_is_refused(decide):
    profile = rack().plus(Profile(files={imex.CONFIG_FILE: "IMEX_NODE_CONFIG_FILE=/opt/imex/nodes\n"}))
    with pytest.raises(FabricError, match=r"names /opt/imex/nodes as its nodes file"):
        decide(profile)


def test_c34_one_partition_one_list_and_none_of_another(decide):
    with pytest.raises(FabricError, match=r"tray-2 is of the same NVLink partition and is given other"):
        decide(rack(), views=others(nodes=["192.0.2.11", "192.0.2.10"]))
    with pytest.raises(
        FabricError, match=r"names tray-2, which is of another NVLink partition: domain .* partition 3 there"
    ):
        decide(rack(), views=others(partition="3"))
    # Before the first driver no GPU tells its partition.
    assert decide(rack(), views=others(domain={"unknown": "no driver"}, partition={"unknown": "no driver"}))


# ---- who would be disturbed --------------------------------------------------------------------------------------------

JOB = {"pid": 42, "name": "python3", "unit": "vllm.service"}


@pytest.mark.parametrize(
    ("views", "says"),
    [
        (others(holders=[JOB]), r"the GPUs of tray-2 are in use by python3 \(42 of vllm.service\)"),
        (others(holders=[JOB, JOB]), r"\(42 of vllm.service\) and 1 more"),
        (others(holders={"unknown": "needs root"}), r"who uses the GPUs of tray-2 is not known \(needs root\)"),
        ({}, "192.0.2.11 is not in this run, so who uses the GPUs there is not known"),
    ],
)
def test_nobody_is_disturbed_unasked(decide, views, says):
    changed = rack(unit={}).plus(Profile(files={fabric.NODES: "192.0.2.10\n"}))
    plan = decide(changed, views=views)
    assert of_unit(plan) == {}
    assert of_file(plan, imex.NODES_FILE) is None
    assert plan.awaits == ""
    (said,) = plan.said
    assert said.startswith("restart due: ")
    assert plan.as_dict()["disturbs"] is False
    assert re.search(says, said)
    asked = decide(changed, {**HOST, "restart": True}, views)
    assert of_unit(asked) == {"state": "restarted", "disturbs": True}


def test_work_on_this_tray_counts_too(decide):
    profile = rack().plus(fabric_wishes.process(90, "python3", "/dev/nvidia0"))
    plan = decide(profile)
    assert of_unit(plan) == {"enabled": True, "disturbs": False}
    assert "start due: " in plan.said[0]
    assert "the GPUs of tray-1 are in use by python3" in plan.said[0]


def test_daemons_that_only_watch_are_no_work(decide):
    profile = rack().plus(fabric_wishes.process(90, "nvidia-persiste", "/dev/nvidia0"))
    assert of_unit(decide(profile))["state"] == "started"
    busy = rack().plus(fabric_wishes.process(90, "site-monitor-of-gpus"[:15], "/dev/nvidia0"))
    assert "state" not in of_unit(decide(busy))
    assert of_unit(decide(busy, {**HOST, "idle_holders": ["site-monitor-of-gpus"]}))["state"] == "started"


def test_a_file_that_nobody_reads_yet_disturbs_nobody(decide):
    profile = rack().without(fabric.NODES)
    del profile.packages["nvidia-imex"], profile.units[IMEX]
    plan = decide(profile, views={})
    assert of_file(plan, imex.NODES_FILE) == "192.0.2.10\n192.0.2.11\n"
    assert plan.as_dict()["disturbs"] is False
    assert "nvidia-imex is not installed; the role nvidia_driver brings it" in plan.said[0]


# ---- versions --------------------------------------------------------------------------------------------------------


def test_c14_of_another_version_it_is_not_started(decide):
    profile = rack()
    profile.packages["nvidia-imex"] = "580.65.06-1"
    plan = decide(profile)
    assert of_unit(plan) == {}
    assert "nvidia-imex is 580.65.06, and driver 580.173.02 is loaded" in plan.said[0]


def test_before_the_reboot_it_is_enabled_and_not_started(decide):
    plan = decide(rack().plus(driver.loaded("580.95.05", "aarch64")))
    assert of_unit(plan) == {"enabled": True, "disturbs": False}
    assert plan.said[0].startswith(f"not started before the reboot: {IMEX}")
    assert plan.reboot


# ---- options of the module -------------------------------------------------------------------------------------------


def test_the_options_are_data_and_an_initramfs_gets_them(decide):
    profile = rack().without(tray.OPTIONS_FILE)
    profile.files[f"/boot/initrd.img-{KERNELS['gb200']}"] = ""
    plan = decide(profile, fabric_wishes.wish(owner="none"))
    assert of_file(plan, tray.OPTIONS_FILE) == OPTIONS
    assert plan.as_dict()["initramfs"] == [["update-initramfs", "-u", "-k", KERNELS["gb200"]]]
    numa = decide(profile, fabric_wishes.wish(owner="none", memory_mode="numa"))
    assert "NVreg_CoherentGPUMemoryMode=numa\n" in of_file(numa, tray.OPTIONS_FILE)
    leave = decide(profile, fabric_wishes.wish(owner="none", memory_mode="leave"))
    assert "NVreg_CoherentGPUMemoryMode" not in of_file(leave, tray.OPTIONS_FILE)


def test_an_initramfs_older_than_the_options_is_written_anew(decide):
    stale = decide(rack(), fabric_wishes.wish(owner="none"), initramfs={"6.8.0-1": True, "6.8.0-2": False})
    assert stale.as_dict()["initramfs"] == [["update-initramfs", "-u", "-k", "6.8.0-1"]]


def test_where_nobody_knows_how_to_write_an_initramfs_that_is_told(decide):
    profile = rack()
    profile.files["/etc/os-release"] = 'ID="azurelinux"\nVERSION_ID="3.0"\n'
    plan = decide(profile, fabric_wishes.wish(owner="none"), initramfs={"6.8.0-1": True})
    assert plan.as_dict()["initramfs"] == []
    assert plan.said[0].startswith("initramfs of kernel 6.8.0-1: older than")


@pytest.mark.parametrize(
    ("params", "reboot"),
    [
        (PARAMS, []),
        (
            'CreateImexChannel0: 0\nCoherentGPUMemoryMode: ""\n',
            [
                "the loaded module has CoherentGPUMemoryMode: numa, and driver is to be",
                "the loaded module has CreateImexChannel0: 0, and 1 is to be",
            ],
        ),
        # A driver that does not tell it.
        ("CreateImexChannel0: 1\n", []),
    ],
)
def test_options_not_in_force_make_a_reboot_due(decide, params, reboot):
    profile = rack().plus(Profile(files={"/proc/driver/nvidia/params": params}))
    assert decide(profile, fabric_wishes.wish(owner="none")).reboot == reboot


def test_the_memory_mode_is_told_to_have_no_effect_on_an_older_driver(decide):
    profile = rack().plus(driver.loaded("570.172.08", "aarch64"))
    for argv in [argv for argv in profile.commands if argv[0] == "modinfo"]:
        profile.commands[argv] = driver.modinfo("570.172.08")
    plan = decide(profile, fabric_wishes.wish(owner="none"))
    assert "no effect yet: NVreg_CoherentGPUMemoryMode is an option of drivers from 580 on" in plan.said[0]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/modprobe.d/nvidia.conf", "options nvidia NVreg_CreateImexChannel0=0 NVreg_EnableStreamMemOPs=1\n"),
        ("/lib/modprobe.d/nvidia.conf", "options nvidia-current NVreg_CreateImexChannel0=0\n"),
        ("/proc/cmdline", "quiet nvidia.NVreg_CreateImexChannel0=0\n"),
    ],
)
def test_a_contradiction_elsewhere_is_refused_naming_both(decide, path, text):
    with pytest.raises(
        FabricError, match=f"{path} sets NVreg_CreateImexChannel0=0, and {tray.OPTIONS_FILE}.*would set 1"
    ):
        decide(rack().plus(Profile(files={path: text})))


def test_the_same_value_elsewhere_is_no_contradiction(decide):
    same = Profile(files={"/etc/modprobe.d/nvidia.conf": "options nvidia NVreg_CreateImexChannel0=1\n"})
    assert decide(rack().plus(same), fabric_wishes.wish(owner="none"))


def test_a_contradiction_with_the_role_nvidia_driver_is_refused_naming_both(decide):
    wish = fabric_wishes.wish(owner="none", driver_options={"NVreg_CoherentGPUMemoryMode": "numa"})
    with pytest.raises(
        FabricError, match=r"nvidia_driver_module_options: NVreg_CoherentGPUMemoryMode=numa is not allowed"
    ):
        decide(rack(), wish)
    assert decide(rack(), {**wish, "memory_mode": "numa"})
    assert decide(rack(), fabric_wishes.wish(owner="none", driver_options={"NVreg_CreateImexChannel0": 1}))


# ---- the fabric manager ----------------------------------------------------------------------------------------------


def test_a_fabric_manager_has_no_place_on_a_tray(decide):
    profile = rack()
    profile.units[MANAGER] = {}
    plan = decide(profile, fabric_wishes.wish(owner="none"))
    assert of_unit(plan, MANAGER) == {"enabled": False, "state": "stopped", "disturbs": False}
    assert f"{MANAGER} serves nothing on a tray" in plan.said[0]
    profile.units[MANAGER] = {"ActiveState": "failed", "SubState": "failed", "UnitFileState": "enabled"}
    assert of_unit(decide(profile, fabric_wishes.wish(owner="none")), MANAGER) == {"enabled": False, "disturbs": False}
    profile.units[MANAGER] = STOPPED
    assert of_unit(decide(profile, fabric_wishes.wish(owner="none")), MANAGER) == {}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"options": {"unknown": "needs root"}}, "which options the module has elsewhere is not known: needs root"),
        ({"addresses": {"unknown": "no ip"}}, "which addresses this node has is not known: no ip"),
        ({"config": {"unknown": "needs root"}}, "what /etc/nvidia-imex/config.cfg holds is not known: needs root"),
        ({"nodes_newer": {"unknown": "no bus"}}, "whether .* knows its nodes is not known: no bus"),
        ({"units": {"manager": {"unknown": "no bus"}, "imex": {}}}, "fabricmanager.service is not known: no bus"),
        ({"driver": {"unknown": "two versions"}}, "which driver is loaded is not known: two versions"),
    ],
)
def test_what_is_not_known_refuses_the_node(decide, changes, says):
    with pytest.raises(FabricError, match=says):
        decide(rack(), **changes)


def test_every_reason_comes_at_once(decide):
    profile = rack(address="192.0.2.77").plus(Profile(files={"/proc/cmdline": "x nvidia.NVreg_CreateImexChannel0=0\n"}))
    with pytest.raises(FabricError) as caught:
        decide(profile)
    assert len(str(caught.value).splitlines()) == 2


def test_a_host_that_this_run_has_not_read_is_not_known():
    assert imex.view({}, "__now") is None
    assert imex.view({"__now": {"skipped": True}}, "__now") is None
