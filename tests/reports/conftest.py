# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reports on disk, and a browser to open them in."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import files
from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report.document import document
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.fleet import check, row
from ansible_collections.gpufleet.kimi_k3.tests.fixtures.hostile import hostile_report
from ansible_collections.gpufleet.kimi_k3.tests.reports import fleets

# As long as no role is there, no check of the collection has such a cure.
BY_PLAYBOOK = {
    "action": "Install the driver.",
    "command": None,
    "disruptive": "reboot",
    "role": "nvidia_driver",
    "entry_point": "main",
    "playbook": "gpufleet.kimi_k3.site",
    "tag": "nvidia_driver",
}


def cured_by_playbook() -> dict[str, Any]:
    """Two nodes that one playbook cures, one of a name that a shell would take for more."""
    rows = []
    for host in ("gpu-01", "it's; here"):
        bad = {**check("driver.branch", "fail"), "remedy": BY_PLAYBOOK}
        rows.append(
            {**row(host, verdict="not_ready"), "root_cause": "driver.branch", "remedy": BY_PLAYBOOK, "checks": [bad]}
        )
    return document(rows, "probe", fleets.WHEN, "0.1.0")


FLEETS: dict[str, Callable[[], dict[str, Any]]] = {
    "one": lambda: fleets.report({"localhost": {"readiness": fleets.answer("no-gpu")}}),
    "racks": lambda: fleets.report(fleets.racks(72, fleets.SOME_WRONG)),
    "degraded": lambda: fleets.report({"gpu-a": {"readiness": fleets.answer("amd-mi355x")}}),
    "nobody": lambda: fleets.report({}),
    "hostile": hostile_report,
    "playbook": cured_by_playbook,
}
# Seen by an unreachable tray of a report before: in between it was cured, and others broke.
EARLIER = {8: "driver-575", 10: fleets.UNREACHABLE, 40: "blackwell-proprietary"}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """``{name of a fleet: folder of its report}``; that of the racks has an earlier report."""
    found = {}
    for name, made in FLEETS.items():
        folder = tmp_path_factory.mktemp(name)
        if name == "racks":
            files.write(fleets.report(fleets.racks(72, EARLIER), playbook="site"), folder, "site", fleets.WHEN)
        found[name] = files.write(made(), folder, "probe", fleets.WHEN).parent
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium without a window. It is told where its driver is, so that nothing is looked for in the network."""
    options = webdriver.ChromeOptions()
    # Chromium refuses its sandbox to root, who runs the tests in containers; what it opens is ours.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1500,1000"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield opened
    opened.quit()
