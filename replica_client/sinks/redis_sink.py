"""Row changes as entries of a Redis stream: exactly once.

Each change is an entry ``value: JSON`` of the stream. Entries and the position after them are
written in one MULTI/EXEC. A commit of more than ``chunk_entries`` entries takes several: each saves
the number of entries that the stream has after the saved position, and after a crash as many
entries are skipped. Readers can thus see a prefix of a large commit for a moment, and of a larger
transaction. They never see a change that was not committed on the source: parts of a transaction
wait in a temporary file until the transaction is complete.

The position is the hash ``POSITION_KEY``. It is checked in every MULTI/EXEC: if Redis lost its last
writes in a crash, the sink goes on after the writes that remain. Redis Cluster is not supported
unless both keys have the same hash tag.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from replica_client.errors import ConfigError, PositionFormatError, SinkError
from replica_client.protocol.position import Position
from replica_client.sinks.formats.line_format import (
    FormatOptions,
    LineFormat,
    OutboxFormat,
    chosen_format,
)
from replica_client.sinks.line_sinks import encode_lines, encode_messages
from replica_client.sinks.protocol import Guarantee, SnapshotRows
from replica_client.sinks.registry import Count, Period, Whole, read_options
from replica_client.sinks.writing import Batches, Worker, in_thread, os_errors
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.growing import GrowingKeys
from replica_client.stream.position.stores.ownership import (
    BEAT_SECONDS,
    Claim,
    Lease,
    Owner,
    fenced,
    unknown_owner,
)
from replica_client.stream.transactions.transaction import Transaction

_MAY_PASS = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.WatchError,
    exceptions.TryAgainError,
    exceptions.ExecAbortError,
)
_NEVER_PASS = (exceptions.AuthenticationError, exceptions.NoPermissionError)
_PASSING_WORDS = (
    "OOM ",
    "LOADING ",
    "READONLY ",
    "MASTERDOWN ",
    "NOREPLICAS ",
    "MISCONF ",
    "BUSY ",
)


@contextmanager
def redis_errors(where: str) -> Iterator[None]:
    """Raise errors of Redis in the block as ``SinkError``.

    Args:
        where: the server, without credentials.
    """
    try:
        yield
    except exceptions.RedisError as error:
        text = str(error)
        passing = not isinstance(error, _NEVER_PASS) and (
            isinstance(error, _MAY_PASS) or text.startswith(_PASSING_WORDS)
        )
        raise SinkError(f"Redis at {where}: {text[:300]}", retriable=passing) from error
    except OSError as error:
        raise SinkError(f"Redis at {where}: {error}", retriable=True) from error


_LOG = logging.getLogger("replica_client.sinks")
_CHUNK_BYTES = 4 << 20
_CLOCK = re.compile(rb'"ts(?:_ms|_us|_ns)?":[0-9]+')


class RedisOptions(FormatOptions, frozen=True, kw_only=True):
    """Options of the sink ``redis``.

    Attributes:
        url: URL ``redis://:password@host:6379/0``, ``rediss://…`` or ``unix:///path?db=0``.
        stream: key of the stream.
        position_key: key of the position; by default the stream's key with ``:position`` as suffix.
        maxlen: approximate maximum number of entries in the stream; 0: no limit.
        chunk_entries: maximum entries of one MULTI/EXEC.
        memory_bytes: bytes of waiting entries that are kept in memory; further entries go to a
            temporary file.
        timeout: seconds without an answer after which the connection counts as dead.
    """

    url: str
    stream: str = "replica_client"
    position_key: str = ""
    maxlen: Whole = 0
    chunk_entries: Count = 2000
    memory_bytes: Count = 16 << 20
    timeout: Period = 30.0


def make(table: Mapping[str, object]) -> RedisSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(RedisOptions, table, "sink redis")
    if urlsplit(options.url).scheme not in ("redis", "rediss", "unix"):
        raise ConfigError("sink redis: url must be redis://, rediss:// or unix://")
    return RedisSink(options, chosen_format(options))


class RedisSink:
    """The sink ``redis``; see the module.

    Args:
        options: what the user chose.
        line_format: the format of the entries' values.
    """

    guarantee = Guarantee.EXACTLY_ONCE
    holds_position = True

    def __init__(self, options: RedisOptions, line_format: LineFormat) -> None:
        self._options = options
        self._key = options.position_key or f"{options.stream}:position"
        parts = urlsplit(options.url)
        self._where = f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
        self._spool = LineSpool(line_format, options.memory_bytes)
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._spool.take))
        self._client: Redis | None = None
        self._version = b""
        self._ahead = 0
        self._last_digest = b""
        self._state = GrowingKeys()
        # Waiting snapshot rows could differ when read again: they are committed in one step.
        self._at_once = False
        self._claim: Claim | None = None
        self._lease = ""
        self._beats: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def claim(self, claim: Claim) -> None:
        self._claim = claim

    async def owners(self) -> Sequence[Owner]:
        with redis_errors(self._where):
            async with _client(self._options) as client:
                return await self._owners(client)

    async def saved(self) -> Checkpoint | None:
        with redis_errors(self._where):
            async with _client(self._options) as client:
                if self._claim is not None:
                    self._claim.resolve(await self._owners(client))
                    await self._choose_key(client, self._claim)
                saved: dict[Any, Any] = await client.hgetall(self._key)
                return self._read(saved)

    def route_outbox(self) -> None:
        self._spool.route_outbox()

    async def probe(self) -> None:
        with redis_errors(self._where):
            async with _client(self._options) as client:
                await client.ping()

    async def open(self) -> Checkpoint | None:
        options, self._at_once = self._options, False
        self._closing.clear()
        with redis_errors(self._where):
            client = self._client = _client(options)
            if self._claim is not None:
                await self._take_lease(client, self._claim)
            saved: dict[Any, Any] = await client.hgetall(self._key)
        return self._read(saved)

    # The identity of the writer, and its lease. A separate hash lists the owners of a stream.

    async def _owners(self, client: Redis) -> list[Owner]:
        found: dict[Any, Any] = await client.hgetall(f"{self._options.stream}:owners")
        try:
            return [Owner.from_json(json.loads(text)) for text in found.values()]
        except ValueError as error:
            raise SinkError(f"Redis at {self._where}: {error}") from error

    async def _choose_key(self, client: Redis, claim: Claim, *, take: bool = False) -> None:
        """Choose the key of the position.

        It is the plain key, or a key with the identity if another owner has the plain one.
        """
        self._key = self._options.position_key or f"{self._options.stream}:position"
        key = f"{self._key}:owner"
        if take and await client.get(key) == claim.takes_over.encode():
            await client.set(key, claim.owner.id)
        elif take:
            await client.set(key, claim.owner.id, nx=True)
        owner = _text(await client.get(key))
        if owner not in ("", claim.owner.id, claim.takes_over):
            if self._options.position_key:
                others = {one.id: one for one in await self._owners(client)}
                raise claim.foreign(self._key, others.get(owner) or unknown_owner(owner))
            self._key = f"{self._key}:{claim.owner.id}"

    async def _take_lease(self, client: Redis, claim: Claim) -> None:
        owners = await self._owners(client)
        mine = claim.resolve(owners)
        claim.check_owners(owners, f"stream {self._options.stream}")
        await self._choose_key(client, claim, take=True)
        async with client.pipeline(transaction=True) as pipe:
            await pipe.watch(f"{self._key}:lease", f"{self._options.stream}:owners")
            text = _text(await pipe.get(f"{self._key}:lease"))
            beat = _text(await pipe.get(f"{self._key}:beat"))
            try:
                taken = claim.take(Lease.from_text(text), beat)
            except ValueError as error:
                raise SinkError(f"Redis at {self._where}: {error}") from error
            pipe.multi()  # type: ignore[no-untyped-call]
            pipe.set(f"{self._key}:lease", taken.to_text())
            if claim.takes_over:
                pipe.hdel(f"{self._options.stream}:owners", claim.takes_over)
            pipe.hset(f"{self._options.stream}:owners", mine.id, json.dumps(mine.to_json()))
            await pipe.execute()
        self._lease = taken.to_text()
        self._beats = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Write heartbeats until the sink is closed."""
        async with _client(self._options) as client:
            # redis-py turns a cancellation while it connects into a timeout: cancelling alone would
            # not end the loop.
            while not self._closing.is_set():
                try:
                    await client.set(f"{self._key}:beat", secrets.token_hex(8))
                except (RedisError, OSError) as error:
                    # The sink reports errors of Redis; meanwhile the lease is not renewed.
                    _LOG.debug("no beat is written: %s", error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_SECONDS):
                        await self._closing.wait()

    async def _give_back(self, client: Redis) -> None:
        """Release the lease if this process still holds it."""
        lease = Lease.from_text(self._lease)
        if lease is None:
            return
        async with client.pipeline(transaction=True) as pipe:
            await pipe.watch(f"{self._key}:lease")
            if _text(await pipe.get(f"{self._key}:lease")) != self._lease:
                return
            pipe.multi()  # type: ignore[no-untyped-call]
            pipe.set(f"{self._key}:lease", replace(lease, holder="").to_text())
            await pipe.execute()

    def _read(self, saved: Mapping[bytes, bytes]) -> Checkpoint | None:
        if not saved:
            self._version, self._ahead, self._last_digest = b"", 0, b""
            return None
        try:
            self._version = saved[b"version"]
            self._ahead = int(saved[b"ahead"])
            self._last_digest = saved[b"last"]
            if not saved[b"position"]:
                return None
            parts = {key.decode(): value.decode() for key, value in saved.items()}
            state = self._state.read(parts[GrowingKeys.KEY], parts)
            return Checkpoint(Position.from_json(saved[b"position"].decode()), state)
        except (KeyError, ValueError, PositionFormatError) as error:
            raise SinkError(
                f"Redis at {self._where}: {self._key} is not a position of this release: {error}"
            ) from error

    async def write(self, transaction: Transaction) -> None:
        with os_errors("temporary file of the sink redis"):
            await self._batches.add(transaction)

    @property
    def takes_snapshot(self) -> bool:
        return not self._ahead

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        with os_errors("temporary file of the sink redis"):
            await self._batches.flush()
            await self._worker.run(self._spool.take_snapshot, rows)
        self._at_once = True

    async def commit(self, checkpoint: Checkpoint) -> None:
        with os_errors("temporary file of the sink redis"):
            await self._batches.flush()
        options, total, seen = self._options, self._spool.count, 0
        chunks = self._spool.chunks(options.chunk_entries, _CHUNK_BYTES)
        lines: list[bytes] = []
        kept: list[bytes] = []
        while seen < total:
            with os_errors("temporary file of the sink redis"):
                lines = await self._worker.run(next, chunks)
            seen += len(lines)
            lines = self._not_there_yet(lines)
            if self._at_once:
                kept += lines
            elif lines and seen < total:
                await self._execute(lines, {b"ahead": b"%d" % seen, b"last": _digest(lines[-1])})
        saved = {
            b"position": json.dumps(checkpoint.position.to_json()).encode(),
            b"ahead": b"%d" % self._ahead,
        }
        plan = self._state.plan(checkpoint.state)
        saved.update({key.encode(): value.encode() for key, value in plan.put.items()})
        await self._execute(kept or lines, saved, plan.gone)
        self._at_once = False
        self._state.saved(plan)
        await self._worker.run(self._spool.clear)

    def _not_there_yet(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that the stream does not have after the position yet."""
        passed = min(self._ahead, len(lines))
        self._ahead -= passed
        if passed and not self._ahead and _digest(lines[passed - 1]) != self._last_digest:
            raise SinkError(
                f"Redis at {self._where}: the entries of {self._options.stream} after the position differ from "
                f"those that are delivered again: the choice of tables or the format was changed in the middle of a "
                f"commit; set it back, or remove {self._key} and start over"
            )
        return lines[passed:]

    async def _execute(
        self, lines: list[bytes], saved: dict[bytes, bytes], gone: Sequence[str] = ()
    ) -> None:
        """Add entries and update the position's hash, if no other writer has changed it."""
        if self._client is None:
            raise SinkError(f"Redis at {self._where}: the sink is not open")
        version = secrets.token_hex(8).encode()
        trim: list[bytes | str | int] = []
        if self._options.maxlen:
            trim = ["MAXLEN", "~", self._options.maxlen]
        with redis_errors(self._where):
            async with self._client.pipeline(transaction=True) as pipe:
                await pipe.watch(self._key, f"{self._key}:lease")
                lease = _text(await pipe.get(f"{self._key}:lease"))
                found = await pipe.hget(self._key, "version") or b""
                if found != self._version:
                    raise SinkError(
                        f"Redis at {self._where}: {self._key} was changed by another writer, or Redis lost "
                        "its last writes",
                        retriable=True,
                    )
                if self._lease and lease != self._lease:
                    raise fenced(f"Redis at {self._where}, {self._key}")
                pipe.multi()  # type: ignore[no-untyped-call]
                for line in lines:
                    pipe.execute_command("XADD", self._options.stream, *trim, "*", "value", line)
                if not self._version:
                    saved = {b"position": b"", b"state": b"{}", b"last": b"", **saved}
                fields: dict[Any, Any] = {**saved, b"version": version}
                pipe.hset(self._key, mapping=fields)
                if gone:
                    pipe.hdel(self._key, *gone)
                await pipe.execute()
        self._version = version

    async def close(self) -> None:
        self._batches.clear()
        await self._worker.run(self._spool.clear)
        self._worker.stop()
        client, self._client = self._client, None
        beats, self._beats = self._beats, None
        self._closing.set()
        if beats is not None:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
        if client is not None:
            with contextlib.suppress(RedisError, OSError, TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._give_back(client)
            await client.aclose()


def _text(value: Any) -> str:
    """Return a value of Redis as text; empty for none."""
    return value.decode() if isinstance(value, bytes) else str(value or "")


def _client(options: RedisOptions) -> Redis:
    given: dict[str, Any] = {}
    if urlsplit(options.url).scheme == "rediss":
        # redis-py before 6 does not check the name in a certificate by default. The URL may
        # override this.
        given["ssl_check_hostname"] = True
    return Redis.from_url(
        options.url,
        **given,
        socket_timeout=options.timeout,
        socket_connect_timeout=options.timeout,
        # A MULTI/EXEC whose answer is lost must not be sent again.
        retry=Retry(NoBackoff(), 0),
    )


def _digest(line: bytes) -> bytes:
    """Return a digest that identifies a line. The time at which it was made is left out."""
    return hashlib.sha256(_CLOCK.sub(b"", line)).hexdigest().encode()


class LineSpool:
    """Stores lines in order.

    Args:
        line_format: the format of the lines.
        memory_bytes: maximum bytes that are kept in memory.

    Attributes:
        count: number of stored lines.
    """

    def __init__(self, line_format: LineFormat, memory_bytes: int) -> None:
        self._format = line_format
        self._memory_bytes = memory_bytes
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = None
        self.count = 0

    def route_outbox(self) -> None:
        """Write rows of outbox tables as messages from now on."""
        self._format = OutboxFormat(self._format)

    def take(self, transactions: Iterable[Transaction]) -> None:
        """Add the lines of transactions."""
        self._put(encode_lines(self._format, transactions))

    def take_snapshot(self, rows: SnapshotRows) -> None:
        """Add the lines of snapshot rows."""
        self._put(encode_messages(self._format.snapshot(rows)))

    def _put(self, pieces: Iterable[bytes | bytearray]) -> None:
        for data in pieces:
            if self._file is None:
                # Closed by clear, in another call.
                self._file = tempfile.SpooledTemporaryFile(self._memory_bytes)  # noqa: SIM115
            self._file.write(data)
            self.count += data.count(b"\n")

    def chunks(self, lines: int, size: int) -> Iterator[list[bytes]]:
        """Yield all lines without line ends, in lists.

        A list ends at ``lines`` lines, or with the line that reaches ``size`` bytes.
        """
        if self._file is None:
            return
        self._file.seek(0)
        chunk: list[bytes] = []
        buffered = 0
        for line in self._file:
            chunk.append(line[:-1])
            buffered += len(line)
            if len(chunk) >= lines or buffered >= size:
                yield chunk
                chunk, buffered = [], 0
        if chunk:
            yield chunk

    def clear(self) -> None:
        """Remove all lines."""
        file, self._file, self.count = self._file, None, 0
        if file is not None:
            file.close()
