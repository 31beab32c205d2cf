"""Consumers that do not wait without end, and sources that are not there yet."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import ConnectError, StreamStateError
from replica_client.rows.json_values import change_to_json
from replica_client.testing import BinlogSource
from tests.recipes.served import served

DATA = Path(rc.__file__).parent / "testing" / "data"
WHOLE = [change_to_json(change) for change in rc.open_binlog(DATA).changes()]
QUICK = rc.ReconnectPolicy(first_delay=0.05, max_delay=0.1)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("way", ["wait_for", "timeout"])
async def test_a_time_limit_ends_no_iterator(way: str) -> None:
    """Each step has so little time that most of them are cancelled while they wait."""
    async with (
        BinlogSource(DATA) as source,
        rc.connect(source.url, start="earliest", heartbeat_period=1) as stream,
    ):
        given, expired, changes = [], 0, stream.changes()
        while len(given) < len(WHOLE) or expired < 5:
            try:
                if way == "wait_for":
                    change = await asyncio.wait_for(anext(changes), 0.02)
                else:
                    async with asyncio.timeout(0.02):
                        change = await anext(changes)
            except TimeoutError:
                expired += 1
            else:
                given.append(change_to_json(change))
        assert given == WHOLE


@pytest.mark.parametrize("kind", ["events", "transactions", "batches"])
async def test_nor_of_the_other_iterators(kind: str) -> None:
    async def drain(source: BinlogSource, limit: float | None) -> list[str]:
        given, options = [], {"start": "earliest", "stop_at_end": True}
        async with rc.connect(source.url, **options) as stream:  # type: ignore[arg-type]
            iterator: Any = getattr(stream, kind)()
            while True:
                try:
                    async with asyncio.timeout(limit):
                        given.append(repr(await anext(iterator))[:400])
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    return given

    async with BinlogSource(DATA) as source:
        assert await drain(source, 0.001) == await drain(source, None)


async def test_get_and_marks() -> None:
    async with (
        BinlogSource(DATA) as source,
        rc.connect(source.url, start="earliest", heartbeat_period=1) as stream,
    ):
        given = [await stream.get(timeout=10) for _ in WHOLE]
        assert [change_to_json(one) for one in given if one is not None] == WHOLE
        started = time.monotonic()
        assert await stream.get(timeout=0.1) is None
        assert await stream.get(timeout=0.1) is None
        assert time.monotonic() - started < 5
    async with (
        BinlogSource(DATA) as source,
        rc.connect(source.url, start="earliest", heartbeat_period=1) as stream,
    ):
        marks, rows = 0, []
        async for change in stream.changes(timeout=0.1):
            if change is None:
                marks += len(rows) == len(WHOLE)
                if marks == 3:
                    break
            else:
                rows.append(change_to_json(change))
        assert rows == WHOLE


def test_get_and_marks_without_asyncio() -> None:
    with served() as source:
        with rc.follow(source.url, start="earliest", heartbeat_period=1) as stream:
            given = [stream.get(timeout=10) for _ in WHOLE]
            assert [change_to_json(one) for one in given if one is not None] == WHOLE
            assert stream.get(timeout=0.1) is None
        with rc.follow(source.url, start="earliest", stop_at_end=True) as stream:
            rows = list(iter(stream.get, None))
            assert len(rows) == len(WHOLE)
            assert stream.get() is None
        with rc.follow(source.url, start="earliest", heartbeat_period=1) as stream:
            kept = []
            for change in stream.changes(timeout=0.1):
                if change is None and len(kept) == len(WHOLE):
                    break
                if change is not None:
                    kept.append(change)
            assert stream.position == kept[-1].position or not stream.position.inside_transaction


@pytest.mark.parametrize("limit", ["1", True, -1.0, float("inf"), float("nan")])
def test_limits_that_are_none(limit: Any) -> None:
    with served() as source, rc.follow(source.url, start="earliest") as stream:
        with pytest.raises(rc.ConfigError, match="timeout"):
            stream.get(timeout=limit)
        with pytest.raises(rc.ConfigError, match="timeout"):
            stream.changes(timeout=limit)


def test_closed_inside_the_loop_it_gives_nothing_more() -> None:
    for after in (1, 4, 20):
        with served() as source:
            given = []
            with rc.follow(source.url, start="earliest", stop_at_end=True) as stream:
                for change in stream:
                    given.append(change)
                    if len(given) == after:
                        stream.close()
            assert len(given) == after


def test_misuse_is_no_transport_error() -> None:
    stream = rc.follow("mysql://root@127.0.0.1:1/")
    for use in (stream.acknowledge, stream.flush, lambda: next(stream.changes())):
        with pytest.raises(StreamStateError) as caught:
            use()
        assert isinstance(caught.value, RuntimeError)
        assert not isinstance(caught.value, rc.TransportError)


async def test_the_first_connection_is_tried_until_the_source_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    url = f"mysql://repl:secret@127.0.0.1:{port}/"

    async def read() -> list[str]:
        async with rc.connect(url, start="earliest", stop_at_end=True, reconnect=QUICK) as stream:
            return [change_to_json(change) async for change in stream.changes()]

    with caplog.at_level(logging.WARNING):
        reading = asyncio.create_task(read())
        while len(caplog.records) < 3:  # noqa: ASYNC110  # a log has no event to wait for
            await asyncio.sleep(0.01)
        async with BinlogSource(DATA, port=port):
            assert await reading == WHOLE
    assert "cannot connect" in caplog.text
    assert "Connection refused" in caplog.text
    assert "secret" not in caplog.text


async def test_tries_that_are_counted() -> None:
    url = f"mysql://root@127.0.0.1:{free_port()}/"
    policy = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0, first_attempts=3)
    for options in ({"attempts": 2}, {"reconnect": policy}):
        with pytest.raises(ConnectError, match="Connection refused"):
            async with rc.connect(url, **options):  # type: ignore[arg-type]
                pass


async def test_what_no_other_try_changes_is_told_at_once() -> None:
    async with BinlogSource(DATA) as source:
        started = time.monotonic()
        refused = source.url.replace("repl:secret@", "repl:wrong@")
        assert refused != source.url
        for url in ("mysql://root@no-such-host.invalid:3306/", refused):
            with pytest.raises((ConnectError, rc.ServerError, rc.ConfigError)):
                async with rc.connect(url):
                    pass
        assert time.monotonic() - started < 20


@pytest.mark.parametrize("wrong", [5, True, "forever", 0.5])
def test_a_policy_that_is_none(wrong: Any) -> None:
    with pytest.raises(rc.ConfigError, match=r"rc\.ReconnectPolicy\(…\), or attempts=N"):
        rc.connect("mysql://root@127.0.0.1:1/", reconnect=wrong)


def test_a_source_that_comes_back_is_followed_on() -> None:
    """A stream outlives its source for longer than the tries of earlier releases lasted."""
    port = free_port()

    async def serve(ready: threading.Event, end: threading.Event) -> None:
        async with BinlogSource(DATA, port=port):
            ready.set()
            await asyncio.to_thread(end.wait)

    def start() -> tuple[threading.Thread, threading.Event]:
        ready, end = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(serve(ready, end)))
        thread.start()
        assert ready.wait(20)
        return thread, end

    policy = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)
    url = f"mysql://repl:secret@127.0.0.1:{port}/"
    thread, end = start()
    with rc.follow(url, start="earliest", heartbeat_period=1, reconnect=policy) as stream:
        given = [stream.get(timeout=20) for _ in WHOLE]
        assert None not in given
        end.set()
        thread.join()
        assert stream.get(timeout=0.5) is None  # some hundred tries
        thread, end = start()
        assert stream.get(timeout=0.5) is None
    end.set()
    thread.join()
