# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The marker `soak` of pytest: further rows of what others prove once; they run with LAB_SOAK=1 in the environment."""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "soak: a further row of what another test proves; runs with LAB_SOAK=1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the further rows out, and say so as deselected, where they were not asked for."""
    if os.environ.get("LAB_SOAK") == "1":
        return
    further = [item for item in items if item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=further)
    items[:] = [item for item in items if item not in further]
