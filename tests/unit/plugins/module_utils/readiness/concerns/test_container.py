# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.concerns import container as concern
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import healthy
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.parts import container
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import KINDS, VERSIONS, Profile, Reply

B200 = healthy("b200")
VERSION = VERSIONS["b200"]
NAMES = ("engine", "gpu_runtime", "cdi", "memlock")
DEAD = Reply(json.dumps({"ServerVersion": "", "Runtimes": None}), "Cannot connect to the Docker daemon", 1)
DENIED = Reply("{}", "permission denied while trying to connect to the Docker daemon socket", 1)
OLD = "580.95.05"
NO_DOCKER = B200.without_command("docker").plus(Profile(units={"docker.service": {"LoadState": "not-found"}}))
PODMAN = NO_DOCKER.plus(Profile(commands={("podman", "--version"): Reply("podman version 5.4.0\n")}))
CTR = "Client:\n  Version:  v2.1.4\n\nServer:\n  Version:  v2.1.4\n  Revision: 0\n"
CONTAINERD = NO_DOCKER.plus(Profile(commands={("ctr", "version"): Reply(CTR)}))


def told(**changes):
    """The healthy node with other words of docker."""
    return B200.plus(Profile(commands={container.DOCKER: container.docker_info(**changes)}))


def docker(reply):
    return B200.plus(Profile(commands={container.DOCKER: reply}))


def config(**changes):
    return Profile(files={container.DAEMON_JSON: json.dumps({**container.CONFIG, **changes})})


def spec(text, path=container.SPEC):
    return Profile(files={path: text})


def status(checks, name):
    return checks[f"container.{name}"]["status"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_engine_passes_every_check(ask, kind):
    checks = ask(healthy(kind))
    assert {status(checks, name) for name in NAMES} == {"pass"}


# ---- engine --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "answer"),
    [
        (docker(DEAD), "fail"),
        (docker(Reply(hang=True)), "unknown"),
        (docker(Reply("not json", "boom", 1)), "unknown"),
        (docker(Reply("[]")), "unknown"),
        (docker(Reply("[" * 100000)), "unknown"),
        (told(ServerVersion=29), "unknown"),
        (told(ServerErrors=["Cannot connect to the Docker daemon"], ServerVersion=""), "fail"),
        (B200.plus(Profile(units={"docker.service": {"ActiveState": "failed"}})), "fail"),
        (B200.plus(Profile(units={"docker.service": {"UnitFileState": "disabled"}})), "warn"),
        (NO_DOCKER, "fail"),
        (PODMAN, "pass"),
        (CONTAINERD, "pass"),
    ],
)
def test_the_engine(ask, profile, answer):
    assert status(ask(profile), "engine") == answer


def test_a_stopped_docker_is_not_asked_and_so_not_started(make_node, ask):
    profile = B200.plus(Profile(units={"docker.service": {"ActiveState": "inactive"}}))
    node = make_node(profile)
    assert concern.collect(node)["engine"]["state"] == "stopped"
    assert container.DOCKER not in node.asked


NO_UNIT = Profile(units={"docker.service": {"LoadState": "not-found", "ActiveState": "inactive"}})


@pytest.mark.parametrize(
    ("listening", "state"),
    [
        (Profile(), "stopped"),
        (Profile(files={"/var/run/docker.sock": ""}), "answering"),
        (Profile(files={"/run/user/1000/docker.sock": ""}), "answering"),
        (Profile(folders={"/run/user/1000"}), "stopped"),
    ],
)
def test_docker_is_asked_where_a_socket_could_answer(make_node, listening, state):
    node = make_node(B200.plus(NO_UNIT).plus(listening))
    assert concern.collect(node)["engine"]["state"] == state
    assert (container.DOCKER in node.asked) is (state == "answering")


@pytest.mark.parametrize(("root", "reason"), [(False, "needs root"), (True, "permission denied")])
def test_a_user_who_may_not_ask_docker_is_told_so(ask, root, reason):
    check = ask(docker(DENIED), machine_is_root=root)["container.engine"]
    assert check["status"] == "unknown"
    assert reason in check["reason"]


def test_the_contract_chooses_the_engine(ask):
    both = B200.plus(Profile(commands={("podman", "--version"): Reply("podman version 5.4.0\n")}))
    assert ask(both)["container.engine"]["observed"]["name"] == "docker"
    assert ask(both, {"container_engine": "podman"})["container.engine"]["observed"]["name"] == "podman"
    assert status(ask(both, {"container_engine": "containerd"}), "engine") == "fail"


def test_podman_under_dockers_name_is_podman(ask):
    shim = docker(Reply(json.dumps({"host": {}, "store": {}, "version": {}})))
    shim = shim.plus(Profile(commands={("podman", "--version"): Reply("podman version 5.4.0\n")}))
    assert ask(shim)["container.engine"]["observed"]["name"] == "podman"


@pytest.mark.parametrize(
    ("host", "answer"),
    [("elsewhere", "fail"), ("node1", "warn")],
)
def test_c39_a_client_that_points_at_another_daemon(ask, host, answer):
    profile = told(ClientInfo={"Context": "prod"}, Name=host)
    profile = profile.plus(Profile(files={"/proc/sys/kernel/hostname": "node1\n"}))
    check = ask(profile)["container.engine"]
    assert check["status"] == answer
    assert "prod" in check["reason"]


def test_c39_docker_host_for_everybody_warns(ask):
    profile = B200.plus(Profile(files={"/etc/environment": "PATH=/bin\nDOCKER_HOST=tcp://10.0.0.9:2375\n"}))
    check = ask(profile)["container.engine"]
    assert check["status"] == "warn"
    assert "10.0.0.9" in check["reason"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"live-restore": True}, "live-restore"),
        ({"default-runtime": "nvidia"}, "default-runtime"),
        ({"exec-opts": ["native.cgroupdriver=cgroupfs"]}, "exec-opts"),
        ({"runtimes": {"nvidia": {}, "kata": {}}}, "runtimes"),
    ],
)
def test_a_restart_that_is_due_is_seen_in_the_running_state(ask, changes, key):
    check = ask(B200.plus(config(**changes)))["container.engine"]
    assert check["status"] == "warn"
    assert key in check["reason"]
    assert check["remedy"]["disruptive"] == "restart"


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "\0\0", b"\xff\xfe"])
def test_a_broken_daemon_json_warns_of_the_next_start(ask, text):
    check = ask(B200.plus(Profile(files={container.DAEMON_JSON: text})))["container.engine"]
    assert check["status"] == "warn"
    assert "next start" in check["reason"]


def test_a_foreign_engine_gets_no_cure_of_ours(ask):
    mark = Profile(files={"/usr/local/nvidia/toolkit/nvidia-container-runtime": ""})
    check = ask(docker(DEAD).plus(mark))["container.engine"]
    assert check["remedy"]["command"] is None
    assert "toolkit container" in check["remedy"]["action"]


# ---- gpu_runtime ---------------------------------------------------------------------------------------------------

RUNC = {"runc": {"path": "runc"}}


@pytest.mark.parametrize(
    ("profile", "answer"),
    [
        (B200.without_command("nvidia-ctk"), "fail"),
        (B200.plus(Profile(commands={container.TOOLKIT: Reply(rc=1, stderr="boom")})), "unknown"),
        (B200.plus(Profile(commands={container.TOOLKIT: Reply("garbage")})), "unknown"),
        (told(Runtimes=RUNC), "pass"),  # CDI is on and has its specification
        (told(Runtimes=RUNC).without("/var/run/cdi"), "fail"),
        (told(Runtimes=RUNC, CDISpecDirs=[]), "fail"),
        (told(CDISpecDirs=None).without("/var/run/cdi"), "pass"),
        (told(Runtimes=None), "unknown"),
        (told(Runtimes=["nvidia"]), "unknown"),
        (docker(DEAD), "unknown"),
        (PODMAN, "pass"),
        (PODMAN.without("/var/run/cdi"), "fail"),
        (CONTAINERD.without("/var/run/cdi"), "pass"),
    ],
)
def test_c39_the_engine_knows_the_gpus(ask, profile, answer):
    assert status(ask(profile), "gpu_runtime") == answer


def test_c39_configured_but_not_restarted_is_told_from_not_configured(ask):
    unknown_to_docker = told(Runtimes=RUNC, CDISpecDirs=[])
    restart = ask(unknown_to_docker)["container.gpu_runtime"]
    configure = ask(unknown_to_docker.plus(config(runtimes={})))["container.gpu_runtime"]
    assert "restart is due" in restart["reason"]
    assert restart["remedy"]["command"] is None
    assert configure["remedy"]["command"].startswith("nvidia-ctk runtime configure")
    assert "driver" not in restart["reason"] + configure["reason"]


def test_a_runtime_that_is_registered_and_gone_fails(ask):
    gone = told(Runtimes={"nvidia": {"path": "/usr/local/nvidia/toolkit/nvidia-container-runtime"}})
    check = ask(gone)["container.gpu_runtime"]
    assert check["status"] == "fail"
    assert "does not exist" in check["reason"]


def test_toolkit_packages_of_two_versions_warn(ask):
    mixed = Profile(packages={"nvidia-container-toolkit": "1.20.0-1", "libnvidia-container1": "1.17.8-1"})
    check = ask(B200.plus(mixed))["container.gpu_runtime"]
    assert check["status"] == "warn"
    assert "1.17.8" in check["reason"]


# ---- cdi -----------------------------------------------------------------------------------------------------------

CURRENT, STALE = container.specification(VERSION, 8), container.specification(OLD, 8)
JSON_SPEC = json.dumps(
    {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": str(number)} for number in range(8)],
        "containerEdits": {"mounts": [{"hostPath": f"/usr/lib64/libcuda.so.{OLD}"}]},
    }
)


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        (spec(STALE), "fail"),
        (spec(JSON_SPEC, "/var/run/cdi/nvidia.json"), "fail"),
        (spec(JSON_SPEC.replace(OLD, VERSION), "/etc/cdi/nvidia.json"), "warn"),
        (spec(STALE, "/etc/cdi/nvidia.yaml"), "fail"),
        (spec(CURRENT, "/etc/cdi/nvidia.yaml"), "warn"),
        (spec(CURRENT, "/var/run/cdi/other.yaml"), "fail"),
        (spec(CURRENT.replace("kind: nvidia.com/gpu", "kind: nvidia.com/gds"), "/etc/cdi/gds.yaml"), "pass"),
        (spec(STALE, "/etc/cdi/nvidia.yaml.bak"), "pass"),
        (spec(container.specification(VERSION, 7)), "warn"),
        (spec("kind: nvidia.com/gpu\n"), "unknown"),
        (spec(b"\0\xff\0"), "unknown"),
        (spec(""), "unknown"),
        (spec(CURRENT + f"  - hostPath: /usr/lib/libnvidia-ml.so.{OLD}\n"), "fail"),
    ],
)
def test_c41_the_specification_is_of_the_loaded_driver(ask, more, answer):
    assert status(ask(B200.plus(more)), "cdi") == answer


def test_c41_names_both_versions_and_the_file(ask):
    check = ask(B200.plus(spec(STALE)))["container.cdi"]
    assert all(word in check["reason"] for word in (OLD, VERSION, container.SPEC))
    assert check["remedy"]["command"] == f"nvidia-ctk cdi generate --output={container.SPEC}"


def test_c41_a_stale_double_is_removed_and_not_written_anew(ask):
    check = ask(B200.plus(spec(STALE, "/etc/cdi/nvidia.yaml")))["container.cdi"]
    assert check["remedy"]["command"] is None
    assert "Remove /etc/cdi/nvidia.yaml" in check["remedy"]["action"]


def test_c41_without_a_loaded_driver_nothing_is_called_current(ask):
    assert status(ask(B200.without("/sys/module/nvidia", "/proc/driver/nvidia")), "cdi") == "unknown"


@pytest.mark.parametrize(
    ("profile", "answer"),
    [(B200, "not_applicable"), (PODMAN, "fail"), (CONTAINERD, "not_applicable"), (docker(DEAD), "unknown")],
)
def test_without_a_specification_the_engine_decides(ask, profile, answer):
    assert status(ask(profile.without("/var/run/cdi")), "cdi") == answer


@pytest.mark.parametrize(
    ("version", "answer"), [("25.0.5", "fail"), ("26.1.0", "pass"), ("26.1.0-rc1", "pass"), ("29.1.2", "pass")]
)
def test_a_docker_that_cannot_read_the_format_fails(ask, version, answer):
    profile = told(ServerVersion=version, Runtimes=RUNC).plus(spec(container.specification(VERSION, 8, "0.7.0")))
    assert status(ask(profile), "cdi") == answer


# ---- memlock -------------------------------------------------------------------------------------------------------

NO_DEFAULT = B200.plus(config(**{"default-ulimits": {}}))
LIMITS = "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         {0}  {0}  bytes\n"


def limit(unit, pid, value, declared="infinity"):
    return Profile(
        files={f"/proc/{pid}/limits": LIMITS.format(value)},
        units={unit: {"MainPID": str(pid), "LimitMEMLOCK": declared}},
    )


@pytest.mark.parametrize(
    ("profile", "least", "answer"),
    [
        (NO_DEFAULT.plus(limit("containerd.service", 700, "unlimited")), -1, "pass"),
        (NO_DEFAULT.plus(limit("containerd.service", 700, "8388608")), -1, "warn"),
        (NO_DEFAULT.plus(limit("containerd.service", 700, "8388608")), 8192, "pass"),
        (NO_DEFAULT.plus(limit("containerd.service", 700, "8388607")), 8192, "warn"),
        (NO_DEFAULT.plus(limit("containerd.service", 700, "lots")), -1, "unknown"),
        (B200.plus(limit("containerd.service", 700, "8388608")), -1, "pass"),  # docker's own default overrides
        (B200.plus(config(**{"default-ulimits": {"memlock": {"Soft": 65536, "Hard": -1}}})), -1, "warn"),
        (B200.plus(config(**{"default-ulimits": {"memlock": {"Soft": "x"}}})), -1, "unknown"),
    ],
)
def test_c28_the_limit_is_that_of_the_containers_parent(ask, profile, least, answer):
    assert status(ask(profile, {"memlock_min_kib": least}), "memlock") == answer


def test_c28_the_running_daemon_outweighs_its_unit_file(ask):
    check = ask(NO_DEFAULT.plus(limit("containerd.service", 700, "8388608", declared="infinity")))["container.memlock"]
    assert check["status"] == "warn"
    assert "8192 KiB" in check["reason"]


def test_c28_the_command_line_of_the_running_docker_counts(ask):
    line = "/usr/bin/dockerd\0-H\0fd://\0--default-ulimit\0memlock=-1:-1\0"
    profile = NO_DEFAULT.plus(limit("containerd.service", 700, "8388608"))
    profile = profile.plus(Profile(files={"/proc/701/cmdline": line}, units={"docker.service": {"MainPID": "701"}}))
    assert status(ask(profile), "memlock") == "pass"


def test_c28_a_docker_without_root_cannot_raise_the_limit(ask):
    low = config(**{"default-ulimits": {"memlock": {"Soft": 65536, "Hard": 65536}}})
    assert status(ask(told(SecurityOptions=["name=rootless"]).plus(low)), "memlock") == "fail"


def test_the_limit_of_podman_is_its_configured_default(ask):
    conf = '[containers]\ndefault_ulimits = [\n  "nofile=65535:65535",\n  "memlock=-1:-1",\n]\n'
    assert status(ask(PODMAN.plus(Profile(files={"/etc/containers/containers.conf": conf}))), "memlock") == "pass"
    assert status(ask(PODMAN), "memlock") == "unknown"


# ---- machines ------------------------------------------------------------------------------------------------------


def test_without_gpus_nothing_is_asked_of_the_engine(ask):
    bare = docker(DEAD).without("/sys/bus/pci/devices").plus(Profile(folders={"/sys/bus/pci/devices"}))
    assert {status(ask(bare), name) for name in NAMES} == {"not_applicable"}


@pytest.mark.parametrize("value", [None, 7, "", [], {}, "\x1b[31m", [[]], {"a": None}])
@pytest.mark.parametrize("key", sorted(container.INFO))
def test_hostile_words_of_docker_never_break_the_judgement(ask, key, value):
    checks = ask(told(**{key: value}))
    assert not [name for name in NAMES if "failed:" in checks[f"container.{name}"]["reason"]]
