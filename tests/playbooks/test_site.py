# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What `playbooks/site.yml` refuses before it contacts a node. What it does to nodes is tried in tests/lab/driver."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.tests.playbooks.runs import DEAD, LOCAL


def test_only_nodes_of_the_group_are_changed(play):
    run = play("site", {"a": LOCAL, "b": DEAD}, check=True)
    assert run.rc == 2
    (refused,) = run.results("Refuse a selection without GPU nodes").values()
    assert "None of the 2 selected hosts is in the group gpu_nodes" in refused["msg"]
    assert not run.started("Begin the run")


def test_an_empty_inventory_is_refused(play):
    run = play("site", {})
    assert run.rc == 2
    assert run.results("Refuse an inventory without hosts")
