# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fixtures of the package lab. Its engine, images and repositories are made by `make molecule`.

Tests marked `soak` are further rows of what others prove once; they run with LAB_SOAK=1 in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab.packages.nodes import Node


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


class MakeNode(Protocol):
    """What the fixture hands out."""

    def __call__(self, kind: str = "deb12", repository: str = "debian12", **options: Any) -> Node: ...


@pytest.fixture
def make() -> Iterator[MakeNode]:
    """make(kind, repository): a fresh node, taken away after the test."""
    made: list[Node] = []

    def make_node(kind: str = "deb12", repository: str = "debian12", **options: Any) -> Node:
        made.append(Node(kind, repository, **options))
        return made[-1]

    yield make_node
    for node in made:
        node.close()
