# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs the module on the node, and takes nothing of its answer for a variable."""

from __future__ import annotations

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.answer_only import AnswerOnly


class ActionModule(AnswerOnly):
    """Runs the module of the same name."""
