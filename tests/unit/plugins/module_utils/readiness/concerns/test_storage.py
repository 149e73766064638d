# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import storage as concern
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import filesystems
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import container, storage
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, Profile, Reply

B200 = healthy("b200")
FIND = tuple(filesystems.find_argv("/data/weights"))
GIB, GB = storage.GIB, storage.GB


def df(argv, reply):
    return B200.plus(Profile(commands={argv: reply}))


def images(free, total=1000000, left=900000):
    return df(storage.IMAGES, storage.rows(("/var/lib/docker", free, total, left, "/"), ("/", 1 << 50, 0, 0, "/big")))


def weights(free, *found, index=0, mount="/data", rc=0):
    """Room at the weights' path, and the checkpoint files (inode, blocks, size) that are there."""
    lines = "".join(
        f"1:{inode} {blocks} {size} /data/weights/model-{inode}.safetensors\n" for inode, blocks, size in found
    )
    commands = {storage.WEIGHTS: storage.rows(("/data/weights", free, 0, 0, mount)), FIND: Reply(lines, rc=rc)}
    if index:
        path = f"/data/weights/{filesystems.INDEX}"
        commands[FIND] = Reply(lines + f"1:9 8 4000 {path}\n")
        text = json.dumps({"metadata": {"total_size": index}, "weight_map": {}})
        commands[("head", "-c", "4096", "--", path)] = Reply(text)
    return B200.plus(Profile(commands=commands))


@pytest.mark.parametrize("kind", KINDS)
def test_healthy_storage_passes(ask, kind):
    checks = ask(healthy(kind))
    assert {checks[name]["status"] for name in ("storage.image_room", "storage.weights_room")} == {"pass"}


# ---- image_room ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        (images(40 * GIB), "pass"),
        (images(40 * GIB - 1), "fail"),
        (images(900 * GIB, 1000000, 0), "fail"),
        (images(900 * GIB, 1000000, 199999), "warn"),
        (images(900 * GIB, 0, 0), "pass"),
        (df(storage.IMAGES, Reply(hang=True)), "unknown"),
        (df(storage.IMAGES, Reply("", "df: /var/lib/docker: Stale file handle\n", 1)), "unknown"),
        (df(storage.IMAGES, Reply("garbage\n")), "unknown"),
        (df(storage.IMAGES, Reply("/var/lib/docker ext4 - - - /\n")), "unknown"),
        (B200.without_command("df"), "unknown"),
    ],
)
def test_c44_room_and_inodes(ask, profile, status):
    assert ask(profile)["storage.image_room"]["status"] == status


def test_c44_names_the_data_root_and_not_the_larger_filesystem(ask):
    check = ask(images(20 * GIB))["storage.image_room"]
    assert "/var/lib/docker" in check["reason"]
    assert "20 GiB" in check["reason"]


def test_c44_out_of_inodes_is_said_although_blocks_are_free(ask):
    check = ask(images(900 * GIB, 1000000, 0))["storage.image_room"]
    assert "inodes" in check["reason"]


def test_c44_nothing_is_pruned(ask):
    remedy = ask(images(GIB))["storage.image_room"]["remedy"]
    assert remedy["command"] is None
    assert "prune" not in remedy["action"]


def test_a_store_that_does_not_exist_yet_is_measured_at_its_parent(ask):
    reply = storage.rows(
        ("/var", 10 * GIB, 100, 90, "/var"), ("/", 900 * GIB, 0, 0, "/"), missing=("/var/lib/docker", "/var/lib")
    )
    check = ask(df(storage.IMAGES, reply))["storage.image_room"]
    assert check["status"] == "fail"
    assert "/var" in check["reason"]


def test_a_path_only_root_may_look_at_needs_root(ask):
    profile = df(storage.IMAGES, Reply("", "df: /var/lib/docker: Permission denied\n", 1))
    check = ask(profile, machine_is_root=False)["storage.image_room"]
    assert (check["status"], check["reason"]) == ("unknown", "needs root")


def rooted(**info):
    return B200.plus(Profile(commands={container.DOCKER: container.docker_info(**info)}))


def measured(*stores, free=900 * GIB):
    """df's answers for folders below /, as the collector asks for them."""
    commands = {}
    for store in stores:
        parts = store.strip("/").split("/")
        paths = ["/" + "/".join(parts[:count]) for count in range(len(parts), 0, -1)] + ["/"]
        commands[(*storage.DF, *paths)] = storage.rows((store, free, 0, 0, store))
    return Profile(commands=commands)


SNAPSHOTTER = [["driver-type", "io.containerd.snapshotter.v1"]]


@pytest.mark.parametrize(
    ("info", "stores"),
    [
        ({"DockerRootDir": "/mnt/docker"}, ["/mnt/docker"]),
        ({"DriverStatus": SNAPSHOTTER}, ["/var/lib/docker", "/var/lib/containerd"]),
        (
            {"DriverStatus": SNAPSHOTTER, "Containerd": {"Address": "/run/docker/containerd/containerd.sock"}},
            ["/var/lib/docker", "/var/lib/docker/containerd"],
        ),
    ],
)
def test_the_engine_tells_where_images_go(ask, info, stores):
    profile = rooted(**info)
    assert ask(profile.plus(measured(*stores)), {"image_store_path": ""})["storage.image_room"]["status"] == "pass"
    last = profile.plus(measured(*stores)).plus(measured(stores[-1], free=GIB))
    check = ask(last, {"image_store_path": ""})["storage.image_room"]
    assert check["status"] == "fail"
    assert stores[-1] in check["reason"]


def test_without_an_engine_nobody_knows_where_images_go(ask):
    check = ask(B200.without_command("docker"), {"image_store_path": ""})["storage.image_room"]
    assert check["status"] == "unknown"


# ---- weights_room --------------------------------------------------------------------------------------------------

HALF = (1, 1000 * GB // 512, 1000 * GB)


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        (weights(1800 * GB), "pass"),
        (weights(1800 * GB - 1), "fail"),
        (weights(800 * GB, HALF), "pass"),
        (weights(800 * GB - 1, HALF), "fail"),
        (weights(800 * GB, HALF, HALF), "pass"),  # two links to one file
        (weights(700 * GB, HALF, HALF), "fail"),
        (weights(800 * GB, (1, 1, 1000 * GB)), "fail"),  # only made long
        (weights(800 * GB, (1, 0, 1000 * GB)), "pass"),  # a filesystem that reports no blocks
        (weights(10 * GB, HALF, index=999 * GB), "pass"),  # complete: it needs no more room
        (weights(10 * GB, HALF, index=1001 * GB), "fail"),
        (df(storage.WEIGHTS, Reply(hang=True)), "unknown"),
        (weights(10 * GB).plus(Profile(commands={FIND: Reply(hang=True)})), "unknown"),
        (weights(10 * GB).plus(Profile(commands={FIND: Reply("", "find: Permission denied", 1)})), "unknown"),
    ],
)
def test_weights_that_are_there_count(ask, profile, status):
    assert ask(profile)["storage.weights_room"]["status"] == status


def test_files_are_not_looked_for_where_room_suffices(make_node):
    node = make_node(B200)
    node.require = contract.resolve({"weights_path": "/data/weights"})
    concern.collect(node)
    assert not [argv for argv in node.asked if argv[0] == "find"]


def test_an_undecided_path_warns_and_is_not_measured(ask):
    check = ask(B200, {"weights_path": ""})["storage.weights_room"]
    assert check["status"] == "warn"
    assert "weights_path" in check["reason"]


def test_image_and_weights_on_one_filesystem_need_room_for_both(ask):
    profile = weights(1810 * GB, mount="/")
    check = ask(profile)["storage.weights_room"]
    assert check["status"] == "warn"
    assert "together" in check["reason"]
    assert ask(weights(1900 * GB, mount="/"))["storage.weights_room"]["status"] == "pass"


def test_a_path_that_nobody_measured_is_unknown(make_node):
    node = make_node(B200)
    facts = {"storage": concern.collect(node)}
    checks = concern.assess(facts, contract.resolve({"weights_path": "/x", "image_store_path": "/y"}))
    assert {check.status for check in checks} == {"unknown"}


@pytest.mark.parametrize("text", ["\0" * 99, "1:1 1 1", "1:x 1 1 /a.safetensors\n", "9" * 70000])
def test_hostile_listings_count_nothing(ask, text):
    profile = weights(10 * GB).plus(Profile(commands={FIND: Reply(text)}))
    assert ask(profile)["storage.weights_room"]["status"] == "fail"
