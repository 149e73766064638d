# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is done to boards with NVSwitches of their own."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric import hgx, kind
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.fabric.errors import FabricError
from ansible_collections.gpufleet.kimi_k3.tests.fixtures import fabric_wishes
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import driver, gpu
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KERNELS, Profile, Reply

MANAGER = "nvidia-fabricmanager.service"
STOPPED = {"ActiveState": "inactive", "SubState": "dead", "UnitFileState": "disabled"}
IN_PROGRESS = {"fabric/state": "In Progress", "fabric/status": "N/A"}
MODULES = ("ib_umad", "mlx5_ib")


@pytest.fixture
def decide(make_node):
    """decide(profile, **changes): the plan for a board; changes are put into the answer of fabric_state."""

    def plan(profile, **changes):
        node = make_node(profile)
        facts = fabric_wishes.facts(node)
        found = kind.of(facts, "auto")
        now = {**fabric_wishes.now(node, found["kind"]), **changes}
        return hgx.plan(found, facts, now, fabric_wishes.table(), "gpu-01")

    return plan


def board(name="h100", unit=None, modules=MODULES):
    """A board whose fabric manager is in this state, and whose GPUs wait for it."""
    profile = healthy(name).plus(gpu.answering(name, every=IN_PROGRESS)).plus(fabric_wishes.kernel(name, *modules))
    profile.units[MANAGER] = STOPPED if unit is None else unit
    profile.commands["journalctl", "-u", "nvidia-fabricmanager", "-b", "-n", "50", "--no-pager"] = Reply("")
    return profile


def services(plan):
    """What becomes of the units."""
    return plan.as_dict()["services"]


def test_a_stopped_fabric_manager_is_enabled_started_and_awaited(decide):
    plan = decide(board())
    assert services(plan) == [{"unit": MANAGER, "enabled": True, "state": "started", "disturbs": False}]
    assert plan.awaits == "manager"
    assert plan.as_dict()["changes"] is True
    assert plan.lines() == [
        "fabric: hgx (product h100), driver 580.126.20 is loaded",
        f"service {MANAGER}: enabled at boot, started",
        "reboot: not for this",
    ]


def test_where_all_is_done_nothing_changes(decide):
    for name in ("h100", "b200"):
        profile = healthy(name).plus(fabric_wishes.kernel(name, *MODULES))
        profile.files[hgx.MODULES_FILE] = "# Written by gpufleet.kimi_k3.nvidia_fabric.\nib_umad\nmlx5_ib\n"
        told = decide(profile).as_dict()
        assert (told["changes"], told["services"], told["files"], told["load"]) == (False, [], [], [])
        assert told["awaits"] == "manager"


def test_what_runs_is_enabled_without_a_restart(decide):
    assert services(decide(board(unit={"UnitFileState": "disabled"}))) == [
        {"unit": MANAGER, "enabled": True, "disturbs": False}
    ]


def test_c14_a_fabric_manager_of_another_version_is_neither_started_nor_enabled(decide):
    profile = board()
    profile.packages["nvidia-fabricmanager"] = "580.126.09-1ubuntu1"
    plan = decide(profile)
    assert services(plan) == []
    assert plan.awaits == ""
    (said,) = plan.said
    assert said.startswith(
        f"not started: {MANAGER}: nvidia-fabricmanager is 580.126.09, and driver 580.126.20 is loaded"
    )
    assert said.endswith("ansible-playbook gpufleet.kimi_k3.site --limit gpu-01")


def test_before_the_reboot_it_is_enabled_and_not_started(decide):
    plan = decide(board().plus(driver.loaded("580.95.05")))
    assert services(plan) == [{"unit": MANAGER, "enabled": True, "disturbs": False}]
    (said,) = plan.said
    assert said == (
        f"not started before the reboot: {MANAGER}: driver 580.95.05 is loaded, and nvidia-fabricmanager is 580.126.20, "
        "as the driver of the next boot is"
    )
    assert plan.lines()[-1].startswith("reboot: due, driver 580.95.05 is loaded")


def test_an_old_one_that_runs_until_the_reboot_is_left_alone(decide):
    plan = decide(board(unit={}).plus(driver.loaded("580.95.05")))
    assert services(plan) == []
    assert plan.said[0].startswith("not started again before the reboot")


def test_without_the_package_the_role_that_brings_it_is_named(decide):
    profile = board()
    del profile.packages["nvidia-fabricmanager"], profile.units[MANAGER]
    plan = decide(profile)
    assert services(plan) == []
    assert "nvidia-fabricmanager is not installed; the role nvidia_driver brings it" in plan.said[0]


def test_a_fabric_manager_in_a_container_is_left_to_whoever_started_it(decide):
    profile = board().plus(Profile(files={"/proc/77/comm": "nv-fabricmanage\n"}))
    del profile.packages["nvidia-fabricmanager"], profile.units[MANAGER]
    assert "left to whoever started it" in decide(profile).said[0]


def test_a_masked_unit_is_told_and_not_unmasked(decide):
    plan = decide(board(unit={"LoadState": "masked", "ActiveState": "inactive", "UnitFileState": "masked"}))
    assert services(plan) == []
    assert "somebody masked it; `systemctl unmask nvidia-fabricmanager.service`" in plan.said[0]


def test_c15_the_modules_are_loaded_now_and_at_every_boot_before_the_start(decide):
    profile = board("b200")
    del profile.modules["ib_umad"], profile.modules["mlx5_ib"]
    told = decide(profile).as_dict()
    assert told["load"] == ["ib_umad", "mlx5_ib"]
    assert told["files"] == [
        {
            "path": "/etc/modules-load.d/gpufleet-nvidia-fabric.conf",
            "content": "# Written by gpufleet.kimi_k3.nvidia_fabric.\nib_umad\nmlx5_ib\n",
            "part": "modules",
        }
    ]
    assert told["packages"] == []
    assert "module ib_umad: loaded" in told["lines"]


def test_an_older_board_needs_no_modules(decide):
    told = decide(board(modules=())).as_dict()
    assert (told["files"], told["load"], told["packages"]) == ([], [], [])


def test_a_kernel_without_the_modules_gets_their_package(decide):
    plan = decide(board("b200", modules=("ib_umad",)))
    name = f"linux-modules-extra-{KERNELS['b200']}"
    assert plan.packages == [{"kernel": KERNELS["b200"], "install": [{"name": name}]}]


def test_the_running_and_the_next_kernel_are_asked_each(make_node):
    node = make_node(board("b200").plus(Profile(files={"/lib/modules/6.8.0-2000-nvidia/modules.dep": ""})))
    facts = fabric_wishes.facts(node)
    now = fabric_wishes.now(node, "hgx_nvlink5")
    now["modules"]["6.8.0-2000-nvidia"] = ["ib_umad", "mlx5_ib"]
    found = {"kind": "hgx_nvlink5", "evidence": "", "kernels": [KERNELS["b200"], "6.8.0-2000-nvidia"]}
    plan = hgx.plan(found, facts, now, fabric_wishes.table(), "gpu-01")
    assert plan.packages == [
        {"kernel": "6.8.0-2000-nvidia", "install": [{"name": "linux-modules-extra-6.8.0-2000-nvidia"}]}
    ]


def test_where_no_package_is_known_the_node_is_refused(decide):
    profile = board("b200", modules=())
    profile.files["/etc/os-release"] = 'ID="rocky"\nVERSION_ID="9.6"\nPRETTY_NAME="Rocky Linux 9.6"\n'
    with pytest.raises(FabricError, match=r"has no ib_umad and no mlx5_ib.*package of Rocky Linux 9.6"):
        decide(profile)


def test_c15_without_nvlsm_nothing_is_started(decide):
    profile = board("b200")
    del profile.packages["nvlsm"]
    plan = decide(profile)
    assert services(plan) == []
    assert "nvlsm is not installed" in plan.said[0]


def test_c15_a_fabric_manager_older_than_the_modules_is_not_restarted_under_a_node(decide):
    profile = board("b200", unit={})
    del profile.modules["ib_umad"]
    plan = decide(profile)
    assert services(plan) == []
    # Waiting would not help: it looked for its switches when it started.
    assert plan.awaits == ""
    assert plan.said[0].startswith(f"restart due: {MANAGER} runs since before ib_umad was loaded")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"driver": {"unknown": "two versions"}}, "which driver is loaded is not known: two versions"),
        ({"units": {"manager": {"unknown": "no bus"}, "imex": {}}}, "the state of .* is not known: no bus"),
        ({"unloaded": {"unknown": "no list"}}, "whether ib_umad and mlx5_ib are loaded is not known: no list"),
        ({"modules": {KERNELS["b200"]: {"unknown": "no list"}}}, "which modules kernel .* has is not known: no list"),
        ({"files": {hgx.MODULES_FILE: {"unknown": "needs root"}}}, "what .* holds is not known: needs root"),
        (
            {"nvlsm": {"packages": {"unknown": "no dpkg"}, "binary": False, "running": False, "unit": False}},
            "whether nvlsm is installed is not known: no dpkg",
        ),
        (
            {"manager": {"packages": {"unknown": "no dpkg"}, "binary": None, "running": False}},
            "which version of nvidia-fabricmanager is installed is not known: no dpkg",
        ),
    ],
)
def test_what_is_not_known_refuses_the_node(decide, changes, says):
    with pytest.raises(FabricError, match=says):
        decide(board("b200"), **changes).as_dict()
