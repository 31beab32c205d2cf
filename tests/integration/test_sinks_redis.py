"""The Redis sink on a real redis-server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from replica_client import Position
from replica_client.errors import SinkError
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.testing.sink_conformance import SimulatedCrashError, SinkConformance
from tests.integration.redis_server import RedisServer


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = RedisServer(Path(directory))
        yield server
        server.stop()


class TestRedis(SinkConformance):
    options: dict[str, Any] = {}

    @pytest.fixture(autouse=True)
    def _server(self, redis_server: RedisServer) -> None:
        self.server = redis_server

    def make_sink(self, target: Path) -> Sink:
        return make_sink("redis", {"url": self.server.url, "stream": str(target), **self.options})

    async def abandon(self, sink: Any) -> None:
        sink._spool.clear()
        if sink._client is not None:
            await sink._client.connection_pool.disconnect()

    async def content(self, target: Path) -> Any:
        with self.server.client() as client:
            return [entry[b"value"].decode() for _, entry in client.xrange(str(target))]


class TestRedisInChunks(TestRedis):
    """Commits of several MULTI/EXEC, of which any can be the last."""

    options = {"chunk_entries": 3, "memory_bytes": 100}
    step_stride = 3

    def test_killed_between_chunks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from replica_client.sinks.redis_sink import RedisSink

        expected = self._expected(tmp_path)
        original = RedisSink._execute
        calls = 0
        limit = 10**9

        async def execute(sink: RedisSink, lines: list[bytes], *rest: Any) -> None:
            nonlocal calls
            if calls >= limit:
                raise SimulatedCrashError
            calls += 1
            await original(sink, lines, *rest)

        monkeypatch.setattr(RedisSink, "_execute", execute)
        self._run(self._target(tmp_path, "counted"), self._saved())
        total, seen = calls, set()
        for number in range(total):
            target, saved = self._target(tmp_path, f"chunk-{number}"), self._saved()
            calls, limit = 0, number
            assert self._killed(target, saved, lambda: None)
            with self.server.client() as client:
                seen.add(int(client.hget(f"{target}:position", "ahead") or 0) > 0)
            limit = 10**9
            self._run(target, saved)
            self._assert_same(target, expected)
        assert seen == {False, True}

    @staticmethod
    def _saved() -> Any:
        from replica_client.testing import sink_conformance

        return sink_conformance._Saved()


async def test_a_redis_that_is_killed_and_comes_back(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    sink = make_sink("redis", {"url": server.url, "stream": "s", "timeout": 2.0})
    try:
        assert await sink.open() is None
        await sink.commit(Checkpoint(Position("b.000001", 4)))
        server.kill()
        with pytest.raises(SinkError) as caught:
            await sink.commit(Checkpoint(Position("b.000001", 8)))
        assert caught.value.retriable
        await sink.close()
        server.start()
        checkpoint = await sink.open()
        assert checkpoint is not None and checkpoint.position == Position("b.000001", 4)
        await sink.commit(Checkpoint(Position("b.000001", 8)))
    finally:
        await sink.close()
        server.stop()


async def test_a_second_writer_and_lost_writes_are_noticed(redis_server: RedisServer) -> None:
    first, second = (
        make_sink("redis", {"url": redis_server.url, "stream": "two"}) for _ in range(2)
    )
    await first.open()
    await second.open()
    await first.commit(Checkpoint(Position("b.000001", 4)))
    with pytest.raises(SinkError, match="another writer, or Redis lost") as caught:
        await second.commit(Checkpoint(Position("b.000001", 4)))
    assert caught.value.retriable
    await first.close()
    await second.close()


async def test_the_password_is_in_no_message(redis_server: RedisServer) -> None:
    sink = make_sink("redis", {"url": "redis://user:hush@127.0.0.1:1/0", "timeout": 2.0})
    with pytest.raises(SinkError) as caught:
        await sink.open()
    assert caught.value.retriable
    assert "hush" not in str(caught.value)
    await sink.close()
    with redis_server.client() as client:
        assert isinstance(client, redis.Redis)
