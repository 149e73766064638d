# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The generated documents say what the code says, and the written ones name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_documents_are_fresh():
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, ""), f"run `make docs`; stale: {done.stdout}{done.stderr}"


def test_every_link_of_the_written_documents_leads_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_readme_lists_every_variable_of_the_probe():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    defaults = (ROOT / "roles" / "node_readiness" / "defaults" / "main.yml").read_text(encoding="utf-8")
    names = re.findall(r"^(node_readiness_\w+):", defaults, re.MULTILINE)
    assert names
    assert [name for name in names if f"`{name}`" not in readme] == []
