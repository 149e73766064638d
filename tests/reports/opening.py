# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long a report of many nodes takes to make, to write and to open; `run --opening [NODES…]` runs it."""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from selenium import webdriver

from ansible_collections.gpufleet.kimi_k3.plugins.plugin_utils.report import files
from ansible_collections.gpufleet.kimi_k3.tests.reports import fleets

REPEATS = 5
WRONG = ("driver-575", "userland-newer", fleets.UNREACHABLE, "blackwell-proprietary", "peermem-other-ib-core")


def opening(browser: webdriver.Chrome, address: str) -> float:
    """Seconds from the request for the page until the nodes are there and the first picture of them is drawn."""
    browser.get("about:blank")
    started = time.monotonic()
    browser.get(address)
    browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
    return time.monotonic() - started


def main(counts: list[int]) -> None:
    """Print a line for each number of nodes."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1500,1000"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        for nodes in counts:
            wrong = {number: WRONG[number % len(WRONG)] for number in range(0, nodes, 13)}
            results = fleets.racks(nodes, wrong)
            with tempfile.TemporaryDirectory() as folder:
                files.write(fleets.report(fleets.racks(nodes, {})), Path(folder), "site", fleets.WHEN)
                started = time.monotonic()
                made = fleets.report(results, 1)
                judged = time.monotonic()
                file = files.write(made, Path(folder), "probe", fleets.WHEN)
                written = time.monotonic()
                page = file.with_name("readiness.html")
                taken = sorted(opening(browser, page.as_uri()) for _repeat in range(REPEATS))
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(
                    f"{nodes} nodes: fleet checks and document {judged - started:.2f} s, files {written - judged:.2f} s, "
                    f"page {page.stat().st_size / 1e6:.1f} MB, opened in {taken[REPEATS // 2]:.2f} s "
                    f"(median of {REPEATS}; slowest {taken[-1]:.2f} s); peak memory until here {peak} MiB",
                    flush=True,
                )
    finally:
        browser.quit()


if __name__ == "__main__":
    main([int(number) for number in sys.argv[1:]] or [1, 72, 1000])
