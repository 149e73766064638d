# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.nodes.variants import VARIANTS, observed


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_a_named_node_has_the_verdict_that_stands_beside_it(report_of, name):
    """The same rows are made into containers by molecule; here they cost milliseconds."""
    variant = VARIANTS[name]
    assert observed(report_of(variant.profile(), variant.contract)) == variant.expected()
