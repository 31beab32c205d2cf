"""Destinations whose servers stand still (SIGSTOP): state, log, lag, recovery; nothing is lost, nothing comes twice.

Connections stay open, new ones are made by the kernel, and nothing is answered.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.clickhouse_server import ClickhouseServer
from tests.integration.daemon_process import DaemonProcess
from tests.integration.event_receiver import KEY, EventReceiver
from tests.integration.takeover import KINDS, Destination, numbers
from tests.servers.local import LocalServer

ANSWER_SECONDS = 30.0
FROZEN = ("mysql", "postgres", "clickhouse", "redis", "kafka", "http", "mysql-store", "s3-store")


@dataclass
class Frozen:
    """A service with its destination.

    Attributes:
        daemon: the service.
        found: gives how often each number is in the destination.
        freeze: stops the destination's server, or makes it go on.
    """

    daemon: DaemonProcess
    found: Callable[[], Counter[int]]
    freeze: Callable[[bool], None]
    seconds: float = 0.0


def descendants(pid: int) -> set[int]:
    """Ids of all processes below one."""
    found: set[int] = set()
    left = [pid]
    while left:
        try:
            threads = list(Path(f"/proc/{left.pop()}/task").iterdir())
            below = [int(one) for at in threads for one in (at / "children").read_text().split()]
        except OSError:
            continue  # it ended
        found.update(below)
        left += below
    return found


@contextmanager
def clickhouse(directory: Path, other: LocalServer) -> Iterator[Destination]:
    with tempfile.TemporaryDirectory() as own:
        server = ClickhouseServer(Path(own))

        def found() -> Counter[int]:
            text = server.text("SELECT n FROM taken.k FINAL")
            return Counter(int(line) for line in text.splitlines())

        try:
            yield Destination({"type": "clickhouse", "url": server.url}, found)
        finally:
            server.stop()


@contextmanager
def mysql(directory: Path, other: LocalServer) -> Iterator[Destination]:
    def found() -> Counter[int]:
        return Counter(int(row[0]) for row in other.query("SELECT n FROM taken.k"))

    yield Destination({"type": "mysql", "url": other.url("root")}, found)


def made(
    kind: str, directory: Path, other: LocalServer, source: LocalServer, stack: ExitStack
) -> Frozen:
    """A service that writes into a destination of a kind."""
    directory.mkdir()
    make = {"mysql": mysql, "clickhouse": clickhouse, "http": None, **KINDS}[kind]
    if make is None:
        receiver = EventReceiver()
        stack.callback(receiver.close)

        def go(goes: bool) -> None:
            receiver.going.set() if goes else receiver.going.clear()

        def received() -> Counter[int]:
            lines = [line for one in receiver.lines.values() for line in one]
            return numbers(lines)

        destination = Destination({"type": "http", "url": receiver.url, "key": KEY}, received)
    else:
        before = descendants(os.getpid())
        destination = stack.enter_context(make(directory, other))
        of_server = descendants(os.getpid()) - before

        def go(goes: bool) -> None:
            if not of_server:
                other.resume() if goes else other.suspend()
            mine = descendants(os.getpid())
            for pid in mine & (of_server | {low for one in of_server for low in descendants(one)}):
                os.kill(pid, signal.SIGCONT if goes else signal.SIGSTOP)

    stack.callback(go, True)
    sink = {"name": "one", "retry_seconds": 2.0, "tables": ["taken.k"], "batch_seconds": 0.1}
    keys = {"url": source.url(), "start": "latest", "heartbeat": 1.0}
    daemon = DaemonProcess(
        directory,
        keys,
        [{**sink, **destination.sink}],
        store=destination.store,
        environment=destination.environment,
    )
    stack.callback(daemon.close)
    return Frozen(daemon, destination.found, go)


def prove_frozen(
    source: LocalServer,
    other: LocalServer,
    directory: Path,
    kinds: Sequence[str],
    *,
    commit_timeout: float,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Freeze destinations, and let them go on.

    Args:
        source: a server without tables.
        other: a server for mirrors and positions.
        directory: for services and servers.
        kinds: of :data:`FROZEN`.
        commit_timeout: option of the sinks.
        seconds: for which the destinations stand still.
        say: is told the figures.
    """
    source.execute("CREATE DATABASE taken")
    key = "INT NOT NULL PRIMARY KEY"
    with ExitStack() as stack:
        made_of = {kind: made(kind, directory / kind, other, source, stack) for kind in kinds}
        for one in made_of.values():
            one.daemon.sinks[0]["commit_timeout"] = commit_timeout
            one.daemon.start()
        for one in made_of.values():
            one.daemon.until(lambda daemon: state(daemon) == "streaming")
        source.execute(f"CREATE TABLE taken.k (n {key})")
        source.execute("INSERT INTO taken.k VALUES (1), (2)")
        for one in made_of.values():
            one.daemon.until_level()
        for one in made_of.values():
            one.freeze(False)
        begun = time.monotonic()
        for number in (3, 4, 5):
            source.execute(f"INSERT INTO taken.k VALUES ({number})")
            time.sleep(0.3)
        left = dict(made_of)
        while left and time.monotonic() < begun + seconds:
            for kind, one in list(left.items()):
                if state(one.daemon) in ("retrying", "failed"):
                    one.seconds = time.monotonic() - begun
                    del left[kind]
            time.sleep(0.2)
        for kind, one in left.items():
            say(f"{kind}: {one.daemon.route('one')}")
        assert not left
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
        for kind, one in made_of.items():
            route = one.daemon.route("one")
            lag, age = route["lag_seconds"], time.monotonic() - begun
            say(
                f"{kind}: {route['state']} after {one.seconds:.1f} s, lag {lag:.1f} of {age:.1f} s, {route['error']!r}"
            )
            say(f"    log: {one.daemon.tail().splitlines()[-3:]}")
            assert route["state"] == "retrying"
            assert one.seconds <= ANSWER_SECONDS + 3
            assert abs(lag - age) < 3
            assert one.daemon.get("/readyz")[0] == 503
            assert one.daemon.metric("replica_client_up", sink="one") == 0
            words = ("not answered", "not done within", "timed out", "time", "no answer")
            log = one.daemon.log.read_text().lower()
            assert any(word in log for word in words), kind
        begun = time.monotonic()
        for one in made_of.values():
            one.freeze(True)
        source.execute("INSERT INTO taken.k VALUES (6)")
        for kind, one in made_of.items():
            one.daemon.until_level()
            say(f"{kind}: level {time.monotonic() - begun:.1f} s after SIGCONT")
            assert one.daemon.get("/readyz")[0] == 200
            assert one.found() == Counter(range(1, 7)), kind
            assert one.daemon.stop() == 0


def state(daemon: DaemonProcess) -> str:
    return str(daemon.status()["routes"][0]["state"])
