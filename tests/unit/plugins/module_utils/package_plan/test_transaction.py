# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The script of a transaction tells the first failure and sets holds whatever happened."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.package_plan import model, transaction


@pytest.mark.parametrize(
    ("steps", "printed", "status"),
    [
        ([("one", "true", False), ("two", "true", True)], ["== one", "== two"], 0),
        ([("one", "exit_with 3", False), ("two", "true", False), ("hold", "true", True)], ["== one", "== hold"], 3),
        ([("one", "exit_with 3", False), ("hold", "exit_with 4", True)], ["== one", "== hold"], 3),
        ([("one", "true", False), ("hold", "exit_with 4", True)], ["== one", "== hold"], 4),
    ],
)
def test_steps(monkeypatch, tmp_path, steps, printed, status):
    monkeypatch.setattr(transaction, "CURRENT", str(tmp_path))
    text = transaction.script(steps, {"NAME": "it's"}).replace(
        "status=0\n", "exit_with() { return $1; }\nstatus=0\n", 1
    )
    result = subprocess.run(["sh", "-c", text], stdout=subprocess.PIPE, text=True, check=False)
    assert result.stdout.splitlines() == printed
    assert result.returncode == status
    assert (tmp_path / "status").read_text() == f"{status}\n"


def test_nothing_that_is_shown_has_a_password():
    plan = {"files": [{"after": "[cuda]\nbaseurl=https://me:hidden@mirror/\nname=x\n"}], "bytes": 1}
    shown = model.shown(plan)
    assert "hidden" not in str(shown)
    assert shown["files"][0]["after"].splitlines()[::2] == ["[cuda]", "name=x"]
    assert shown["bytes"] == 1
