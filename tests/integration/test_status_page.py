"""The status page in a real browser, over a daemon that follows a source."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service as DriverService
from selenium.webdriver.common.by import By

import replica_client
from replica_client.stream.pages.http_server import served
from replica_client.stream.pages.page import Page, json_page
from replica_client.testing import BinlogSource
from tests.integration.daemon_process import DaemonProcess
from tests.servers.plugin import unavailable

pytestmark = pytest.mark.timeout(180)
DATA = Path(replica_client.__file__).parent / "testing" / "data"


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        unavailable("no browser: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = program
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--window-size=1200,1000",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    one = webdriver.Chrome(options=options, service=DriverService(driver))
    one.set_page_load_timeout(60)
    yield one
    one.quit()


@pytest.fixture
async def source() -> Any:
    async with BinlogSource(DATA) as one:
        yield one


@pytest.fixture
def daemon(tmp_path: Path, source: BinlogSource) -> Iterator[DaemonProcess]:
    one = DaemonProcess(
        tmp_path,
        {
            "url": source.url,
            "start": "earliest",
            "poll": 0.5,
            "transform": [{"tables": ["shop.p*"], "keep": ["*"], "mask": {"title": "never shown"}}],
        },
        [
            {"name": "lines", "type": "file", "path": tmp_path / "lines"},
            # Its directory cannot be made: a sink that is away.
            {"name": "away", "type": "file", "path": "/proc/none", "retry_seconds": 1.0},
        ],
        {"sample_seconds": 0.2},
    )
    with one:
        yield one


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.2)


def section(browser: webdriver.Chrome, name: str) -> str:
    """Its text, by a script: the page draws itself anew while it is looked at."""
    script = (
        "return document.querySelector(`section[data-route='source.${arguments[0]}']`)?.innerText"
    )
    return str(browser.execute_script(script, name) or "")


def points(browser: webdriver.Chrome) -> str:
    script = "return document.querySelector(\"section[data-route='source.lines'] polyline\")"
    return str(browser.execute_script(f"{script}?.getAttribute('points')") or "")


async def test_the_status_page(
    daemon: DaemonProcess, browser: webdriver.Chrome, tmp_path: Path, source: BinlogSource
) -> None:
    await asyncio.to_thread(look, daemon, browser, tmp_path)


def look(daemon: DaemonProcess, browser: webdriver.Chrome, tmp_path: Path) -> None:
    daemon.until(lambda one: one.route("lines")["rows"] == 87 and one.route("away")["retries"] > 0)
    url = f"http://127.0.0.1:{daemon.port}/"
    browser.get(url)
    until(lambda: "streaming" in section(browser, "lines"))
    text = section(browser, "lines")
    assert "exactly-once" in text
    assert "shop.orders" in text
    assert "CREATE TABLE shop.orders" in text
    assert "shop-bin.000002:" in text
    assert "shop.p*: keep, mask" in text
    assert "never shown" not in text
    # It tries again and again, and each try is shown.
    until(lambda: any(state in section(browser, "away") for state in ("retrying", "failed")))
    assert "/proc/none" in section(browser, "away")
    until(lambda: browser.title.startswith("(1!) replica-client on "))
    # The plots have points, and get new ones without a reload.
    browser.execute_script("window.stays = 1")
    until(lambda: points(browser))
    before = points(browser)
    until(lambda: points(browser) != before)
    assert browser.execute_script("return window.stays") == 1
    browser.save_screenshot(str(tmp_path / "light.png"))
    # Dark where the reader's system is.
    light = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    until(
        lambda: (
            browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            != light
        )
    )
    browser.save_screenshot(str(tmp_path / "dark.png"))
    # Narrow: nothing is wider than the screen.
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True},
    )
    time.sleep(0.5)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    browser.save_screenshot(str(tmp_path / "narrow.png"))
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    # A daemon that is gone is said to be gone; one that is back is shown again.
    daemon.kill()
    until(lambda: "no answer" in browser.find_element(By.ID, "connection").text)
    daemon.start()
    until(lambda: "as of" in browser.find_element(By.ID, "connection").text)
    faults = [
        entry
        for entry in browser.get_log("browser")
        if entry["level"] == "SEVERE" and "ERR_CONNECTION" not in entry["message"]
    ]
    assert not faults, faults


def many_sinks() -> dict[str, Any]:
    """What a service with 20 sinks of 1,000 tables says, and what goes wrong with some of them."""
    now = time.time()
    states = ["streaming"] * 14 + [
        "failed",
        "retrying",
        "paused",
        "standby",
        "copying tables",
        "streaming",
    ]
    routes = []
    for number, state in enumerate(states):
        aside = [
            {
                "table": f"shop.t{at}",
                "reason": "1 of 1 rows are not there " * 9,
                "since": now,
                "position": "",
            }
            for at in range(5 if number == 19 else 0)
        ]
        routes.append(
            {
                **dict.fromkeys(("transactions", "bytes", "received", "commits", "reconnects"), 7),
                **dict.fromkeys(("queued", "pending_rows", "retries", "dead_letters"), 3),
                **dict.fromkeys(("replaced_values", "copied_rows", "snapshot_tables"), 0),
                "name": f"shop.sink{number}", "source": "shop", "sink": f"sink{number}", "type": "kafka",
                "guarantee": "exactly-once", "state": state, "since": now - 100, "lag_bytes": 12345,
                "owner": {"id": "8f" * 16, "service": "shop", "since": "2026-11-01T00:00:00+00:00"},
                "error": "the broker is away" if state in ("failed", "retrying") else "",
                "lag_seconds": number * 1.5, "file": "binlog.000123", "offset": 4711, "gtids": f"{'a' * 32}:1-9" * 9,
                "last_commit": now, "rows": 10**6, "commit_seconds": 3.5, "copying": "", "transforms": [],
                "set_aside": aside, "pause_at": "", "skips": ["0-1-7"] if number == 15 else [], "losses": [],
                "tables": [{"name": f"shop.{'long_' * 8}t{at}", "rows": at, "bytes": at} for at in range(200)],
                "table_count": 1000, "errors": [], "schema_changes": [], "dead_letter_file": "",
                "history": [[now - 5 * at, at, at, at % 7, at] for at in range(720, 0, -1)],
            }
        )  # fmt: skip
    order = {
        "time": "2026-11-29T01:00:00Z",
        "sinks": ["shop.sink3"],
        "by": "user 0",
        "result": "done",
    }
    return {
        "version": "1", "host": "h", "pid": 1, "now": now, "started": now - 9000, "config": "/c.toml",
        "config_error": "", "sample_seconds": 5, "sources": [], "routes": routes,
        "orders": [{**order, "command": "skip", "transaction": "0-1-7"}, {**order, "command": "reload"}],
    }  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_twenty_sinks_of_a_thousand_tables(
    browser: webdriver.Chrome, tmp_path: Path, width: int, scheme: str
) -> None:
    web = files("replica_client.service").joinpath("web")
    kinds = {"page.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
    pages: dict[str, Callable[[], Page]] = {
        f"/{name}": partial(Page, web.joinpath(name).read_bytes(), kind)
        for name, kind in kinds.items()
    }
    pages |= {"/": pages["/page.html"], "/status.json": lambda: json_page(many_sinks())}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get_log("browser")
    with served("127.0.0.1:0", pages, "listen") as url:
        browser.get(url)
        until(lambda: len(browser.find_elements(By.CSS_SELECTOR, "[data-row]")) == 20)
        run = browser.execute_script
        assert run("return document.documentElement.scrollWidth") <= width
        rows = run(
            "return [...document.querySelectorAll('[data-row]')].map((one) => one.dataset.row)"
        )
        heights = (
            "return [...document.querySelectorAll('[data-row]')].map((one) => one.offsetHeight)"
        )
        assert max(run(heights)) < 40  # a row is one line
        # What needs somebody comes first: failed, with an error, not streaming, with tables set aside.
        assert rows[:2] == ["shop.sink14", "shop.sink15"]
        assert rows[5] == "shop.sink19"
        assert [one.get_dom_attribute("data-route") for one in
                browser.find_elements(By.TAG_NAME, "section")] == rows  # fmt: skip
        assert "20 sinks: " in browser.find_element(By.ID, "summary").text
        assert "5 tables set aside" in browser.find_element(By.ID, "summary").text
        assert "will skip 0-1-7" in run("return document.getElementById('shop.sink15').innerText")
        shown = "return document.getElementById(arguments[0]).querySelectorAll('svg').length"
        assert [run(shown, name) for name in ("shop.sink14", "shop.sink19", "shop.sink0")] == [
            2,
            2,
            0,
        ]
        assert "owner shop (8f8f" in run("return document.getElementById('shop.sink14').innerText")
        assert (
            "skip shop.sink3, 0-1-7 by user 0: done" in browser.find_element(By.ID, "orders").text
        )
        run("document.querySelector(\"[id='shop.sink0'] button\").click()")
        until(lambda: run(shown, "shop.sink0") == 2)
        time.sleep(2.5)  # it is drawn again meanwhile
        assert run(shown, "shop.sink0") == 2
        browser.save_screenshot(str(tmp_path / f"{width}-{scheme}.png"))
        assert not [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
        browser.get("about:blank")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
