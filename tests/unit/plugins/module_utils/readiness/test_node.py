# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown, version_tuple
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import OUTPUT_LIMIT, Node


@pytest.fixture
def node(tmp_path):
    return Node(str(tmp_path), timeout=5)


def python(code):
    return [sys.executable, "-c", code]


def test_a_file_is_text_absent_or_unknown(node, tmp_path):
    (tmp_path / "there").write_bytes(b"one\ntwo\xff\n")
    (tmp_path / "empty").write_bytes(b"")
    os.mkfifo(tmp_path / "fifo")
    assert node.read("/there") == "one\ntwo\ufffd\n"
    assert node.value("/there") == "one"
    assert node.read("/absent") is None
    assert node.value("/there/below") is None
    assert isinstance(node.value("/empty"), Unknown)
    assert isinstance(node.read("/"), Unknown)
    assert node.read("/fifo") == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_only_root_may_read_says_so(node, tmp_path):
    (tmp_path / "closed").write_text("x")
    (tmp_path / "closed").chmod(0)
    assert node.read("/closed").reason == "needs root"


def test_a_huge_file_is_cut(node, tmp_path):
    (tmp_path / "huge").write_bytes(b"x" * 3000000)
    assert len(node.read("/huge", 1000)) == 1000


def test_a_command_answers_with_code_and_both_outputs(node):
    result = node.run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"))
    assert (result.rc, result.stdout, result.stderr, result.error) == (3, "out\n", "err\n", None)
    assert "ended with 3 and said: err" in result.unknown().reason


def test_what_a_command_said_is_redacted_before_it_is_cut(node):
    result = node.run(python("import sys; print('x' * 180, 'eyJhbGciOiJSUzI1NiJ9.' + 'SECRET' * 60); sys.exit(3)"))
    assert result.unknown().reason.endswith("x ********")


def test_a_program_that_is_not_there(node):
    result = node.run(["no-such-program", "-x"])
    assert result.error == "missing"
    assert result.unknown().reason == "no-such-program is not installed"


def test_a_program_that_cannot_be_started(node, tmp_path):
    (tmp_path / "text").write_text("not a program")
    (tmp_path / "text").chmod(0o755)
    assert node.run([str(tmp_path / "text")]).error == "not started"


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
        "import os, time; os.close(1); os.close(2); time.sleep(60)",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "import subprocess; subprocess.Popen(['sleep', '60'])",
        "while True: print('x' * 1000)",
    ],
)
def test_a_command_that_does_not_end_costs_its_limit(node, code):
    began = time.monotonic()
    result = node.run(python(code), timeout=1)
    assert result.error == "timeout"
    assert "within 1 s" in result.unknown().reason
    assert time.monotonic() - began < 4


def test_output_is_bounded(node):
    result = node.run(python(f"print('x' * {OUTPUT_LIMIT * 2})"))
    assert OUTPUT_LIMIT <= len(result.stdout) < OUTPUT_LIMIT + 100000


def test_a_command_gets_no_input_and_no_language_of_the_login(node):
    result = node.run(python("import os, sys; print(repr(sys.stdin.read()), os.environ['LC_ALL'])"))
    assert result.stdout == "'' C\n"


def test_everything_is_asked_once_also_by_many_threads(node):
    calls = []
    barrier = threading.Barrier(8)

    def load():
        calls.append(1)
        time.sleep(0.05)
        return "value"

    def ask():
        barrier.wait()
        assert node.once("key", load) == "value"

    threads = [threading.Thread(target=ask) for _number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("580.126.20", (580, 126, 20)),
        ("580.65.06", (580, 65, 6)),
        ("610", (610,)),
        ("", None),
        (None, None),
        ("580.x", None),
        ("580..1", None),
        ("v580.1", None),
        ("580.126.20-1", None),
        ("\u0665.1", None),
        (580, None),
    ],
)
def test_versions_are_integers(text, expected):
    assert version_tuple(text) == expected


def test_versions_compare_as_integers_not_as_text():
    assert version_tuple("580.9.1") < version_tuple("580.65.06") < version_tuple("580.126.20") < version_tuple("610.1")
