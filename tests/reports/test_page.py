# Copyright: (c) 2026, GPU Fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""readiness.html as somebody on call uses it: opened from the disk in Chromium, by mouse and by keyboard."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import quote

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from ansible_collections.gpufleet.kimi_k3.tests.fixtures.hostile import HOSTILE
from ansible_collections.gpufleet.kimi_k3.tests.reports.conftest import FLEETS

# Contrast of every element that holds text of its own against the ground it stands on. Source: WCAG 2.2, 1.4.3.
CONTRASTS = """
const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
return [...document.body.querySelectorAll("*:not(script, style, option, svg, svg *)")]
  .filter((element) => element.checkVisibility() && [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .map((element) => {
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground(element))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.outerHTML.slice(0, 120)];
  });
"""
# What a screen reader would have to call by nothing.
NAMELESS = """
return [...document.querySelectorAll("button, input, select, a, summary, [role=group], [role=search], aside, section")]
  .filter((element) => element.checkVisibility() && !(element.ariaLabel || element.textContent.trim()
    || element.getAttribute("aria-labelledby") || element.labels?.length)).map((element) => element.outerHTML.slice(0, 120));
"""


def open_page(browser, folder, address="", scheme="light"):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(f"file://{folder}/readiness.html{address}")


def all_of(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def one(browser, selector):
    (found,) = all_of(browser, selector)
    return found


def tray(browser, host):
    return browser.execute_script(
        "return [...document.querySelectorAll('.tray')].find((tray) => tray.dataset.host === arguments[0])", host
    )


def shown(browser):
    """The names on the trays, read at one moment: while somebody types, trays come and go."""
    return browser.execute_script("return [...document.querySelectorAll('.tray')].map((tray) => tray.dataset.host)")


def focused(browser):
    return browser.switch_to.active_element


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()


def wait(browser, condition):
    WebDriverWait(browser, 5, poll_frequency=0.02).until(lambda _browser: condition())


@pytest.fixture
def page(browser, folders):
    """The report of 72 nodes in four racks."""
    open_page(browser, folders["racks"])
    return browser


@pytest.mark.parametrize("name", FLEETS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_an_error_and_asks_no_network(browser, folders, name, scheme):
    open_page(browser, folders[name], scheme=scheme)
    for details in all_of(browser, "details"):
        browser.execute_script("arguments[0].open = true", details)
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {
        event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
    } - {"about:blank"}
    assert {address.split(":")[0] for address in asked} <= {"file", "data"}
    assert len([address for address in asked if address.startswith("file")]) == 1
    assert browser.execute_script(NAMELESS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read(browser, folders, scheme):
    open_page(browser, folders["racks"], "#verdict=not_ready&node=gpu-r01-n04", scheme)
    measured = browser.execute_script(CONTRASTS)
    assert len(measured) > 50
    assert [found for found in measured if found[0] < 4.5] == []


def test_light_and_dark_differ(browser, folders):
    grounds = set()
    for scheme in ("light", "dark"):
        open_page(browser, folders["racks"], scheme=scheme)
        grounds.add(one(browser, "body").value_of_css_property("background-color"))
    assert len(grounds) == 2


def test_a_rack_is_an_nvlink_domain_and_a_verdict_has_a_shape_and_a_name_beside_its_colour(page):
    assert [title.text for title in all_of(page, ".rack h3")] == [f"rack-0{number}" for number in (1, 2, 3, 4)]
    assert len(shown(page)) == 72
    for host, word in (("gpu-r01-n04", "not ready"), ("gpu-r02-n03", "no answer"), ("gpu-r01-n01", "ready")):
        assert tray(page, host).accessible_name.startswith(f"{host}: {word}")
    shapes = {found.get_attribute("href") for found in all_of(page, ".tray use")}
    assert shapes == {"#i-not_ready", "#i-silent", "#i-ready"}


def test_nodes_without_a_domain_or_deployment_have_a_place(browser, folders):
    open_page(browser, folders["one"])
    assert one(browser, ".rack h3").text == "No NVLink domain or deployment"
    assert shown(browser) == ["localhost"]


def test_a_click_opens_a_node_with_its_root_cause_evidence_and_cure(page):
    tray(page, "gpu-r01-n04").click()
    panel = one(page, "#panel")
    assert panel.find_element(By.CSS_SELECTOR, "h2").text == "gpu-r01-n04"
    assert focused(page).text == "gpu-r01-n04"
    opened = panel.find_element(By.CSS_SELECTOR, ".check[open]")
    for text in ("driver.branch", "575.57.08", "/proc/driver/nvidia/version", "Upgrade the driver", "reboot"):
        assert text in opened.text
    assert tray(page, "gpu-r01-n04").get_attribute("aria-pressed") == "true"


def test_every_check_can_be_opened(page):
    tray(page, "gpu-r01-n01").click()
    one(page, "#panel .rest > summary").click()
    summary = next(found for found in all_of(page, "#panel .check > summary") if "driver.branch" in found.text)
    summary.click()
    wait(page, lambda: "branch 580 or newer" in one(page, "#panel .check[open]").text)
    assert len(all_of(page, "#panel .check")) == 64


def test_a_node_that_did_not_answer_says_why_and_what_to_do(page):
    tray(page, "gpu-r02-n03").click()
    text = one(page, "#panel").text
    assert "No route to host" in text
    assert "Make the node answer" in text


def test_the_keyboard_alone_is_enough(page):
    press(page, "/")
    assert focused(page).get_attribute("id") == "q"
    press(page, "gpu-r03", Keys.TAB)
    wait(page, lambda: len(shown(page)) == 18)
    for _step in range(12):
        if focused(page).get_attribute("data-host"):
            break
        press(page, Keys.TAB)
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert focused(page).get_attribute("data-host") == "gpu-r03-n02"
    press(page, Keys.ENTER)
    assert one(page, "#panel-title").text == "gpu-r03-n02"
    press(page, Keys.ESCAPE)
    assert not one(page, "#panel").is_displayed()
    assert focused(page).get_attribute("data-host") == "gpu-r03-n02"
    press(page, Keys.END)
    assert focused(page).get_attribute("data-host") == "gpu-r03-n18"


def test_arrows_go_from_rack_to_rack_and_one_tray_only_is_a_stop_of_tab(page):
    tray(page, "gpu-r01-n02").click()
    press(page, Keys.ESCAPE, Keys.ARROW_RIGHT)
    assert focused(page).get_attribute("data-host") == "gpu-r02-n02"
    assert [found.get_attribute("data-host") for found in all_of(page, ".tray[tabindex='0']")] == ["gpu-r02-n02"]


def test_a_focused_tray_can_be_seen(page):
    tray(page, "gpu-r01-n02").click()
    press(page, Keys.ESCAPE, Keys.ARROW_DOWN)
    assert focused(page).value_of_css_property("outline-style") == "solid"
    assert float(focused(page).value_of_css_property("outline-width").removesuffix("px")) >= 2


def test_filters_by_verdict_check_and_cure(page):
    one(page, "[data-verdict='not_ready']").click()
    assert set(shown(page)) == {
        f"gpu-{name}" for name in ("r01-n04", "r01-n05", "r02-n04", "r03-n05", "r03-n06", "r04-n07")
    }
    Select(one(page, "#check")).select_by_value("driver.branch")
    assert set(shown(page)) == {"gpu-r01-n04", "gpu-r01-n05", "gpu-r03-n06"}
    assert one(page, "#shown").text == "3 nodes of 72."
    one(page, "#reset").click()
    assert len(shown(page)) == 72
    cures = Select(one(page, "#cure"))
    cures.select_by_visible_text(
        next(found.text for found in cures.options if found.text.startswith("Make the node answer"))
    )
    assert shown(page) == ["gpu-r02-n03"]


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        ("GPU-R04-N07", {"gpu-r04-n07"}),
        ("rack-03 575.57", {"gpu-r03-n06"}),
        ('"no route"', {"gpu-r02-n03"}),
        ("as seen on gpu-r01-n09", {"gpu-r01-n09"}),
        ("xyzzy", set()),
    ],
)
def test_searches_names_racks_versions_and_texts_of_checks(page, words, hosts):
    one(page, "#q").send_keys(words)
    wait(page, lambda: set(shown(page)) == hosts)


def test_what_to_do_first_leads_to_the_nodes(page):
    first = all_of(page, "#cause-list > li")[0]
    assert "driver.branch" in first.text
    assert "3 nodes" in first.text
    assert "Upgrade the driver" in first.text
    first.find_element(By.XPATH, ".//button[text()='Show']").click()
    assert set(shown(page)) == {"gpu-r01-n04", "gpu-r01-n05", "gpu-r03-n06"}


def test_a_degraded_fleet_says_what_degrades_it(browser, folders):
    open_page(browser, folders["degraded"])
    assert "Why 1 node is degraded" in one(browser, "#causes").text
    assert all_of(browser, "#warning-list .cause-item")


def test_fleet_checks_are_shown_with_the_nodes_they_name(page):
    checks = {found.text.split("\n")[0]: found for found in all_of(page, "#fleet-list .check")}
    mixed = checks["fleet.driver: NVLink domain rack-01"]
    mixed.find_element(By.CSS_SELECTOR, "summary").click()
    wait(page, lambda: "gpu-r01-n05" in mixed.find_element(By.CSS_SELECTOR, ".blamed").text)
    mixed.find_element(By.XPATH, ".//button[text()='gpu-r01-n05']").click()
    assert one(page, "#panel-title").text == "gpu-r01-n05"


def test_the_difference_to_the_earlier_report(page):
    text = one(page, "#changes").text
    for words in (
        "became ready",
        "stopped being ready",
        "stopped answering",
        "answers again",
        "driver moved from 575.57.08 to 580.173.02",
    ):
        assert words in text
    one(page, "#changed").click()
    assert "gpu-r01-n09" in shown(page)
    assert "gpu-r01-n01" not in shown(page)
    tray(page, "gpu-r01-n09").click()
    assert "driver moved from 575.57.08 to 580.173.02" in one(page, "#panel").text


def test_the_address_keeps_what_is_shown(browser, folders, page):
    one(page, "#q").send_keys("rack-02")
    wait(page, lambda: len(shown(page)) == 18)
    one(page, "[data-verdict='silent']").click()
    tray(page, "gpu-r02-n03").click()
    address = page.current_url.partition("#")[2]
    open_page(browser, folders["racks"], f"#{address}")
    assert shown(browser) == ["gpu-r02-n03"]
    assert one(browser, "#panel-title").text == "gpu-r02-n03"


def test_a_command_and_names_are_copied(browser, folders):
    open_page(browser, folders["hostile"])
    browser.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    host = HOSTILE[-1]
    tray(browser, host).click()
    one(browser, "#panel .check[open] .copy").click()
    wait(browser, lambda: one(browser, "#panel .check[open] .copy").text == "Copied")
    assert browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])") == f"echo {host}"


def test_a_cure_by_playbook_names_the_nodes_and_quotes_them(browser, folders):
    open_page(browser, folders["playbook"])
    start = "ansible-playbook gpufleet.kimi_k3.site --limit "
    command = one(browser, "#cause-list .command code").text
    assert command.startswith(start)
    assert shlex.split(command)[3:] == ["gpu-01,it's; here", "--tags", "nvidia_driver"]
    tray(browser, "gpu-01").click()
    assert one(browser, "#panel .command code").text == f"{start}gpu-01 --tags nvidia_driver"


def test_previous_and_next_go_through_what_is_shown(page):
    one(page, "[data-verdict='silent']").click()
    tray(page, "gpu-r02-n03").click()
    assert [found.is_enabled() for found in all_of(page, ".panel-bar button")] == [False, False, True]
    one(page, "#reset").click()
    tray(page, "gpu-r02-n03").click()
    all_of(page, ".panel-bar button")[1].click()
    assert focused(page).text == "gpu-r02-n04"


def test_hostile_texts_are_texts_everywhere(browser, folders):
    open_page(browser, folders["hostile"], f"#q={quote('onerror')}")
    assert shown(browser) == [HOSTILE[1]]
    one(browser, "#reset").click()
    assert len(all_of(browser, ".tray")) == len(HOSTILE)
    panels = browser.execute_script("""
      return [...document.querySelectorAll('.tray')].map((tray) => {
        tray.click();
        return document.getElementById('panel').textContent.toWellFormed().replaceAll('\\ufffd', '');
      });
    """)
    for details in all_of(browser, "details"):
        browser.execute_script("arguments[0].open = true", details)
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.title.startswith("11 of 11 not ready")
    assert browser.execute_script("return document.querySelectorAll('img, script').length") == 2
    for host in HOSTILE:
        # Half of a character is shown as the browser shows it.
        whole = host.replace("\ud800", "")
        # As the name, the reason, the evidence (its place and its line), the cure and the command.
        assert max(panel.count(whole) for panel in panels) >= 6
    assert browser.get_log("browser") == []


def test_it_prints_with_what_needs_a_look(browser, folders):
    open_page(browser, folders["racks"], scheme="dark")
    document = base64.b64decode(browser.print_page())
    assert document.startswith(b"%PDF-")
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#print tbody tr')].map((row) => row.textContent)"
    )
    assert len(rows) == 7
    assert "Upgrade the driver" in rows[0]


def test_without_scripts_it_says_how_many_are_not_ready_and_where_the_rest_is(browser, folders):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page(browser, folders["racks"])
        assert "7 of 72 nodes are not ready." in one(browser, "h1").text
        assert "readiness.json" in one(browser, "noscript").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("width", [360, 800])
def test_nothing_is_cut_off_on_a_narrow_screen(browser, folders, width):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        for name in ("racks", "hostile"):
            open_page(browser, folders[name])
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
