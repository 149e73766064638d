# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fixtures of the package lab. Its engine, images and repositories are made by `make molecule`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab.packages.nodes import Node
from ansible_collections.gpufleet.kimi_k3.tests.lab.soak import (  # noqa: F401
    pytest_collection_modifyitems,
    pytest_configure,
)


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
