# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Variables that are named in two places are the same in both."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ansible_collections.gpufleet.kimi_k3.plugins.module_utils.readiness.contract import KEYS
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.readiness_preflight import DECLARED

ROOT = Path(__file__).resolve().parents[2]


def test_the_role_hands_on_the_declared_topology_that_the_preflight_checks():
    text = (ROOT / "roles" / "node_readiness" / "vars" / "main.yml").read_text(encoding="utf-8")
    handed = re.findall(r"'(\w+)': (\w+) \| default\((.*?)\),", text)
    # No other line of the file names one.
    assert len(re.findall(r"\bk3_\w+", text)) == len(handed)
    assert {value: key for key, value, _default in handed} == DECLARED
    # What is not declared stands as the contract has it without a word from the user.
    assert {key: yaml.safe_load(default) for key, _value, default in handed} == {
        key: KEYS[key].default for key in DECLARED.values()
    }
    assert set(DECLARED.values()) <= set(KEYS)
