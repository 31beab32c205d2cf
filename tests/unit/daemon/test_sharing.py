"""Sinks that want the same share a connection; each gets each change once, whatever their speeds and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replica_client import open_binlog
from replica_client.daemon.route import Route
from replica_client.daemon.service import Service
from replica_client.errors import SinkError
from replica_client.rows.json_values import change_to_json
from replica_client.testing import BinlogSource
from tests.unit.daemon.conftest import running, until
from tests.unit.daemon.shared_workload import RowMaker, SharedWorkload, check, open_dumps

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("seed", range(1, 9))
async def test_each_change_once_whatever_the_speeds(tmp_path, disk, seed):
    workload = SharedWorkload(tmp_path, seed)
    check(workload, await workload.run())


@pytest.fixture
def maker() -> RowMaker:
    """Makes what the source has."""
    made = RowMaker()
    made.statement(b"CREATE DATABASE shop")
    for at in range(20):
        made.rows(1 + at % 3, 50)
    made.statement(b"ALTER TABLE shop.t COMMENT 'c'")
    made.rows(1, 10)
    return made


@pytest.fixture
async def source(maker: RowMaker, tmp_path: Path) -> AsyncIterator[BinlogSource]:
    folder = tmp_path / "source"
    folder.mkdir()
    maker.save(folder / "binlog.000001")
    async with BinlogSource(folder) as one:
        yield one


@pytest.fixture
def wanted(source: BinlogSource, tmp_path: Path) -> list[str]:
    files = sorted((tmp_path / "source").iterdir())
    return [change_to_json(change) for change in open_binlog(files).changes()]


def route(service: Service, name: str) -> Route:
    return next(one for one in service.routes if one.config.sink.name == name)


def shares(service: Service) -> dict[str, int]:
    return {one.config.sink.name: one.observation.sharing for one in service.routes}


@pytest.fixture
def sinks(configure):
    """`sinks(name, …, source={})`: a configuration of sinks that want the same."""

    def write(*names, source=None, **options):
        return configure(*({"name": name, **options} for name in names), source=source or {})

    return write


async def test_sinks_that_begin_together_have_one_connection(sinks, disk, wanted, source):
    one, two, three = disk("one"), disk("two", holds=False), disk("three")
    async with running(sinks("one", "two", "three")) as service:
        await until(lambda: one.lines == two.lines == three.lines == wanted)
        assert shares(service) == {"one": 3, "two": 3, "three": 3}
        assert open_dumps(service.routes) == 1
        assert all(one.observation.reconnects == 0 for one in service.routes)
        await until(lambda: all(service.lag_bytes(one) == 0 for one in service.routes))
    # Each goes on behind its own last commit, and they share again.
    async with running(sinks("one", "two", "three")) as service:
        await until(lambda: set(shares(service).values()) == {3})
        await asyncio.sleep(0.2)
    assert one.lines == two.lines == three.lines == wanted


@pytest.mark.parametrize(
    ("first", "second", "of_source"),
    [
        ({"tables": ["shop.n*"]}, {}, {}),
        ({"columns": ["v"]}, {}, {}),
        ({}, {}, {"shared_connection": False}),
    ],
)
async def test_sinks_that_want_other_things_do_not_share(configure, disk, first, second, of_source):
    disk("one"), disk("two")
    path = configure({"name": "one", **first}, {"name": "two", **second}, source=of_source)
    async with running(path) as service:
        await until(lambda: all(one.observation.commits for one in service.routes))
        assert set(shares(service).values()) == {1}
        assert open_dumps(service.routes) == 2


async def test_a_sink_that_fails_ends_no_shared_stream_and_joins_again(
    sinks, disk, wanted, maker, source, monkeypatch
):
    monkeypatch.setattr("replica_client.daemon.sink_stream._LOOK_SECONDS", 0.01)
    good, bad = disk("good"), disk("bad")
    fails = [True, True]

    def fail(given):
        if fails and len(good.lines) == len(wanted):
            fails.pop()
            raise SinkError("away", retriable=True)

    bad.before_commit = fail
    bad.delay = 0.05
    async with running(sinks("good", "bad")) as service:
        await until(lambda: good.lines == bad.lines == wanted)
        assert not fails
        stream = route(service, "good").observation.stream
        assert route(service, "good").observation.reconnects == 0
        assert route(service, "good").observation.retries == 0
        assert route(service, "bad").observation.retries == 2
        # What comes next brings them together.
        source.append(maker.rows(1, 10))
        await until(lambda: len(good.lines) == len(bad.lines) == len(wanted) + 1)
        await until(lambda: shares(service) == {"good": 2, "bad": 2})
        assert route(service, "good").observation.stream is stream


async def test_a_slow_sink_leaves_and_joins_when_it_is_level(
    sinks, disk, wanted, maker, source, monkeypatch
):
    monkeypatch.setattr("replica_client.daemon.sink_stream._LOOK_SECONDS", 0.01)
    monkeypatch.setattr("replica_client.daemon.sink_stream._AGAIN_SECONDS", 0.1)
    fast, slow = disk("fast"), disk("slow")
    async with running(sinks("fast", "slow", source={"spool_bytes": 60_000})) as service:
        await until(lambda: shares(service) == {"fast": 2, "slow": 2})
        await until(lambda: fast.lines == slow.lines == wanted)
        slow.write_delay = 0.2
        for _ in range(100):
            source.append(maker.rows(2, 300))
            await asyncio.sleep(0)
        await until(lambda: len(fast.lines) == len(wanted) + 200)
        assert len(slow.lines) < len(fast.lines)
        slow.write_delay = 0.0
        await until(lambda: slow.lines == fast.lines)
        source.append(maker.rows(1, 10))
        await until(lambda: shares(service) == {"fast": 2, "slow": 2})
        source.append(maker.rows(1, 10))
        await until(lambda: len(slow.lines) == len(fast.lines) == len(wanted) + 202)
    assert slow.lines == fast.lines


async def test_a_sink_that_falls_behind_inside_a_transaction_begins_it_again(
    sinks, disk, wanted, maker, source
):
    fast, slow = disk("fast"), disk("slow")
    path = sinks("fast", "slow", source={"spool_bytes": 40_000, "part_size": 4_000})
    async with running(path) as service:
        await until(lambda: fast.lines == slow.lines == wanted)
        assert shares(service) == {"fast": 2, "slow": 2}
        slow.write_delay = 0.3
        source.append(maker.rows(40, 1_000))
        await until(lambda: len(fast.lines) == len(wanted) + 40)
        slow.write_delay = 0.0
        await until(lambda: slow.lines == fast.lines)
        seen = route(service, "slow").observation
        assert seen.retries == 0
        assert not seen.errors


async def test_no_sink_joins_inside_a_transaction(sinks, disk, wanted, maker, source, monkeypatch):
    monkeypatch.setattr("replica_client.daemon.sink_stream._LOOK_SECONDS", 0.01)
    first, late = disk("first"), disk("late")
    async with running(sinks("first", "late", source={"part_size": 4_000})) as service:
        await until(lambda: first.lines == late.lines == wanted)
        await until(lambda: shares(service) == {"first": 2, "late": 2})
        begin = len(maker.events)
        maker.rows(40, 1_000)
        events = maker.events[begin:]
        # The source sends half of it: the shared stream is inside while the other sink begins again, at its start.
        seen = []
        first.before_write = seen.append
        late.before_write = fail_once = _FailOnce()
        source.append(b"".join(events[:40]))
        await until(lambda: len(seen) >= 3 and fail_once.failed)
        shared = route(service, "first").observation.stream._subscription.shared
        await until(lambda: shared.position.inside_transaction)
        # Its stream before is gone, and it has one of its own.
        await until(lambda: shares(service) == {"first": 1, "late": 1})
        await asyncio.sleep(0.3)
        assert shared.position.inside_transaction
        assert shares(service) == {"first": 1, "late": 1}
        source.append(b"".join(events[40:]))
        await until(lambda: len(first.lines) == len(late.lines) == len(wanted) + 40)
        source.append(maker.rows(1, 10))
        await until(lambda: shares(service) == {"first": 2, "late": 2})
        await until(lambda: len(first.lines) == len(late.lines) == len(wanted) + 41)
    assert first.lines == late.lines
    assert len(set(late.lines)) == len(wanted) + 41


class _FailOnce:
    failed = False

    def __call__(self, given):
        if not self.failed:
            self.failed = True
            raise SinkError("away", retriable=True)


async def test_a_reload_takes_a_sink_away_from_a_shared_connection(
    sinks, disk, wanted, maker, source, tmp_path
):
    one, two = disk("one"), disk("two")
    async with running(sinks("one", "two")) as service:
        await until(lambda: shares(service) == {"one": 2, "two": 2})
        await until(lambda: one.lines == two.lines == wanted)
        sinks("two")
        service.reload()
        await until(lambda: shares(service) == {"two": 1})
        source.append(maker.rows(1, 10))
        await until(lambda: len(two.lines) == len(wanted) + 1)
        assert route(service, "two").observation.reconnects == 0
        disk("one").lines = one.lines
        sinks("one", "two")
        service.reload()
        await until(lambda: len(shares(service)) == 2)
    assert len(one.lines) == len(wanted)


async def test_an_error_of_the_source_reaches_every_sink(sinks, disk, wanted, maker, source):
    one, two = disk("one"), disk("two")
    async with running(sinks("one", "two")) as service:
        await until(lambda: one.lines == two.lines == wanted)
        rows = maker.rows(1, 10)
        # Rows that name no table, behind some that are good.
        source.append(rows + maker.statement(b"INSERT INTO shop.t VALUES (1)"))
        await until(lambda: len(one.lines) == len(two.lines) == len(wanted) + 1)
        await until(lambda: all(str(r.observation.state) == "failed" for r in service.routes))
        assert "statement" in route(service, "one").observation.error


def test_server_ids_are_those_of_the_sinks(configure, disk):
    from replica_client.daemon.config_file import read_config
    from replica_client.daemon.sharing import SourceSharing

    disk("one"), disk("two")
    path = configure({"name": "one"}, {"name": "two"}, source={"server_id": 77})
    sharing = SourceSharing(read_config(path, {}).sources[0])
    assert [sharing.take_id(), sharing.take_id()] == [77, 78]
    sharing.give_id(77)
    assert sharing.take_id() == 77


async def test_where_another_server_takes_over_each_goes_on_and_they_share_again(
    sinks, disk, wanted, maker, source, tmp_path, monkeypatch
):
    monkeypatch.setattr("replica_client.daemon.sink_stream._LOOK_SECONDS", 0.01)
    other = tmp_path / "other"
    other.mkdir()
    # Its file has a name that sorts before that of the first.
    maker.save(other / "a.000007")
    one, two = disk("one"), disk("two", holds=False)
    async with BinlogSource(other) as second:
        second.server_uuid = "11111111-2222-3333-4444-555555555555"
        hosts = f"mysql://repl:secret@127.0.0.1:{source.port},127.0.0.1:{second.port}/"
        path = sinks("one", "two", source={"url": hosts})
        async with running(path) as service:
            await until(lambda: one.lines == two.lines == wanted)
            assert shares(service) == {"one": 2, "two": 2}
            await source.__aexit__(None, None, None)
            for count in range(1, 4):
                second.append(maker.rows(1, 10))
                await until(lambda: len(one.lines) == len(two.lines) == len(wanted) + count)  # noqa: B023
            await until(lambda: shares(service) == {"one": 2, "two": 2})
            assert one.checkpoint is not None
            assert one.checkpoint.position.file == "a.000007"
            assert one.checkpoint.state["source"]["server_uuid"] == second.server_uuid
            assert not route(service, "one").observation.errors
    assert one.lines == two.lines
    assert len(set(one.lines)) == len(wanted) + 3
