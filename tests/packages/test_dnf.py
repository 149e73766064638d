# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""package_plan with real dnf 4 and rpm, as an EL 9 node and an EL 10 node have them."""

from __future__ import annotations

import pytest

HOLD = ["*nvidia*"]
NEW = "3:580.126.20-1.el9"
OPEN = {"nvidia-driver": "580-open"}
LOCKS = "/etc/dnf/plugins/versionlock.list"


def wanted(version, *names):
    return [{"name": name, "version": version} for name in names or ("nvidia-open", "nvidia-fabricmanager")]


def moves(answer):
    return {item["name"]: (item["from"], item["to"]) for item in answer["plan"]["packages"] if item["action"] != "keep"}


def locked(node, dist="el9"):
    return sorted(f"{name}-{version}.*" for name, version in node.installed().items())


# ---- the plan is the run -------------------------------------------------------------------------------------------


def test_a_bare_node_is_not_changed_by_a_plan_and_is_what_the_plan_said_after_the_run(make):
    node = make("el9", "rhel9")
    before = node.state()
    request = {"install": wanted("580.126.20"), "module_streams": OPEN, "hold": HOLD}
    shown = node.plan(**request)
    assert node.state() == before
    assert shown["plan"]["certain"], shown["plan"]["unknown"]
    assert shown["plan"]["streams"] == [{"name": "nvidia-driver", "from": None, "to": "580-open", "action": "enable"}]
    assert {item["origin"] for item in shown["plan"]["packages"]} == {"cuda"}
    assert node.plan(state="present", check_mode=True, **request) == shown
    assert node.state() == before

    done = node.plan(state="present", expect=shown["plan"]["digest"], **request)
    assert moves(done) == moves(shown) == dict.fromkeys(node.installed(), (None, NEW))
    assert {"nvidia-open", "kmod-nvidia-open-dkms", "nvidia-fabricmanager"} <= set(node.installed())
    assert sorted(node.holds()) == locked(node)
    assert "stream=580-open" in node.shell("cat /etc/dnf/modules.d/nvidia-driver.module")
    assert done["hold_proof"]["touched"] == []

    state = node.state()
    again = node.plan(state="present", expect=shown["plan"]["digest"], **request)
    assert not again.get("changed", again)
    assert again["plan"]["streams"][0]["action"] == "keep"
    assert node.state() == state


def test_a_locked_older_branch_moves_on_with_its_stream_and_the_rename(make):
    """nvidia-fabric-manager became nvidia-fabricmanager at 580 (facts 1.39)."""
    node = make("el9", "rhel9")
    old = {"install": wanted("575.57.08", "nvidia-open", "nvidia-fabric-manager"), "hold": HOLD}
    assert node.plan(state="present", module_streams={"nvidia-driver": "575-open"}, **old)["changed"]
    node.shell(f"printf '%s\\n' '# by the site' 'kernel-0:5.14.0-570.el9.*' >> {LOCKS}")
    request = {
        "install": wanted("580.126.20"),
        "remove": ["nvidia-fabric-manager"],
        "module_streams": OPEN,
        "hold": HOLD,
    }
    shown = node.plan(**request)
    assert moves(shown)["nvidia-fabric-manager"] == ("3:575.57.08-1.el9", None)
    assert moves(shown)["nvidia-open"] == ("3:575.57.08-1.el9", NEW)
    assert shown["plan"]["streams"][0] == {
        "name": "nvidia-driver",
        "from": "575-open",
        "to": "580-open",
        "action": "switch",
    }
    assert shown["plan"]["holds"]["foreign"] == ["kernel-0:5.14.0-570.el9.*"]
    assert "nvidia-open-3:575.57.08-1.el9.*" in shown["plan"]["holds"]["release"]
    done = node.plan(state="present", expect=shown["plan"]["digest"], **request)
    assert moves(done) == moves(shown)
    assert set(node.installed().values()) == {NEW}
    assert sorted(node.holds()) == sorted([*locked(node), "kernel-0:5.14.0-570.el9.*"])
    assert "# by the site" in node.shell(f"cat {LOCKS}")
    assert not node.plan(state="present", **request)["changed"]


def test_el_10_has_no_streams_and_is_held_by_locks_alone(make):
    node = make("el9", "rhel10")
    request = {"install": wanted("580.126.20"), "hold": HOLD}
    done = node.plan(state="present", **request)
    assert moves(done)["nvidia-open"] == (None, "3:580.126.20-1.el10")
    assert done["hold_proof"]["newer"]["nvidia-open"] == "3:595.71.05-1.el10"
    assert done["hold_proof"]["touched"] == []
    node.shell(f": > {LOCKS}")
    answer = node.plan(state="held", hold=HOLD)
    assert "a full upgrade would change kmod-nvidia-open-dkms" in answer["failed"]


@pytest.mark.soak
def test_going_back_needs_leave(make):
    node = make("el9", "rhel10")
    node.plan(state="present", install=wanted("580.126.20"), hold=HOLD)
    # rpm's solver goes back only with what is named; the role names the whole set.
    names = sorted(node.installed())
    request = {"state": "present", "install": wanted("580.95.05", *names), "hold": HOLD}
    assert "allow_downgrade permits that" in node.plan(**request)["refused"]
    assert moves(node.plan(allow_downgrade=True, **request))["nvidia-open"] == (
        "3:580.126.20-1.el10",
        "3:580.95.05-1.el10",
    )
    assert set(node.installed().values()) == {"3:580.95.05-1.el10"}


@pytest.mark.soak
def test_downloaded_fetches_and_installs_nothing(make):
    node = make("el9", "rhel9")
    before = node.state()
    request = {"state": "downloaded", "install": wanted("580.126.20"), "module_streams": OPEN}
    got = node.plan(**request)
    assert any(path.endswith("/nvidia-open-580.126.20-1.el9.x86_64.rpm") for path in got["files"])
    assert node.state() == before
    assert not node.plan(**request)["changed"]


# ---- streams and versions ------------------------------------------------------------------------------------------


def test_a_stream_that_does_not_exist_is_refused_with_those_that_do(make):
    """The repository without a 580 stream (C10)."""
    node = make("el9", "rhel9-without-580")
    before = node.state()
    answer = node.plan(install=wanted("580.95.05"), module_streams=OPEN)
    assert (
        "the module nvidia-driver has no stream 580-open; it has 575-dkms, 575-open, latest-dkms, open-dkms"
        in answer["refused"]
    )
    assert node.state() == before
    streams = {"nvidia-driver": ["580-open", "open-dkms"]}
    shown = node.plan(install=wanted("580.95.05"), module_streams=streams)
    assert shown["plan"]["streams"][0]["to"] == "open-dkms"
    assert moves(shown)["nvidia-open"] == (None, "3:580.95.05-1.el9")


@pytest.mark.soak
def test_a_version_of_another_stream_is_told_as_such(make):
    node = make("el9", "rhel9")
    answer = node.plan(install=wanted("595.71.05"), module_streams=OPEN)
    assert "is in a module stream that is not enabled" in answer["refused"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"version": "580.126.21"}, "nvidia-open 580.126.21 is not offered; offered: 3:595.71.05-1.el9"),
        ({"version": "580"}, "offered more than once: 3:580.126.20-1.el9, 3:580.95.05-1.el9"),
        ({"name": "nvidia-opened"}, "offered: nothing of that name"),
    ],
)
@pytest.mark.soak
def test_a_version_that_is_not_one_candidate_is_refused(make, asked, says):
    answer = make("el9", "rhel9").plan(install=[{"name": "nvidia-open", **asked}], module_streams=OPEN)
    assert says in answer["refused"]


@pytest.mark.soak
def test_the_newest_of_a_branch(make):
    asked = [{"name": "nvidia-open", "version": "580", "pick": "newest", "repository": "cuda"}]
    assert moves(make("el9", "rhel9").plan(install=asked, module_streams=OPEN))["nvidia-open"] == (None, NEW)


# ---- refusals: the node is untouched -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("truncate -s 900 nvidia-open-580.126.20-1.el9.x86_64.rpm", "cannot be fetched, or are not what the index announces"),
        ("printf X | dd of=nvidia-open-580.126.20-1.el9.x86_64.rpm bs=1 seek=5000 conv=notrunc 2>/dev/null", "are not what the index"),
        ("truncate -s 200 repodata/*primary.xml.*", "the index of cuda cannot be reached"),
    ],
)  # fmt: skip
def test_a_broken_mirror_is_refused(make, how, says):
    node = make("el9", "rhel9")
    node.shell(f"cd /srv/www/cuda/repos/rhel9/x86_64; {how}")
    before = node.state()
    answer = node.plan(state="present", install=wanted("580.126.20"), module_streams=OPEN)
    assert says in answer["refused"]
    assert node.state() == before


def test_a_wrong_key_is_refused(make):
    node = make("el9", "rhel9")
    before = node.state()
    source = node.source(signer="other")
    answer = node.plan(state="present", repositories=[source], install=wanted("580.126.20"), module_streams=OPEN)
    assert "is not signed by the key of its repository" in answer["refused"]
    assert node.state() == before
    # Where the index is signed as well, the plan itself finds it.
    source["content"] += "repo_gpgcheck=1\n"
    shown = node.plan(repositories=[source], install=wanted("580.126.20"), module_streams=OPEN)
    assert "is not signed by the given key" in shown["refused"]
    assert node.state() == before
    good = node.source()
    good["content"] += "repo_gpgcheck=1\n"
    assert node.plan(repositories=[good], install=wanted("580.126.20"), module_streams=OPEN)["plan"]["certain"]


def test_an_unsigned_package_is_refused(make):
    node = make("el9", "rhel9")
    node.shell(
        "cd /srv/www/cuda/repos/rhel9/x86_64 && rpmsign --delsign nvlsm-*.rpm >/dev/null 2>&1"
        " && createrepo_c --quiet --no-database --update ."
    )
    before = node.state()
    answer = node.plan(state="present", install=[{"name": "nvlsm"}])
    assert "nvlsm-2025.10.14-1.el9.x86_64.rpm is not signed by the key of its repository" in answer["refused"]
    assert node.state() == before


def test_without_an_index_the_plan_says_what_is_certain(make):
    node = make("el9", "rhel10")
    done = {"install": wanted("580.95.05"), "hold": HOLD}
    node.plan(state="present", **done)
    node.kill("http.server")
    before = node.state()
    again = node.plan(state="present", **done)
    assert not again.get("changed", again)
    assert "the index of cuda cannot be reached" in again["plan"]["warnings"][0]
    request = {"install": wanted("580.126.20"), "hold": HOLD}
    shown = node.plan(**request)
    assert not shown["plan"]["certain"]
    assert moves(shown)["nvidia-open"] == ("3:580.95.05-1.el10", "580.126.20")
    assert "nothing was changed, because the plan is not certain" in node.plan(state="present", **request)["refused"]
    assert node.state() == before


def test_a_lock_of_the_site_in_the_way_is_named_and_stays(make):
    node = make("el9", "rhel10")
    node.write(LOCKS, "nvidia-op*-3:580.95.05-1.el10.*\n")
    before = node.state()
    answer = node.plan(state="present", install=wanted("580.126.20"), hold=HOLD)
    assert (
        "kept away by a version lock of this site, which hold does not name: nvidia-op*-3:580.95.05-1.el10.*"
        in answer["refused"]
    )
    assert node.state() == before


@pytest.mark.soak
def test_a_lock_that_nothing_heeds_is_refused(make):
    node = make("el9", "rhel10")
    node.shell("find / -xdev -name 'versionlock.py' -path '*dnf-plugins*' -delete")
    answer = node.plan(install=wanted("580.126.20"), hold=HOLD)
    assert "dnf's versionlock plugin is not on the node" in answer["refused"]


@pytest.mark.soak
def test_the_proprietary_flavour_makes_room_for_the_open_one(make):
    node = make("el9", "rhel9")
    proprietary = {
        "install": wanted("580.126.20", "kmod-nvidia-latest-dkms"),
        "module_streams": {"nvidia-driver": "580-dkms"},
    }
    assert node.plan(state="present", **proprietary)["changed"]
    request = {"install": wanted("580.126.20"), "module_streams": OPEN}
    assert "would remove kmod-nvidia-latest-dkms, which nobody asked for" in node.plan(**request)["refused"]
    done = node.plan(state="present", remove=["kmod-nvidia-latest-dkms"], **request)
    assert done.get("changed"), done
    assert "kmod-nvidia-latest-dkms" not in node.installed()


def test_somebody_else_at_work_is_named(make):
    node = make("el9", "rhel9")
    hold = "import fcntl, time; f = open('/var/lib/rpm/.rpm.lock', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(60)"
    node.shell(f'cp /usr/bin/python3 /tmp/dnf-automatic; /tmp/dnf-automatic -c "{hold}" >/dev/null 2>&1 & sleep 0.5')
    answer = node.plan(state="present", install=wanted("580.126.20"), module_streams=OPEN, lock_timeout=1)
    assert "the package manager is in use by dnf-automatic (process " in answer["refused"]


# ---- failed and killed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["started-module", "run.sh", "child.py"], id="everything"),
        pytest.param(["child.py"], id="dnf", marks=pytest.mark.soak),
    ],
)
def test_the_same_command_finishes_after_a_kill(make, words):
    node = make("el9", "rhel10")
    node.plan(state="present", install=wanted("580.95.05"), hold=HOLD)
    node.shell("mkdir -p /run/stubs; echo 60 > /run/stubs/slow")
    request = {"state": "present", "install": wanted("580.126.20"), "hold": HOLD}
    process = node.start(**request)
    node.until("rpm -q kmod-nvidia-open-dkms | grep -q 580.126")
    node.kill(*words)
    process.wait(timeout=60)
    node.shell("rm /run/stubs/slow")
    assert len(node.shell("rpm -q kmod-nvidia-open-dkms").split()) == 2
    done = node.plan(**request)
    assert done.get("changed"), done
    assert set(node.installed().values()) == {"3:580.126.20-1.el10"}
    assert len(node.shell("rpm -q kmod-nvidia-open-dkms").split()) == 1
    assert sorted(node.holds()) == locked(node)
    assert not node.plan(**request)["changed"]


@pytest.mark.soak
def test_two_versions_that_others_left_are_refused_and_repaired_on_request(make):
    node = make("el9", "rhel10")
    node.plan(state="present", install=wanted("580.95.05", "libnvidia-ml"))
    node.shell(
        "rpm -i --nodeps --nosignature --force /srv/www/cuda/repos/rhel10/x86_64/libnvidia-ml-580.126.20-1.el10.x86_64.rpm"
    )
    request = {"state": "present", "install": wanted("580.126.20")}
    assert "not by a run of this module: libnvidia-ml (two versions installed)" in node.plan(**request)["refused"]
    done = node.plan(repair=True, **request)
    assert done.get("changed"), done
    assert set(node.installed().values()) == {"3:580.126.20-1.el10"}


def test_the_transaction_outlives_who_started_it(make):
    node = make("el9", "rhel10", systemd=True)
    node.shell("mkdir -p /run/stubs; echo 4 > /run/stubs/slow")
    request = {"state": "present", "install": wanted("580.126.20"), "hold": HOLD}
    process = node.start(**request)
    node.until("rpm -q kmod-nvidia-open-dkms")
    node.kill("started-module")
    process.wait(timeout=60)
    done = node.plan(**request)
    assert done["resumed"].startswith("gpufleet-package-plan-"), done
    assert set(node.installed().values()) == {"3:580.126.20-1.el10"}
    assert sorted(node.holds()) == locked(node)
