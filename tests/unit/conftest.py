# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fixtures that all unit tests share."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness import contract, probe
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes import REQUIRE
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.profile import MadeNode


@pytest.fixture
def make_node():
    """make_node(profile, **options): a Node over a profile."""
    numbers = itertools.count()
    # Memory where there is some to write to: hundreds of small files a node are slow on a disk.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="made-node-", dir=memory) as folder:

        def make(profile, **options):
            return MadeNode(profile, Path(folder) / str(next(numbers)), **options)

        yield make


@pytest.fixture
def report_of(make_node):
    """report_of(profile, require, skip): the whole report, as the module would answer for that node."""

    def report(profile, require=None, skip=None, **options):
        return probe.probe(make_node(profile, **options), contract.resolve({**REQUIRE, **(require or {})}), skip or {})

    return report


@pytest.fixture
def ask(report_of):
    """ask(profile, require, skip): the checks of that report by id."""

    def ask_node(*arguments, **options):
        return {check["id"]: check for check in report_of(*arguments, **options)["checks"]}

    return ask_node
