"""The alert rules of contrib in a real Prometheus: each fires on the fault that it is for.

Durations of the rules are divided, so that half an hour is a minute; the rules are else those of the file.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.daemon_process import DaemonProcess, free_port
from tests.integration.event_receiver import KEY, EventReceiver
from tests.servers.local import LocalServer
from tests.servers.plugin import unavailable

RULES = Path(__file__).parents[2] / "contrib" / "prometheus" / "alerts.yml"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"\b(\d+)([smhd])\b")
_LAG_BYTES = "100000000"
_BUILDING = {"ReplicaClientLagGrows", "ReplicaClientSnapshotStands", "ReplicaClientRetries"}
"""Alerts whose condition is about a stretch of time, which must pass."""

_OUTBOX = {
    "tables": ["alert.outbox"],
    "outbox": {"headers": {"eventType": "type"}},
}


@dataclass
class Rule:
    """A rule with shortened durations.

    Attributes:
        name: of the alert.
        wait: its ``for``, in seconds.
        text: its part of the file.
        builds: seconds in which its condition comes true by its own definition.
    """

    name: str
    wait: float
    text: str
    builds: float = 0.0


def shortened(divisor: float) -> list[Rule]:
    """Return the rules of contrib with durations, and limits in seconds, divided."""

    def divide(found: re.Match[str]) -> str:
        return f"{max(1, round(int(found[1]) * _UNITS[found[2]] * 1000 / divisor))}ms"

    rules = []
    for text in re.split(r"(?=      - alert: )", RULES.read_text())[1:]:
        head, annotations, rest = text.partition("        annotations:")
        whole = [int(n) * _UNITS[unit] / divisor for n, unit in _DURATION.findall(head)]
        found = re.search(r"for: (\d+)([smhd])", head)
        wait = int(found[1]) * _UNITS[found[2]] / divisor if found else 0.0
        head = _DURATION.sub(divide, head).replace(_LAG_BYTES, "1000")
        name = head.split("- alert: ")[1].split("\n")[0]
        builds = max(whole) if name in _BUILDING else 0.0
        if limit := re.search(r"(lag_seconds > )(\d+)", head):
            builds = int(limit[2]) / divisor
            head = head.replace(limit[0], f"{limit[1]}{builds}")
        rules.append(Rule(name, wait, head + annotations + rest, builds))
    return rules


@contextmanager
def prometheus(directory: Path, rules: list[Rule], ports: list[int]) -> Iterator[str]:
    """Run a server that asks those ports every other second; gives its address."""
    program = shutil.which("prometheus")
    if program is None:
        unavailable("no prometheus: apt-get install prometheus")
    text = "groups:\n  - name: shortened\n    rules:\n" + "".join(rule.text for rule in rules)
    (directory / "rules.yml").write_text(text)
    targets = json.dumps([f"127.0.0.1:{port}" for port in ports])
    (directory / "prometheus.yml").write_text(
        "global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: shop, static_configs: [{{targets: {targets}}}]}}]\n"
    )
    address = f"127.0.0.1:{free_port()}"
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--config.file=prometheus.yml", f"--web.listen-address={address}"],
            cwd=directory,
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(60)


def firing(address: str) -> set[str]:
    """Return the names of the alerts that fire."""
    try:
        with urllib.request.urlopen(f"{address}/api/v1/alerts", timeout=10) as answer:
            alerts = json.load(answer)["data"]["alerts"]
    except OSError:
        return set()  # it starts
    return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}


@dataclass
class Fired:
    """An alert that fired.

    Attributes:
        rule: of the alert.
        seconds: from the fault on.
    """

    rule: Rule
    seconds: float

    @property
    def most(self) -> float:
        """Twice its ``for`` after its condition is true by definition, with two looks and the service's own."""
        return self.rule.builds + 2 * max(self.rule.wait, 1.0) + 8.0


def prove_alerts(
    source: LocalServer, directory: Path, divisor: float, say: Callable[[str], None]
) -> list[Fired]:
    """Make each fault, and wait for its alert.

    Args:
        source: a server without tables.
        directory: for services and Prometheus.
        divisor: of durations.
        say: is told each alert.

    Raises:
        AssertionError: an alert fires without a fault, or none does.
    """
    rules = shortened(divisor)
    for statement in (
        "CREATE DATABASE alert",
        "CREATE TABLE alert.t (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE alert.outbox (id INT PRIMARY KEY, aggregatetype VARCHAR(9), aggregateid INT, "
        "type VARCHAR(9), payload JSON)",
        "INSERT INTO alert.t VALUES (1, 1), (2, 1)",
    ):
        source.execute(statement)
    with ExitStack() as stack:
        dead, still = EventReceiver(), EventReceiver()
        stack.callback(still.close)
        common = {"retry_seconds": 10.0 / divisor, "tables": ["alert.t"]}
        sinks: list[dict[str, Any]] = [
            {"name": "dead", "type": "http", "url": dead.url, "key": KEY, **common},
            {"name": "mirror", "type": "sqlite", "snapshot": True, "path": directory / "m.db", **common},
            {"name": "letters", "type": "file", "path": directory / "letters", **common, "on_poison": "dead-letter",
             "tables": ["alert.outbox"]},
        ]  # fmt: skip

        def service(name: str, sinks: list[dict[str, Any]], **keys: Any) -> DaemonProcess:
            home = directory / name
            home.mkdir()
            given = {"url": source.url(), "heartbeat": 1.0, "start": "latest", **keys}
            made = DaemonProcess(home, given, sinks, {"name": name})
            stack.callback(made.close)
            return made

        def kept(name: str) -> list[dict[str, Any]]:
            return [{"name": "kept", "type": "file", "path": directory / name, **common}]

        many = service("many", sinks, transform=[_OUTBOX])
        gap = service("gap", kept("gap-lines"))
        lossy = service("lossy", kept("lossy-lines"), record_losses=["gtid_gap"])
        services = [many, gap, lossy]
        for one in services:
            one.start()
        for one in services:
            one.until_level()
        address = stack.enter_context(prometheus(directory, rules, [one.port for one in services]))
        begun = quiet = time.monotonic()
        while time.monotonic() < quiet + 8:  # a busy machine may answer the first looks late
            if found := firing(address):
                quiet = time.monotonic()
            assert time.monotonic() < begun + 60, f"nothing is wrong, and {found} fires"
            time.sleep(0.5)
        say(f"{len(services)} services, no fault: no alert")
        over = threading.Event()
        stack.callback(over.set)
        writer = threading.Thread(target=_write, args=(source, over))
        faults: dict[str, float] = {}

        def fault(*names: str) -> None:
            faults.update(dict.fromkeys(names, time.monotonic()))

        # The source purges what two services have not read.
        for one in (gap, lossy):
            assert one.stop() == 0
        source.execute("UPDATE alert.t SET n = 3")
        source.rotate()
        source.execute(f"PURGE BINARY LOGS TO '{source.binlog_files()[-1]}'")
        for one in (gap, lossy):
            one.start()
        fault("NeedsOperator", "Losses")
        # The receiver goes away, while the source is written.
        dead.close()
        writer.start()
        stack.callback(writer.join)
        stack.callback(over.set)
        fault("NotStreaming", "Lag", "LagGrows", "Retries")
        # A row is taken out of a mirror.
        with closing(sqlite3.connect(directory / "m.db", timeout=30)) as connection:
            connection.execute('DELETE FROM "alert.t" WHERE id = 1')
            connection.commit()
        source.execute("UPDATE alert.t SET n = 2 WHERE id = 1")
        fault("TablesSetAside")
        # A message is changed, which is none for an outbox.
        source.execute("INSERT INTO alert.outbox VALUES (1, 'a', 1, 'made', '{}')")
        source.execute("UPDATE alert.outbox SET type = 'b'")
        fault("DeadLetters")
        # A receiver answers nothing while a table is copied for it; then the configuration is wrong.
        still.going.clear()
        stack.callback(still.going.set)
        copied = {"name": "still", "type": "http", "url": still.url, "key": KEY, "snapshot": True}
        many.sinks.append({**copied, **common})
        _hang_up(many)
        many.until(lambda one: len(one.status()["routes"]) == len(sinks))
        many.until(lambda one: bool(one.route("still")["snapshot_tables"]))
        fault("SnapshotStands")
        many.source["tabels"] = ["alert.*"]
        _hang_up(many)
        fault("ReloadFailed")
        fired: dict[str, Fired] = {}
        wanted = {rule.name: rule for rule in rules}
        most = max(rule.builds + 2 * rule.wait for rule in rules) + 90
        deadline = time.monotonic() + most
        while len(fired) < len(wanted):
            for name in firing(address):
                short = name.removeprefix("ReplicaClient")
                if name in fired or short not in faults:
                    continue
                seconds = time.monotonic() - faults[short]
                fired[name] = Fired(wanted[name], seconds)
                say(f"{name}: {seconds:.1f} s, at most {fired[name].most:.1f}")
            if "Gone" not in faults and "ReplicaClientLosses" in fired:
                assert lossy.process is not None
                lossy.process.send_signal(signal.SIGKILL)
                lossy.process.wait()
                fault("Gone")
            left = set(wanted) - set(fired)
            assert time.monotonic() < deadline, f"{left} does not fire; {many.status()['routes']}"
            time.sleep(0.5)
        return list(fired.values())


def _hang_up(service: DaemonProcess) -> None:
    service.write_config()
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)


def _write(source: LocalServer, over: threading.Event) -> None:
    number = 100
    while not over.wait(0.2):
        number += 1
        source.execute(f"INSERT INTO alert.t VALUES ({number}, 1)")
