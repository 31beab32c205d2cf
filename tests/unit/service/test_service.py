"""The service: reload, metrics, health, systemd, one at a time."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from replica_client.errors import ConfigError, PositionStoreError
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.service import process as logs
from replica_client.service.config_file import read_config
from replica_client.service.examples import unit_file
from replica_client.service.observation import SECONDS, Observation, RouteState
from replica_client.service.pages import pages_of
from replica_client.service.process import Notifier, StateLock
from replica_client.service.source_access import SourceEnd, is_passing
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.transactions.loss_watch import reading_state_of
from tests.unit.service.conftest import running, until
from tests.unit.service.test_delivery import route

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def logger():
    """A reload sets the log up; it is as before afterwards."""
    yield
    ours = logging.getLogger(logs.LOGGER)
    ours.handlers.clear()
    ours.propagate = True
    ours.setLevel(logging.NOTSET)


async def get(service, path):
    def fetch():
        try:
            with urllib.request.urlopen(f"{service.http.url}{path}", timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    return await asyncio.to_thread(fetch)


async def test_pages(configure, disk, wanted):
    one = disk()
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted and service.http is not None)
        await until(lambda: service.lag_bytes(route(service)) == 0)
        assert await get(service, "healthz") == (200, b"ok\n")
        assert (await get(service, "readyz"))[0] == 200
        status = json.loads((await get(service, "status.json"))[1])
        assert status["routes"][0]["rows"] == len(wanted)
        assert status["routes"][0]["tables"][0]["name"] == "shop.orders"
        code, text = await get(service, "metrics")
        assert code == 200
        values = {
            (sample.name, sample.labels.get("table", sample.labels.get("state", ""))): sample.value
            for family in text_string_to_metric_families(text.decode())
            for sample in family.samples
        }
        assert values["replica_client_rows_total", "shop.orders"] == 73
        assert values["replica_client_state", "streaming"] == 1
        assert values["replica_client_lag_seconds", ""] == 0
        assert values["replica_client_lag_bytes", ""] == 0
        assert values["replica_client_up", ""] == 1
        assert values["process_open_fds", ""] > 0
        for path in ("", "page.js", "page.css"):
            assert (await get(service, path))[0] == 200


async def test_not_ready_while_a_sink_is_away(configure, disk):
    one = disk()
    one.before_open = lambda: 1 / 0
    async with running(configure()) as service:
        await until(lambda: bool(route(service).observation.errors) and service.http is not None)
        code, body = await get(service, "readyz")
        assert code == 503
        assert "division by zero" in json.loads(body)["waiting"]["shop.one"]
        assert (await get(service, "healthz"))[0] == 200


async def test_a_reload_begins_ends_and_adopts(configure, disk, wanted):
    disks = {name: disk(name) for name in ("kept", "gone", "new", "moved")}
    path = configure({"name": "kept"}, {"name": "gone"}, {"name": "moved"})
    async with running(path) as service:
        await until(lambda: all(disks[name].lines == wanted for name in ("kept", "gone", "moved")))
        kept = route(service, "kept")
        configure(
            {"name": "kept", "batch_rows": 7},
            {"name": "new"},
            {"name": "moved", "tables": ["shop.orders"]},
            daemon={"log_level": "warning"},
        )
        service.reload()
        await until(lambda: disks["new"].lines == wanted)
        assert route(service, "kept") is kept
        assert kept.config.sink.batch_rows == 7
        assert kept._delivery.limits.rows == 7
        assert disks["kept"].opened == 1
        assert not disks["gone"].is_open
        await until(lambda: disks["moved"].opened == 2)
        assert disks["moved"].lines == wanted  # it went on where it was
        assert [one.config.sink.name for one in service.routes] == ["kept", "new", "moved"]
        assert logging.getLogger(logs.LOGGER).level == logging.WARNING


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"daemon": {"state": "elsewhere"}}, "a change of state needs a restart"),
        ({"store": {"type": "sqlite"}}, "a change of store needs a restart"),
        ({"source": {"startt": "latest"}}, "no such key; did you mean 'start'"),
    ],
)
async def test_a_reload_that_cannot_be_is_refused_and_shown(configure, disk, wanted, change, text):
    one = disk()
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        configure(**change)
        service.reload()
        await until(lambda: text in service.config_error)
        assert json.loads((await get(service, "status.json"))[1])["config_error"]
        configure()
        service.reload()
        await until(lambda: not service.config_error)
        assert one.opened == 1


async def test_a_reload_tries_again_at_once(configure, disk, wanted):
    one = disk()
    fault = [True]

    def fail():
        if fault:
            raise ZeroDivisionError

    one.before_open = fail
    async with running(configure({"retry_seconds": 600})) as service:
        await until(lambda: route(service).observation.state is RouteState.FAILED)
        fault.clear()
        service.reload()
        await until(lambda: one.lines == wanted, 20)


async def test_one_daemon_at_a_time(configure, disk):
    disk()
    path = configure()
    async with running(path) as service:
        await until(lambda: service.http is not None)
        with pytest.raises(ConfigError, match="another daemon uses it"):
            StateLock(read_config(path, {}).state)
    StateLock(read_config(path, {}).state).release()


async def test_systemd_is_reported(configure, disk, tmp_path, monkeypatch, wanted):
    one = disk()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "150000")
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
        said = []

        def hear():
            while True:
                try:
                    said.append(listener.recv(4096).decode())
                except BlockingIOError:
                    return said

        async with running(configure()) as service:
            # The socket holds ten messages: it is read all the time, or a busy machine loses some.
            await until(lambda: hear() and one.lines == wanted and service.http is not None)
            await until(lambda: hear().count("WATCHDOG=1") >= 2)
            service.reload()
            await until(lambda: any(text.startswith("RELOADING=1\nMONO") for text in hear()))
            await until(lambda: "READY=1" in hear())
            service.reload()  # ended by the stop
        states = [text for text in hear() if text != "WATCHDOG=1"]
        assert states[0] == f"READY=1\nMAINPID={os.getpid()}"
        assert states[-1] == "STOPPING=1"


def test_no_systemd_is_no_fault(tmp_path):
    Notifier({}).send("READY=1")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "none")}).send("READY=1")
    assert Notifier({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).watchdog_seconds is None


def test_the_unit_names_what_it_runs(configure, tmp_path):
    config = read_config(configure({"path": "out/lines.db"}), {})
    text = unit_file(config, Path("/usr/bin/replica-client"))
    assert f"ExecStart=/usr/bin/replica-client run {config.file}\n" in text
    assert "Type=notify" in text
    assert "WatchdogSec=60" in text
    for line in ("UMask=0077", "CapabilityBoundingSet=", "StartLimitBurst=10"):
        assert f"\n{line}\n" in text
    if shutil.which("systemd-analyze"):
        unit = tmp_path / "replica-client.service"
        unit.write_text(text.replace("/usr/bin/replica-client", "/bin/true"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert f"ReadWritePaths={config.directory}/out\n" in text


def test_the_unit_quotes_paths(tmp_path):
    directory = tmp_path / 'a "b" 5%n $HOME'
    directory.mkdir()
    path = directory / "c.toml"
    path.write_text(
        """[[source]]
name = "s"
url = "mysql://repl@db1/"
[[source.sink]]
name = "lines"
type = "file"
path = "out/lines"
"""
    )
    text = unit_file(read_config(path, {}), Path("/opt/my tools/replica-client"))
    shown = str(directory).replace('"', '\\"').replace("%", "%%")
    argument = shown.replace("$", "$$")
    assert f'ExecStart="/opt/my tools/replica-client" run "{argument}/c.toml"\n' in text
    assert f'ReadWritePaths="{shown}/out"\n' in text
    if shutil.which("systemd-analyze"):
        unit = tmp_path / "replica-client.service"
        unit.write_text(text.replace('"/opt/my tools/replica-client"', "/bin/true"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_may_write_what_the_configuration_names(tmp_path):
    (tmp_path / "c.toml").write_text(
        """[store]
path = "positions"
[[source]]
name = "s"
url = "mysql://repl@db1/"
tables = ["shop.*"]
[[source.sink]]
name = "lines"
type = "file"
path = "out/lines"
dead_letters = "letters/lines.jsonl"
"""
    )
    text = unit_file(read_config(tmp_path / "c.toml", {}), Path("/usr/bin/replica-client"))
    wanted = (tmp_path / one for one in ("letters", "out", "positions"))
    assert f"ReadWritePaths={' '.join(map(str, wanted))}\n" in text


class Clock:
    def __init__(self):
        self.monotonic, self.wall = 1000.0, 5_000_000.0

    def pass_(self, seconds):
        self.monotonic += seconds
        self.wall += seconds


class Dump:
    queued = 0


class Stream:
    """What an observation asks of a stream."""

    def __init__(self):
        self.dump, self.loss, self.generation = Dump(), None, 1
        self.reached = Position("b.1", 4)


@pytest.mark.parametrize(
    "tried", [RouteState.OPENING_SINK, RouteState.COPYING, RouteState.CONNECTING]
)
def test_an_error_is_shown_until_a_commit_succeeded(tried):
    seen = Observation()
    seen.enter(tried)
    assert seen.shown_error == ""
    seen.enter(RouteState.RETRYING, "the disk is full")
    seen.enter(tried)
    assert (seen.shown_state, seen.shown_error) == (RouteState.RETRYING, "the disk is full")
    seen.attach(Stream())
    seen.enter(RouteState.STREAMING)
    assert (seen.shown_state, seen.shown_error) == (RouteState.RETRYING, "the disk is full")
    seen.pending.transactions = 1
    seen.did_commit(Position("b.1", 900), 0.01)
    assert (seen.shown_state, seen.shown_error) == (RouteState.STREAMING, "")
    assert [one.text for one in seen.errors] == ["the disk is full"]


def test_a_copy_after_a_failure_is_one_once_it_copies():
    seen = Observation()
    seen.enter(RouteState.FAILED, "no such right")
    seen.enter(RouteState.COPYING)
    assert seen.shown_state is RouteState.FAILED
    seen.copied_rows += 1
    assert seen.shown_state is RouteState.COPYING


async def test_histograms_of_commits(configure, disk, wanted):
    one = disk()
    async with running(configure()) as service:
        seen = service.routes[0].observation
        await until(lambda: seen.transactions == 18)
        text = pages_of(service)["/metrics"]().body.decode()
        commits = seen.commits
    for name, count in (("commit_seconds", commits), ("commit_lag_seconds", None)):
        found = [
            (line.split('le="')[1].split('"')[0], float(line.rsplit(" ", 1)[1]))
            for line in text.splitlines()
            if line.startswith(f"replica_client_{name}_bucket")
        ]
        assert len(found) == len(SECONDS) + 1
        assert found[-1][0] == "+Inf"
        counts = [value for _, value in found]
        assert counts == sorted(counts)
        assert counts[-1] == count if count else counts[-1] > 0
    # These changes are years old.
    assert 'commit_lag_seconds_bucket{le="1800.0",sink="one",source="shop"} 0.0' in text
    assert one.lines == wanted


def test_lag_is_that_of_the_oldest_change_and_0_when_idle():
    clock = Clock()
    seen = Observation(lambda: clock.wall, lambda: clock.monotonic)
    clock.pass_(3)
    assert seen.lag_seconds() == 3  # never connected: at most since the start
    stream = Stream()
    seen.attach(stream)
    seen.enter(RouteState.STREAMING)
    assert seen.lag_seconds() == 0
    clock.pass_(3600)
    assert seen.lag_seconds() == 0  # idle
    seen.pending.oldest = clock.wall - 2
    assert seen.lag_seconds() == pytest.approx(2)
    # Our clock jumps by an hour; the source's is known.
    seen.source_offset = clock.wall - clock.monotonic
    clock.wall += 3600
    assert seen.lag_seconds() == pytest.approx(2)
    clock.wall -= 7200
    assert seen.lag_seconds() == pytest.approx(2)
    seen.did_commit(Position("binlog.000001", 4), 0.1)
    assert seen.lag_seconds() == 0
    stream.dump = None
    assert seen.shown_state is RouteState.RECONNECTING
    clock.pass_(30)
    assert seen.lag_seconds() == 30
    stream.dump = Dump()
    assert seen.lag_seconds() == 0


def test_a_connection_that_is_lost_under_load_is_no_lag_of_since_the_last_rest():
    """Something was always on its way, so that no look found the sink level; it is behind by its last commit alone."""
    clock, stream = Clock(), Stream()
    seen = Observation(lambda: clock.wall, lambda: clock.monotonic)
    seen.attach(stream)
    seen.enter(RouteState.STREAMING)
    stream.dump.queued = 1
    clock.pass_(600)
    seen.pending.oldest, seen.pending.newest = clock.wall - 0.5, clock.wall - 0.25
    seen.did_commit(Position("b.1", 900), 0.01)
    assert seen.lag_seconds() == pytest.approx(0.25)
    stream.dump = None
    assert seen.lag_seconds() == pytest.approx(0.25)
    clock.pass_(30)
    assert seen.lag_seconds() == pytest.approx(30.25)
    # A clock of the source that went back tells nothing new of what was committed before.
    seen.source_offset = clock.wall - clock.monotonic - 3600
    assert seen.lag_seconds() == pytest.approx(30.25)


def end_at(offset, began, gtids="", file="b.1"):
    return SourceEnd(file, offset, gtids, {file: offset}, 0.0, "", began, began)


def test_what_is_on_its_way_to_a_starved_process_is_no_lag_of_0():
    """It waits in the system's buffers, or on the source: nothing here knows of it, but a look at the source does."""
    clock, stream = Clock(), Stream()
    seen = Observation(lambda: clock.wall, lambda: clock.monotonic)
    seen.attach(stream)
    seen.enter(RouteState.STREAMING)
    seen.saw_end(end_at(4, clock.monotonic))
    assert seen.is_level
    assert seen.lag_seconds() == 0
    seen.saw_end(end_at(900, clock.monotonic))
    clock.pass_(5)
    assert not seen.is_level
    assert seen.lag_seconds() == pytest.approx(5)
    # It is as old as at the first look that showed it.
    seen.saw_end(end_at(2000, clock.monotonic))
    clock.pass_(2)
    assert seen.lag_seconds() == pytest.approx(7)
    stream.reached = Position("b.1", 900)
    assert seen.lag_seconds() == pytest.approx(2)
    seen.saw_end(end_at(3000, clock.monotonic))
    clock.pass_(1)
    assert seen.lag_seconds() == pytest.approx(3)
    stream.reached = Position("b.1", 2000)
    assert seen.lag_seconds() == pytest.approx(1)
    stream.reached = Position("b.1", 3000)
    assert seen.lag_seconds() == 0


def test_what_an_old_look_did_not_find_is_no_lag_of_0():
    """Without a stream nothing says that nothing came since the look."""
    clock = Clock()
    seen = Observation(lambda: clock.wall, lambda: clock.monotonic)
    clock.pass_(60)
    seen.did_commit(Position("b.1", 900), 0.01)
    seen.saw_end(end_at(900, clock.monotonic))
    seen.enter(RouteState.FAILED, "Access denied")
    clock.pass_(3)
    assert seen.lag_seconds() == pytest.approx(3)
    seen.saw_end(end_at(900, clock.monotonic))
    assert seen.lag_seconds() == 0
    # Another run begins with what this one knew, not with the time of its start.
    clock.pass_(5)
    later = Observation(lambda: clock.wall, lambda: clock.monotonic)
    later.recall(seen.committed, 0.0, seen.current_at)
    assert later.lag_seconds() == pytest.approx(5)


def test_the_files_of_another_host_are_none_to_wait_for():
    have, more = (GtidSet.parse(f"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{at}") for at in (7, 8))
    behind = Position("b.1", 4, have)
    assert not end_at(900, 0.0, str(have)).is_ahead_of(behind)
    assert end_at(900, 0.0, str(more)).is_ahead_of(behind)
    assert end_at(900, 0.0).is_ahead_of(behind)
    assert not end_at(900, 0.0, str(more), "other.1").is_ahead_of(behind)


def test_bytes_behind():
    sizes = {"b.1": 100, "b.2": 200, "b.3": 50}
    end = SourceEnd("b.3", 60, "", sizes, 0.0, "", 0.0, 0.0)
    assert end.bytes_behind(Position("b.3", 20)) == 40
    assert end.bytes_behind(Position("b.1", 30)) == 70 + 200 + 60
    assert end.bytes_behind(Position("b.2", 200)) == 60
    assert end.bytes_behind(Position("b.0", 4)) is None
    assert end.bytes_behind(Position("b.4", 4)) == 0  # begun since
    assert end.bytes_behind(Position("other.4", 4)) is None
    assert end.bytes_behind(None) is None


def test_json_lines_of_the_log():
    record = logging.LogRecord("replica_client", logging.WARNING, "", 1, "ä %s", ("b",), None)
    entry = json.loads(logs.JsonFormatter().format(record))
    assert (entry["level"], entry["message"], entry["logger"]) == (
        "warning",
        "ä b",
        "replica_client",
    )
    assert entry["time"].endswith("+00:00")


@pytest.mark.parametrize("holds", [True, False])
async def test_the_saved_position_is_shown_while_the_source_is_away(
    configure, disk, wanted, source, holds
):
    one = disk(holds=holds)
    async with running(configure()) as service:
        await until(lambda: one.lines == wanted)
        await until(lambda: route(service).observation.committed is not None)
        await until(lambda: service.lag_bytes(route(service)) == 0)
        committed = route(service).observation.committed
    await source.close()
    async with running(configure()) as service:
        await until(lambda: bool(route(service).observation.errors) and service.http is not None)
        status = json.loads((await get(service, "status.json"))[1])
        assert status["routes"][0]["state"] in ("retrying", "connecting", "opening sink")
        shown = status["routes"][0]
        assert (shown["file"], shown["offset"]) == (committed.file, committed.offset)
        assert route(service).observation.committed == committed


def test_a_damaged_saved_state_needs_an_operator():
    with pytest.raises(PositionStoreError) as caught, reading_state_of(None):
        SchemaHistory.from_state("x")
    assert not is_passing(caught.value)
    assert str(caught.value).startswith("the saved position is damaged: ")


def test_a_damaged_saved_state_names_its_file(tmp_path):
    store = FilePositionStore(tmp_path / "p")
    with pytest.raises(PositionStoreError) as caught, reading_state_of(store):
        SchemaHistory.from_state("x")
    assert str(caught.value).startswith(f"position file {tmp_path / 'p'} is damaged: ")


@pytest.mark.slow
async def test_a_pattern_that_matches_nothing_is_reported_once(configure, disk, wanted, caplog):
    one = disk()
    path = configure(source={"tables": ["shop.*", "shpo.orders"]})
    async with running(path) as service:
        await until(lambda: one.lines == wanted)
        await until(lambda: "shpo.orders" in caplog.text)
        samples = service.history(service.routes[0]).to_json
        looks = len(samples())
        await until(lambda: len(samples()) > looks + 3)
    (stated,) = [r.getMessage() for r in caplog.records if "shpo.orders" in r.getMessage()]
    assert stated.startswith("shop.one: no table was read so far")
    assert "shop.*" not in stated


@pytest.mark.slow
async def test_patterns_that_match_are_not_reported(configure, disk, wanted, caplog):
    one = disk()
    async with running(configure(source={"tables": ["shop.*"]})) as service:
        await until(lambda: one.lines == wanted)
        await until(lambda: service.routes[0] in service._looked)
        await until(lambda: len(service._tasks) == 1)
    assert "no table was read" not in caplog.text


@pytest.mark.parametrize("where", ["write_delay", "delay"])
async def test_a_sink_that_is_stuck_stops_no_other(configure, disk, wanted, where):
    disks = {name: disk(name) for name in ("stuck", "one", "two")}
    setattr(disks["stuck"], where, 3600.0)
    path = configure({"name": "stuck"}, {"name": "one"}, {"name": "two"})
    async with running(path) as service:
        await until(lambda: disks["one"].lines == wanted == disks["two"].lines)
        for name in ("one", "two"):
            seen = route(service, name).observation
            await until(lambda seen=seen: seen.lag_seconds() == 0.0)
            assert seen.rows == len(wanted)
        assert disks["stuck"].lines == []
        setattr(disks["stuck"], where, 0.0)
    # Of what was written and not committed nothing is lost: the next run begins where it was.
    async with running(path):
        await until(lambda: disks["stuck"].lines == wanted)
    assert [disks[name].lines for name in ("one", "two")] == [wanted, wanted]


async def test_what_a_killed_process_had_committed_is_no_lag(configure, disk, wanted):
    """It wrote down at most once a second what it had committed, and an age from before that."""
    one, path = disk(), configure()
    async with running(path) as service:
        await until(lambda: one.lines == wanted)
        await until(lambda: service.routes[0].observation.lag_seconds() == 0)
    memory = path.parent / "state" / "shop.one.memory.json"
    saved = json.loads(memory.read_text())
    saved["committed"]["offset"] -= 1
    memory.write_text(json.dumps({**saved, "oldest": 1.0}))
    async with running(path) as service:
        await until(lambda: service.routes[0].observation.lag_seconds() == 0)
