# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The script's answer: read whole, cut off anywhere, or not the script's at all."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import infiniband, nvidia_smi, pci
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.topology import VARIABLES, observed
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery import frames, reading
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.errors import HostError
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.script import script
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.session import Said
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.discovery.snapshot import NOT_ASKED, SnapshotNode

NONCE = "0123456789abcdef"


def framed(*records):
    """An answer: kind, state, key, text of each record."""
    lines = [f"{NONCE} {kind} {state} {len(text.encode())} {key}\n{text}\n" for kind, state, key, text in records]
    return ("\n" + "".join(lines)).encode()


HELLO, FILES, END = ("hello", "limited", "", ""), ("files", "done", "", ""), ("end", "done", "", "")
GPU = "/sys/bus/pci/devices/0000:01:00.0"
WHOLE = framed(
    HELLO,
    ("file", "read", "/proc/sys/kernel/arch", "aarch64"),
    ("file", "read", "/sys/module/nvidia/version", "580.173.02"),
    ("folder", "read", "/sys/bus/pci/devices", "0000:01:00.0\n"),
    ("file", "read", f"{GPU}/vendor", "0x10de"),
    ("file", "read", f"{GPU}/device", "0x2941"),
    ("file", "read", f"{GPU}/class", "0x030200"),
    ("link", "absent", f"{GPU}/driver", ""),
    ("folder", "absent", "/sys/class/infiniband", ""),
    ("links", "read", "", ""),
    FILES,
    ("run", "0", "id -u", "1000"),
    ("run", "missing", "nvidia-smi -q -x", ""),
    END,
)


def told(output, ended="", errors=b""):
    return observed(reading.facts(reading.snapshot(Said(output, errors, 0, ended), NONCE, 20)))


def node(*records, complaints=(), ended=""):
    return SnapshotNode(frames.records(framed(HELLO, *records, END), NONCE), complaints, 20, ended)


@pytest.fixture(scope="module")
def real():
    """What the script answers about this machine."""
    done = subprocess.run(["/bin/sh", "-s"], input=script(NONCE, 20), capture_output=True, check=True)
    return Said(done.stdout, done.stderr, 0)


def test_this_machine_shows_the_script_what_it_shows_the_probe(real):
    seen, here = reading.snapshot(real, NONCE, 20), Node()
    found, expected = pci.devices(seen), pci.devices(here)
    if isinstance(expected, Unknown):
        assert isinstance(found, Unknown)
    else:
        assert found == expected
    assert seen.machine() == here.machine()
    assert seen.is_root() == here.is_root()
    assert isinstance(infiniband.devices(seen), Unknown) == isinstance(infiniband.devices(here), Unknown)
    assert isinstance(nvidia_smi.query(seen), Unknown) == isinstance(nvidia_smi.query(here), Unknown)


def test_the_script_complains_of_nothing_and_every_part_of_its_answer_is_whole(real):
    assert real.errors.replace(NONCE.encode(), b"").strip() == b""
    kinds = [record.kind for record in frames.records(real.output, NONCE)]
    assert kinds[0] == "hello"
    assert kinds[-1] == "end"
    assert kinds.count("files") == 1


def test_a_whole_answer_is_read():
    answer = told(b"Welcome!\nLast login: yesterday" + WHOLE + b"goodbye\n")
    assert answer["gpu_model"] == "gb200"
    assert answer["driver_version"] == "580.173.02"
    assert answer["unknown"]["k3_nvlink_domain"] == "nvidia-smi is not installed"


def test_an_answer_cut_anywhere_is_refused_and_tells_no_other_value():
    whole = told(WHOLE)
    for length in range(len(WHOLE)):
        with pytest.raises(HostError):
            reading.snapshot(Said(WHOLE[:length], b"", None), NONCE, 20)
        try:
            answer = told(WHOLE[:length], "the session's 60 s were over")
        except HostError:
            continue
        assert {name: whole[name] for name in VARIABLES if name in answer} == {
            name: answer[name] for name in VARIABLES if name in answer
        }
        assert "k3_nvlink_domain" not in answer


def test_where_the_time_ran_out_what_was_not_read_says_so():
    answer = told(WHOLE[: WHOLE.index(b"run 0 ")], "time was over")
    assert answer["gpu_model"] == "gb200"
    assert answer["unknown"]["k3_nvlink_domain"] == "not read: time was over"


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"Welcome!\n",
        b"\x00\xff\xfe" * 1000,
        NONCE.encode() * 100,
        WHOLE.replace(b"0x10de", b"0x10de\nintruder"),
        WHOLE.replace(b"aarch64", b"aarch"),
        WHOLE.replace(b"file read 7", b"file read seven"),
        WHOLE.replace(f"{NONCE} folder".encode(), f"hey\n{NONCE} folder".encode()),
    ],
)
def test_anything_else_is_refused(output):
    with pytest.raises(HostError):
        told(output)


def test_what_came_instead_is_shown_without_secrets_and_control_characters():
    with pytest.raises(HostError) as caught:
        told(b"\x1b[2J token=abcdefghijkl Choose a shell\n")
    assert "Choose a shell" in str(caught.value)
    assert "abcdefghijkl" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda seen: seen.read("/proc/cmdline"),
        lambda seen: seen.value("/proc/uptime"),
        lambda seen: seen.read_bytes("/etc/shadow"),
        lambda seen: seen.listdir("/etc"),
        lambda seen: seen.readlink("/etc/mtab"),
        lambda seen: seen.exists("/etc"),
        lambda seen: seen.run(["systemctl", "show"]).unknown(),
    ],
)
def test_what_was_not_asked_is_unknown_and_never_absent(ask):
    answer = ask(node())
    assert isinstance(answer, Unknown)
    assert answer.reason == NOT_ASKED


def test_what_was_not_asked_cannot_be_taken_for_a_machine_or_a_missing_program():
    seen = node(("run", "missing", "nvidia-smi -q -x", ""))
    for ask in (seen.kernel, seen.page_size):
        with pytest.raises(LookupError):
            ask()
    assert seen.find("docker") == "docker"
    assert seen.find("nvidia-smi") is None
    assert not seen.run(["docker", "info"]).ok
    assert seen.run(["nvidia-smi", "-q", "-x"]).error == "missing"


@pytest.mark.parametrize(
    ("state", "value"), [("read", "text"), ("absent", None), ("denied", Unknown), ("read ", Unknown)]
)
def test_files_are_there_not_there_or_not_readable(state, value):
    text = "" if state != "read" else "text"
    answer = node(("file", state.strip(), "/f", text)).value("/f")
    assert isinstance(answer, Unknown) if value is Unknown else answer == value


def test_folders_links_and_bytes():
    bdf = "/sys/bus/pci/devices/0000:02:00.0"
    seen = node(
        ("folder", "read", "/d", "b\na\n"),
        ("folder", "absent", "/none", ""),
        ("bytes", "read", f"{bdf}/vpd", " 53 57\n 00 ff"),
        ("bytes", "failed", "/broken", ""),
        ("bytes", "denied", "/denied", ""),
        ("exists", "no", f"{bdf}/physfn", ""),
        ("link", "absent", "/unlinked", ""),
        (
            "links",
            "read",
            "/sys/class/infiniband/mlx5_0/device /lost",
            "lrwxrwxrwx 1 root root 0 Dec  1 00:00 /sys/class/infiniband/mlx5_0/device -> ../../../0000:02:00.0",
        ),
    )
    assert seen.listdir("/d") == ["a", "b"]
    assert seen.listdir("/none") is None
    assert seen.readlink("/unlinked") is None
    assert isinstance(seen.readlink("/lost"), Unknown)
    # Through the link, as the kernel leads there.
    assert seen.read_bytes("/sys/class/infiniband/mlx5_0/device/vpd") == b"SW\x00\xff"
    assert seen.exists("/sys/class/infiniband/mlx5_0/device/physfn") is False
    assert isinstance(seen.read_bytes("/broken"), Unknown)
    assert "needs root" in seen.read_bytes("/denied").reason


@pytest.mark.parametrize("status", ["124", "137", "143"])
def test_a_command_that_was_ended_at_its_limit_gave_no_answer(status):
    run = ("run", status, "nvidia-smi -q -x", "half")
    result = node(run).run(["nvidia-smi", "-q", "-x"])
    assert result.error == "timeout"
    assert "within 20 s" in result.unknown().reason
    records = frames.records(framed(("hello", "", "", ""), run, END), NONCE)
    assert SnapshotNode(records, (), 20).run(["nvidia-smi", "-q", "-x"]).rc == int(status)


def test_what_a_command_complains_of_is_its_own():
    errors = f"mesg: no tty\n\n{NONCE}\n\n{NONCE}\nno device\n".encode()
    seen = node(
        ("run", "0", "id -u", "0"), ("run", "9", "nvidia-smi -q -x", ""), complaints=frames.complaints(errors, NONCE)
    )
    assert seen.run(["nvidia-smi", "-q", "-x"]).stderr == "no device"
    assert seen.run(["id", "-u"]).stderr == ""
    assert seen.is_root()


def test_a_nonce_is_no_shell_text():
    with pytest.raises(ValueError, match="letters and digits"):
        script("x; reboot", 20)


def test_what_nvidia_smi_says_is_redacted_before_it_is_cut():
    seen = node(("run", "9", "nvidia-smi -q -x", "x" * 292 + " hf_" + "SECRET" * 10))
    assert nvidia_smi.query(seen).reason.endswith("x *******…")


def test_what_came_instead_shows_no_end_of_a_secret():
    with pytest.raises(HostError) as caught:
        told(b"Authorization: Bearer eyJhbGciOiJSUzI1NiJ9." + b"SECRETPART" * 60 + b"\n")
    assert "SECRETPART" not in str(caught.value)
    assert "Authorization: Bearer ********" in str(caught.value)
