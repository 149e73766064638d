# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""package_plan with real apt and dpkg, of Debian 12 and of Debian 13."""

from __future__ import annotations

import pytest

HOLD = ["*nvidia*", "libcuda1", "libnvsdm"]
NEW = "580.126.20-1"


def wanted(version, *names):
    return [{"name": name, "version": version} for name in names or ("nvidia-open", "nvidia-fabricmanager")]


def moves(answer):
    return {item["name"]: (item["from"], item["to"]) for item in answer["plan"]["packages"] if item["action"] != "keep"}


def given(node, version="575.57.08", **more):
    """Bring a node to an earlier version first."""
    answer = node.plan(state="present", install=wanted(version, "nvidia-open", "nvidia-fabricmanager-575"), **more)
    assert answer.get("changed"), answer
    return answer


# ---- the plan is the run -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["deb12", "deb13"])
def test_a_bare_node_is_not_changed_by_a_plan_and_is_what_the_plan_said_after_the_run(make, kind):
    node = make(kind)
    before = node.state()
    request = {"install": wanted("580.126.20"), "hold": HOLD}
    shown = node.plan(**request)
    assert node.state() == before
    assert shown["changed"]
    assert shown["plan"]["certain"], shown["plan"]["unknown"]
    assert {item["origin"] for item in shown["plan"]["packages"]} == {"cuda"}
    assert shown["plan"]["download_bytes"] > 0
    assert node.plan(state="present", check_mode=True, **request) == shown
    assert node.state() == before

    done = node.plan(state="present", expect=shown["plan"]["digest"], **request)
    assert moves(done) == moves(shown) == dict.fromkeys(node.installed(), (None, NEW))
    assert {"nvidia-open", "nvidia-driver", "libcuda1", "nvidia-fabricmanager"} <= set(node.installed())
    assert node.holds() == sorted(node.installed())
    assert done["hold_proof"]["touched"] == []
    assert done["hold_proof"]["newer"]["nvidia-open"] == "595.71.05-1"
    assert set(node.shell("apt-mark showmanual").split()) >= {"nvidia-open", "nvidia-fabricmanager"}
    assert "libcuda1" in node.shell("apt-mark showauto").split()

    state = node.state()
    again = node.plan(state="present", expect=shown["plan"]["digest"], **request)
    assert not again["changed"], again
    assert moves(again) == {}
    assert node.state() == state


def test_a_held_older_branch_moves_on_and_is_never_without_its_holds(make):
    node = make()
    given(node)
    node.shell("apt-mark hold nvidia-open nvidia-driver libcuda1 nvidia-fabricmanager-575 >/dev/null")
    node.shell("apt-mark hold tzdata >/dev/null")
    request = {"install": wanted("580.126.20"), "remove": ["nvidia-fabricmanager-*"], "hold": HOLD}
    shown = node.plan(**request)
    assert moves(shown)["nvidia-fabricmanager-575"] == ("575.57.08-1", None)
    assert moves(shown)["nvidia-open"] == ("575.57.08-1", NEW)
    assert shown["plan"]["holds"]["foreign"] == ["tzdata"]
    done = node.plan(state="present", **request)
    assert moves(done) == moves(shown)
    assert node.holds() == sorted([*node.installed(), "tzdata"])
    assert "nvidia-fabricmanager-575" not in node.installed()
    assert set(node.installed().values()) == {NEW}


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([("575.57.08", []), ("580.126.20", ["*-575*"])], {"nvidia-driver-580-open", "libnvidia-compute-580"}),
        ([("580.126.20", []), ("595.71.05", ["*-580*"])], {"nvidia-driver-open", "libnvidia-compute"}),
    ],
)
def test_names_with_the_branch_are_replaced_in_one_transaction(make, steps, left):
    node = make(repository="ubuntu2404")
    for version, remove in steps:
        request = {"install": wanted(version, "nvidia-open"), "remove": remove, "hold": HOLD}
        shown = node.plan(**request)
        done = node.plan(state="present", expect=shown["plan"]["digest"], **request)
        assert moves(done) == moves(shown)
    assert left <= set(node.installed())
    assert set(node.installed().values()) == {f"{steps[-1][0]}-1ubuntu1"}


@pytest.mark.soak
def test_the_proprietary_flavour_makes_room_for_the_open_one(make):
    node = make()
    assert node.plan(state="present", install=wanted("580.126.20", "nvidia-kernel-dkms"))["changed"]
    refused = node.plan(install=wanted("580.126.20"))
    assert "would remove nvidia-kernel-dkms, which nobody asked for" in refused["refused"]
    allowed = node.plan(install=wanted("580.126.20"), allow_remove=["nvidia-kernel-*"])
    assert moves(allowed)["nvidia-kernel-dkms"] == (NEW, None)
    done = node.plan(state="present", install=wanted("580.126.20"), remove=["nvidia-kernel-dkms"])
    assert moves(done)["nvidia-kernel-dkms"] == (NEW, None)
    assert "nvidia-kernel-open-dkms" in node.installed()


@pytest.mark.soak
def test_going_back_needs_leave(make):
    node = make()
    node.plan(state="present", install=wanted("580.126.20"), hold=HOLD)
    request = {"state": "present", "install": wanted("580.95.05"), "hold": HOLD}
    assert "allow_downgrade permits that" in node.plan(**request)["refused"]
    done = node.plan(allow_downgrade=True, **request)
    assert moves(done)["nvidia-open"] == (NEW, "580.95.05-1")
    assert set(node.installed().values()) == {"580.95.05-1"}


@pytest.mark.soak
def test_an_arm_server_takes_its_packages_from_sbsa(make):
    node = make()
    node.shell("dpkg --add-architecture arm64")
    shown = node.plan(
        repositories=[node.source(machine="sbsa")],
        install=[{"name": "nvidia-imex", "version": "580.126.20", "arch": "arm64"}],
    )
    assert [(item["name"], item["arch"], item["to"]) for item in shown["plan"]["packages"]] == [
        ("nvidia-imex", "arm64", NEW)
    ]


@pytest.mark.soak
def test_downloaded_fetches_and_installs_nothing(make):
    node = make()
    before = node.state()
    got = node.plan(state="downloaded", install=wanted("580.126.20"))
    assert got["changed"]
    assert any(path.endswith(f"/nvidia-open_{NEW}_amd64.deb") for path in got["files"])
    assert node.state() == before
    again = node.plan(state="downloaded", install=wanted("580.126.20"))
    assert not again["changed"]
    assert again["plan"]["download_bytes"] == 0


@pytest.mark.soak
def test_a_pinning_package_and_preferences_are_heeded(make):
    node = make()
    pin = {
        "path": "/etc/apt/preferences.d/driver",
        "content": "Package: *nvidia* libcuda1\nPin: version 580.95.05-1\nPin-Priority: 1001\n",
    }
    done = node.plan(state="present", install=[{"name": "nvidia-open"}], preferences=[pin])
    assert moves(done)["nvidia-open"] == (None, "580.95.05-1")
    assert "580.95.05-1" in node.shell("cat /etc/apt/preferences.d/driver")
    assert not node.plan(state="present", install=[{"name": "nvidia-open"}], preferences=[pin])["changed"]


# ---- versions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"version": "580.126.21"}, "nvidia-open 580.126.21 is not offered; offered: 595.71.05-1, 580.126.20-1"),
        ({"version": "580"}, "nvidia-open 580 is offered more than once: 580.126.20-1, 580.95.05-1"),
        pytest.param({"version": "580.126.2"}, "is not offered", marks=pytest.mark.soak),
        pytest.param(
            {"name": "nvidia-opened", "version": "580"}, "offered: nothing of that name", marks=pytest.mark.soak
        ),
    ],
)
def test_a_version_that_is_not_one_candidate_is_refused(make, asked, says):
    node = make()
    before = node.state()
    assert says in node.plan(state="present", install=[{"name": "nvidia-open", **asked}])["refused"]
    assert node.state() == before


@pytest.mark.soak
def test_the_newest_of_a_branch(make):
    shown = make().plan(install=[{"name": "nvidia-open", "version": "580", "pick": "newest"}])
    assert moves(shown)["nvidia-open"] == (None, NEW)


# ---- refusals: the node is untouched -------------------------------------------------------------------------------


def tampered(node, how):
    """Break the node's mirror."""
    folder = "/srv/www/cuda/repos/debian12/x86_64"
    node.shell(
        {
            "half a package": f"truncate -s 9000 {folder}/nvidia-open_{NEW}_amd64.deb",
            "another package of the same size": f"cd {folder}; f=nvidia-open_{NEW}_amd64.deb;"
            " printf X | dd of=$f bs=1 seek=5000 conv=notrunc 2>/dev/null",
            "half an index": f"truncate -s 900 {folder}/Packages.gz; truncate -s 900 {folder}/Packages",
            "an index that was changed": f"cd {folder}; sed -i s/580.126.20/580.126.99/ InRelease Release",
        }[how]
    )


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("half a package", "the packages cannot be fetched"),
        ("another package of the same size", "the packages cannot be fetched"),
        ("half an index", "the mirror gave a file that is not the one it announces"),
        ("an index that was changed", "not signed by the given key"),
    ],
)
@pytest.mark.parametrize("kind", ["deb12", pytest.param("deb13", marks=pytest.mark.soak)])
def test_a_broken_mirror_is_refused(make, how, says, kind):
    node = make(kind)
    if how == "an index that was changed":
        node.shell(
            "sed -i 's/^Date:.*/Date: Tue, 01 Dec 2026 00:00:00 UTC/' /srv/www/cuda/repos/debian12/x86_64/InRelease /srv/www/cuda/repos/debian12/x86_64/Release"
        )
    else:
        tampered(node, how)
    before = node.state()
    answer = node.plan(state="present", install=wanted("580.126.20"))
    assert says in answer.get("refused", str(answer))
    assert node.state() == before


@pytest.mark.parametrize("kind", ["deb12", pytest.param("deb13", marks=pytest.mark.soak)])
def test_a_wrong_key_is_refused(make, kind):
    node = make(kind)
    before = node.state()
    answer = node.plan(repositories=[node.source(signer="other")], install=wanted("580.126.20"))
    assert "the repository is not signed by the given key" in answer["refused"]
    assert node.state() == before


@pytest.mark.parametrize("uri", ["http://127.0.0.1:8000/cuda/repos/debian12/aarch64/", "http://127.0.0.1:9/cuda/"])
def test_without_an_index_the_plan_says_what_is_certain(make, uri):
    node = make()
    given(node)
    before = node.state()
    request = {
        "install": wanted("580.126.20"),
        "remove": ["nvidia-fabricmanager-575"],
        "repositories": [node.source(uri=uri)],
    }
    shown = node.plan(**request)
    assert not shown["plan"]["certain"]
    assert "the index cannot be reached" in shown["plan"]["unknown"][0]
    assert moves(shown)["nvidia-fabricmanager-575"] == ("575.57.08-1", None)
    assert moves(shown)["nvidia-open"] == ("575.57.08-1", "580.126.20")
    assert shown["plan"]["repositories"][1]["action"] == "change"
    answer = node.plan(state="present", **request)
    assert "nothing was changed, because the plan is not certain" in answer["refused"]
    assert node.state() == before


def test_a_finished_node_needs_no_index(make):
    node = make()
    request = {"install": wanted("580.126.20"), "hold": HOLD}
    node.plan(state="present", **request)
    node.kill("http.server")
    again = node.plan(state="present", **request)
    assert not again["changed"]
    assert "the index cannot be reached" in again["plan"]["warnings"][0]


@pytest.mark.soak
def test_a_broken_repository_of_the_site_is_a_warning(make):
    node = make()
    node.write(
        "/etc/apt/sources.list.d/site.list",
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://127.0.0.2:9/site stable main\n",
    )
    shown = node.plan(install=wanted("580.126.20"))
    assert shown["plan"]["certain"]
    assert "127.0.0.2:9" in shown["plan"]["warnings"][0]


def test_the_same_name_from_a_foreign_repository_is_not_taken(make):
    """A newer fabric manager by the same name (peers trap 12): exact versions decide."""
    node = make()
    node.shell("cp -r /srv/stubs/www/cuda/repos/debian13 /srv/www/cuda/repos/")
    node.write("/usr/share/keyrings/site.asc", node.source()["key"])
    node.write(
        "/etc/apt/sources.list.d/site.list",
        "deb [signed-by=/usr/share/keyrings/site.asc] http://127.0.0.1:8000/cuda/repos/debian13/x86_64/ /\n",
    )
    node.shell("rm /srv/www/cuda/repos/debian12/x86_64/nvidia-fabricmanager_595*")
    request = {"install": wanted("580.126.20"), "hold": HOLD}
    assert moves(node.plan(state="present", **request))["nvidia-fabricmanager"] == (None, NEW)
    asked = [{"name": "nvidia-fabricmanager", "version": "595.71.05", "repository": "cuda"}]
    assert "nvidia-open" in node.installed()
    answer = node.plan(install=asked, repositories=[node.source(uri="http://127.0.0.1:8000/cuda/repos/debian12/sbsa/")])
    assert "is not offered by the repository cuda" in answer["refused"]


def test_a_hold_of_the_site_in_the_way_is_named_and_stays(make):
    node = make()
    given(node)
    node.shell("apt-mark hold libcuda1 >/dev/null")
    request = {"install": wanted("580.126.20"), "remove": ["nvidia-fabricmanager-575"], "hold": ["*nvidia*"]}
    before = node.state()
    answer = node.plan(**request)
    assert "would change libcuda1, which this site has on hold" in answer["refused"]
    assert node.state() == before


def test_another_repository_file_for_the_same_address_is_named(make):
    node = make()
    node.shell("cp /srv/stubs/vendor.asc /usr/share/keyrings/old.asc")
    old = "/etc/apt/sources.list.d/old.list"
    node.write(old, "deb [signed-by=/usr/share/keyrings/old.asc] http://127.0.0.1:8000/cuda/repos/debian12/x86_64/ /\n")
    assert (
        "two files name the same repository with different keys" in node.plan(install=wanted("580.126.20"))["refused"]
    )
    repositories = [node.source(), {"name": "old", "path": old, "state": "absent"}]
    done = node.plan(state="present", install=wanted("580.126.20"), repositories=repositories)
    assert done["changed"]
    assert node.shell(f"test -e {old} || echo gone").strip() == "gone"


def test_what_others_left_half_done_is_refused_and_repaired_on_request(make):
    node = make()
    node.shell("mkdir -p /run/stubs; touch /run/stubs/fail")
    node.shell(
        "cd /srv/www/cuda/repos/debian12/x86_64; dpkg -i nvidia-kernel-open-dkms_575.57.08-1_amd64.deb >/dev/null 2>&1 || true"
    )
    node.shell("rm /run/stubs/fail")
    before = node.state()
    request = {"state": "present", "install": wanted("580.126.20")}
    answer = node.plan(**request)
    assert (
        "left half done, and not by a run of this module: nvidia-kernel-open-dkms (half-configured)"
        in answer["refused"]
    )
    assert node.state() == before
    assert node.plan(repair=True, **request)["changed"]
    assert set(node.installed().values()) == {NEW}


def test_somebody_else_at_work_is_named(make):
    node = make()
    hold = "import fcntl, time; f = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(60)"
    node.shell(
        f'cp /usr/bin/python3 /tmp/unattended-upgr; /tmp/unattended-upgr -c "{hold}" >/dev/null 2>&1 & sleep 0.5'
    )
    answer = node.plan(state="present", install=wanted("580.126.20"), lock_timeout=1)
    assert "the package manager is in use by unattended-upgr (process " in answer["refused"]
    shown = node.plan(install=wanted("580.126.20"))
    assert not shown["plan"]["certain"]
    assert "unattended-upgr" in shown["plan"]["unknown"][0]
    node.kill("unattended-upgr")
    assert node.plan(state="present", install=wanted("580.126.20"))["changed"]


def test_a_plan_that_is_not_the_approved_one_is_refused(make):
    node = make()
    shown = node.plan(install=wanted("580.126.20"))
    node.shell("cd /srv/www/cuda/repos/debian12/x86_64; dpkg -i nvidia-fabricmanager_580.95.05-1_amd64.deb >/dev/null")
    answer = node.plan(state="present", install=wanted("580.126.20"), expect=shown["plan"]["digest"])
    assert "no longer the approved one" in answer["refused"]


# ---- holds ---------------------------------------------------------------------------------------------------------


def test_held_is_proven_by_a_full_upgrade_and_its_absence_is_found(make):
    node = make()
    node.plan(state="present", install=wanted("580.126.20"), hold=HOLD)
    proof = node.plan(state="held", hold=HOLD)["hold_proof"]
    assert proof["touched"] == []
    assert proof["newer"]["nvidia-fabricmanager"] == "595.71.05-1"
    node.shell("apt-mark unhold nvidia-fabricmanager >/dev/null")
    answer = node.plan(state="held", hold=HOLD)
    assert "a full upgrade would change nvidia-fabricmanager" in answer["failed"]


def test_a_failed_transaction_leaves_the_holds(make):
    node = make()
    node.plan(state="present", install=wanted("580.95.05"), hold=HOLD)
    held = node.holds()
    node.shell("mkdir -p /run/stubs; touch /run/stubs/fail")
    request = {"state": "present", "install": wanted("580.126.20"), "hold": HOLD}
    answer = node.plan(**request)
    assert "the package transaction ended with 100" in answer["failed"]
    assert any("nvidia-kernel-open-dkms" in line for line in answer["log"])
    assert node.holds() == held
    node.shell("rm /run/stubs/fail")
    assert node.plan(**request)["changed"]
    assert set(node.installed().values()) == {NEW}
    assert node.holds() == held


# ---- killed --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["started-module", "run.sh", "apt-get", "dpkg", "postinst", "sleep 60"], id="everything"),
        pytest.param(["apt-get", "dpkg", "postinst", "sleep 60"], id="apt"),
        pytest.param(["/usr/bin/dpkg", "postinst", "sleep 60"], id="dpkg", marks=pytest.mark.soak),
    ],
)
def test_the_same_command_finishes_after_a_kill(make, words):
    node = make()
    node.plan(state="present", install=wanted("580.95.05"), hold=HOLD)
    node.shell("mkdir -p /run/stubs; echo 60 > /run/stubs/slow")
    request = {"state": "present", "install": wanted("580.126.20"), "hold": HOLD}
    shown = node.plan(**{**request, "state": "planned"})
    process = node.start(**request)
    node.until("grep -q 'Setting up nvidia-kernel-open-dkms' /var/lib/gpufleet-kimi-k3/package-plan/current/log")
    node.kill(*words)
    process.wait(timeout=60)
    node.shell("rm /run/stubs/slow")
    assert node.shell("ls /var/lib/gpufleet-kimi-k3/package-plan/current/journal.json")
    assert node.shell("stat -c %a /var/lib/gpufleet-kimi-k3/package-plan").strip() == "700"
    done = node.plan(expect=shown["plan"]["digest"], **request)
    assert done.get("changed"), done
    assert set(node.installed().values()) == {NEW}
    assert node.holds() == sorted(node.installed())
    assert node.shell("dpkg --audit") == ""
    assert node.shell("ls /var/lib/gpufleet-kimi-k3/package-plan").split() == ["last.json", "last.log", "lock"]
    assert not node.plan(**request)["changed"]


def test_the_transaction_outlives_who_started_it(make):
    node = make(systemd=True)
    node.shell("mkdir -p /run/stubs; echo 4 > /run/stubs/slow")
    request = {"state": "present", "install": wanted("580.126.20"), "hold": HOLD}
    process = node.start(**request)
    node.until("grep -q 'Setting up nvidia-kernel-open-dkms' /var/lib/gpufleet-kimi-k3/package-plan/current/log")
    assert "gpufleet-package-plan-" in node.shell("systemctl list-units --no-legend 'gpufleet-package-plan-*'")
    node.kill("started-module")
    process.wait(timeout=60)
    done = node.plan(**request)
    assert done["resumed"].startswith("gpufleet-package-plan-")
    assert set(node.installed().values()) == {NEW}
    assert node.holds() == sorted(node.installed())


@pytest.mark.soak
def test_a_transaction_that_takes_long_is_left_to_its_end(make):
    node = make()
    node.shell("mkdir -p /run/stubs; echo 14 > /run/stubs/slow")
    request = {"state": "present", "install": wanted("580.126.20"), "transaction_timeout": 10}
    assert "still runs after 10 s and is left to its end" in node.plan(**request)["failed"]
    assert node.plan(**request)["resumed"]
    assert set(node.installed().values()) == {NEW}
