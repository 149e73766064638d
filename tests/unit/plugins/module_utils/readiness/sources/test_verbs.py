# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The child process that asks libibverbs, run for real against a stub of the library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.model import Unknown
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.node import Node
from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.sources import verbs
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import verbs_answers

STUB = Path(__file__).resolve().parents[5] / "fixtures" / "libibverbs_stub.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """build(*flags): the folder of a freshly compiled stub."""
    if COMPILER is None:
        pytest.skip("no C compiler is here to build the stub of libibverbs")
    made = {}

    def compile_stub(*flags):
        if flags not in made:
            made[flags] = tmp_path_factory.mktemp("verbs")
            target = made[flags] / "libibverbs.so.1"
            options = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1"]
            subprocess.run([COMPILER, *options, *flags, "-o", str(target), str(STUB)], check=True)
        return made[flags]

    return compile_stub


def ask(folder, tmp_path, lines):
    """(standard output, exit status) of the real child against the stub that answers ``lines``."""
    answers = tmp_path / "stub-ibverbs"
    answers.write_text(lines)
    # The environment reaches the child only here: the probe itself gives it none.
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "STUB_IBVERBS": str(answers)}
    done = subprocess.run(verbs.command(4096), env=env, stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    return done.stdout, done.returncode, str(answers)


def test_every_device_answers_for_itself(build, tmp_path):
    lines = "mlx5_0 reg 9\nmlx5_1 crash 0\nmlx5_2 reg 95\nmlx5_3 open 13\nmlx5_4 pd 12\nmlx5_5 reg 0\nmlx5_6 reg 524\n"
    stdout, rc, _path = ask(build(), tmp_path, lines)
    answers = verbs.read(stdout, rc, "", is_root=True)
    assert {name: (answer["answer"], answer["step"], answer["errno"]) for name, answer in answers.items()} == {
        "mlx5_0": ("capable", "reg", 9),
        "mlx5_1": ("unknown", None, None),
        "mlx5_2": ("not capable", "reg", 95),
        "mlx5_3": ("unknown", "open", 13),
        "mlx5_4": ("unknown", "pd", 12),
        "mlx5_5": ("capable", "reg", 0),
        "mlx5_6": ("unknown", "reg", 524),
    }


def test_a_device_that_hangs_costs_its_own_answer_only(build, tmp_path):
    stdout, rc, path = ask(build(), tmp_path, "mlx5_0 hang 0\nmlx5_1 reg 9\n")
    answers = verbs.read(stdout, rc, "", is_root=True)
    assert (answers["mlx5_0"]["answer"], answers["mlx5_1"]["answer"]) == ("unknown", "capable")
    # What the fixtures say of the child is what the child says.
    assert sorted(stdout.splitlines()) == sorted(verbs_answers(path).splitlines())


@pytest.mark.parametrize(
    ("flags", "lines", "reason"),
    [
        ((), "- list 38\n", "no RDMA stack"),
        (("-DBEFORE_34",), "mlx5_0 reg 9\n", "older than 34"),
    ],
)
def test_a_library_that_cannot_be_asked_is_unknown_with_the_reason(build, tmp_path, flags, lines, reason):
    stdout, rc, _path = ask(build(*flags), tmp_path, lines)
    answer = verbs.read(stdout, rc, "", is_root=True)
    assert isinstance(answer, Unknown)
    assert reason in answer.reason


def test_no_device_is_an_answer(build, tmp_path):
    stdout, rc, _path = ask(build(), tmp_path, "")
    assert verbs.read(stdout, rc, "", is_root=True) == {}


def test_the_probe_starts_the_child_and_reads_it():
    # Whatever this machine has: devices, none, or no library; never an exception.
    answer = verbs.ask(Node())
    assert isinstance(answer, (dict, Unknown))
    assert not isinstance(answer, Unknown) or "libibverbs" in answer.reason


def test_the_child_is_this_python_without_site_packages():
    argv = verbs.command(65536)
    assert argv[:4] == [sys.executable, "-I", "-S", "-c"]
    assert argv[-1] == "65536"


@pytest.mark.parametrize(
    ("stdout", "rc"),
    [
        ("", -11),
        ("", 1),
        ("\x00\xff garbage", 0),
        ("[1, 2]\n3\nnull\n", 0),
        ('{"device": 7, "step": "reg", "errno": 9}\n', 0),
    ],
)
def test_a_child_that_says_nothing_readable_is_unknown(stdout, rc):
    assert isinstance(verbs.read(stdout, rc, "Segmentation fault", is_root=True), Unknown)


@pytest.mark.parametrize("told", ['"errno": "9"', '"errno": true', '"errno": 9.0', '"step": "reg"', '"errno": [9]'])
def test_an_answer_of_another_type_is_never_capable(told):
    line = '{"device": "mlx5_0", "step": "reg", ' + told + "}\n"
    assert verbs.read(line, 0, "", is_root=True)["mlx5_0"]["answer"] == "unknown"
