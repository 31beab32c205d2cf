"""The status page in a real browser, over a daemon that follows a source."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service as DriverService
from selenium.webdriver.common.by import By

import replica_client
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
