# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fixtures of the driver's lab. Its engine, images and repositories are made by `make molecule`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.lab.driver.site import Site
from ansible_collections.gpufleet.kimi_k3.tests.lab.soak import (  # noqa: F401
    pytest_collection_modifyitems,
    pytest_configure,
)


class MakeSite(Protocol):
    """What the fixture hands out."""

    def __call__(self, row: str, **variables: Any) -> Site: ...


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeSite]:
    """make(row of nodes.yml, variables): a fresh node, taken away after the test."""
    made: list[Site] = []

    def make_site(row: str, **variables: Any) -> Site:
        made.append(Site(f"gpufleet-lab-driver-{uuid.uuid4().hex[:8]}", row, tmp_path, **variables))
        return made[-1]

    yield make_site
    for site in made:
        site.close()
