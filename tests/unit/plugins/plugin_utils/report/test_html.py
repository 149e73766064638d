# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import html
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.difference import difference
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import check, dead, row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.hostile import HOSTILE, hostile_report

WHEN = datetime(2026, 11, 30, 21, 0, 0, tzinfo=UTC)


def report(*rows):
    return document(rows, "probe", WHEN, "0.1.0")


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text in each script, style and heading."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.inside = [], {}, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag + ("#data" if dict(attrs).get("id") == "data" else "")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        self.texts[self.inside] = self.texts.get(self.inside, "") + data

    def attributes(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page(made, changes=None, note=""):
    return Page("".join(html.chunks(made, changes, note)))


@pytest.mark.parametrize(
    ("rows", "headline"),
    [
        ([], "No node was asked: nothing here is ready."),
        ([row("a")], "The only node is ready."),
        ([row("a", verdict="degraded")], "The only node serves, but degraded."),
        ([row("a", verdict="not_ready")], "The only node is not ready."),
        ([row("a"), row("b")], "All 2 nodes are ready."),
        ([row("a"), row("b", verdict="degraded")], "All 2 nodes serve, 1 of them degraded."),
        ([row("a"), dead("b")], "1 of 2 nodes is not ready."),
        ([row("a"), dead("b"), dead("c")], "2 of 3 nodes are not ready."),
    ],
)
def test_the_headline_is_there_without_a_script(rows, headline):
    assert page(report(*rows)).texts["h1"].split() == headline.split()


def test_the_page_fetches_nothing_and_its_policy_allows_its_own_script_only():
    made = page(report(row("a")))
    policy = next(meta["content"] for meta in made.attributes("meta") if "http-equiv" in meta)
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        digest = base64.b64encode(hashlib.sha256(made.texts[tag].encode()).digest()).decode()
        assert directives[name] == f"'sha256-{digest}'"
    assert directives["default-src"] == "'none'"
    assert "src" not in {name for _tag, attributes in made.elements for name in attributes}
    assert {link["href"] for link in made.attributes("link")} == {"data:,"}
    assert not [name for _tag, attributes in made.elements for name in attributes if name.startswith("on")]


def test_the_scripts_make_no_markup_of_texts():
    script = page(report(row("a"))).texts["script"]
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|eval\(|fetch\(|XMLHttp"
    )
    assert re.findall(forbidden, script) == []


def test_every_script_of_the_folder_is_in_the_page():
    assert {path.stem for path in html.PAGE.glob("*.js")} == set(html.SCRIPTS)


def test_hostile_texts_come_back_from_the_page_as_they_were():
    made = page(hostile_report())
    assert [attributes.get("type") for attributes in made.attributes("script")] == ["application/json", None]
    assert not made.attributes("img")
    embedded = json.loads(made.texts["script#data"])
    assert [node["host"] for node in embedded["nodes"]] == list(HOSTILE)
    assert {item[5][0][1] for item in embedded["checks"] if item[0] == "gpu.ecc"} == set(HOSTILE)


def test_answers_that_are_alike_are_there_once():
    data = json.loads(html.data(report(row("a"), row("b"), {**row("c"), "checks": [check("gpu.ecc", "fail")]}), None))
    assert data["nodes"][0]["checks"] == data["nodes"][1]["checks"]
    assert len(data["checks"]) == len(row("a")["checks"]) + 1


def test_the_difference_is_in_the_page_and_so_is_why_there_is_none():
    before, after = report(row("a", verdict="not_ready")), report(row("a"))
    changes = difference(before, after)
    assert [group["text"] for group in json.loads(html.data(after, changes))["groups"]] == ["became ready"]
    assert "<b>" not in "".join(html.chunks(after, None, "It is <b>gone</b>."))
    assert "It is &lt;b&gt;gone" in "".join(html.chunks(after, None, "It is <b>gone</b>."))
