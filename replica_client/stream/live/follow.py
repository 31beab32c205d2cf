"""A live source without asyncio: the stream runs in its own thread, and the iterators are ordinary."""

# Over 500 lines: the four iterators of a live source without asyncio, and the loop that they share.

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as WorkCancelledError, Future
from contextlib import aclosing, suppress
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, overload

from replica_client.errors import USER_BOUNDARY, ConfigError, PositionStoreError, StreamStateError
from replica_client.options import check_names, checked_types
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.position import Position
from replica_client.rows.row_change import AnyChange
from replica_client.schema.history import SchemaHistory
from replica_client.stream.live.connect import connect
from replica_client.stream.live.grouped import check_timeout
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.position.losses import LossLedger
from replica_client.stream.transactions import inside
from replica_client.stream.transactions.inside import (
    Acknowledged,
    GivenChange,
    GivenChanges,
    acknowledged_position,
    position_at,
)
from replica_client.stream.transactions.loss_watch import Notice, SynchronousOnly, changes_of
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.server_statements import ServerInfo

if TYPE_CHECKING:
    from replica_client.rows.batching import RecordBatch

_P = ParamSpec("_P")
_T = TypeVar("_T")

_TASK_NAME = "replica_client iterator"

CHUNK_SIZE = 128
"""Number of waiting items from which on a chunk is sent, although the stream has more at hand.

The garbage collector would visit all objects of larger chunks again and again while they wait.
"""

_Mark = Position | Transaction
_Chunk = tuple[list[Any], _Mark | None]
"""Items, and the position after the last of them; None: each item stands for the position after it.
"""


class FollowedSource(SynchronousOnly):
    """A live source with ordinary iterators; a context manager, made by :func:`follow`.

    The stream is a :class:`~replica_client.stream.live.source_stream.SourceStream` in a thread of
    its own and behaves the same: it answers heartbeats and reconnects while your code works, and
    stops reading while you lag behind. It reads a little ahead; :attr:`position` and what
    :meth:`acknowledge` saves never do.

    One of its iterators may be used, by one thread; requesting it again continues where it stopped.
    Any thread may call :meth:`close`: a waiting iterator then ends.

    ::

        for change in rc.follow("mysql://repl:secret@db1/", tables=["shop.*"]):
            print(change.kind, change.table, change.before, change.after)

    Args:
        stream: not yet entered.

    Examples:
        >>> with rc.follow(url, start="earliest", stop_at_end=True) as stream:
        ...     sum(len(transaction.changes) for transaction in stream.transactions())
        87
    """

    def __init__(self, stream: SourceStream) -> None:
        self._stream = stream
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Lock()
        self._work: set[Future[Any]] = set()
        self._iterator: tuple[str, Iterator[Any]] | None = None
        self._given: _Mark = Position("", 0)
        self._acknowledged: Position | None = None
        # Acknowledged here, not yet passed to the thread.
        self._untold = False
        self._unsaved: PositionStoreError | None = None
        self._change: GivenChange | None = None
        self._changes_given = GivenChanges()
        self._timeout: float | None = None
        self._closed = False

    # Lifecycle.

    def open(self) -> Self:
        """Connect, as entering the ``with`` block does.

        Raises:
            ConfigError: an option is wrong.
            ServerError: the source refuses.
            TransportError: it cannot be reached.
            PositionStoreError: the saved position cannot be read.
        """
        if self._thread is not None:
            raise StreamStateError("this stream was opened before; call follow() again")
        loop = asyncio.new_event_loop()
        self._loop = loop
        self._thread = threading.Thread(target=loop.run_forever, name="replica_client", daemon=True)
        self._thread.start()
        try:
            self._given = self._run(self._enter())
            self._acknowledged = self._stream.acknowledged
        except BaseException:
            self._stop_thread()
            raise
        return self

    async def _enter(self) -> Position:
        await self._stream.__aenter__()
        return self._stream.position

    def close(self) -> None:
        """Save what was acknowledged, close the connection, and end the thread.

        May be called again, and by any thread.

        Raises:
            PositionStoreError: the position that was acknowledged last could not be saved.
        """
        self._close(None)

    def _close(self, kind: type[BaseException] | None) -> None:
        with self._closing:
            if self._loop is None or self._loop.is_closed():
                return
            self._closed = True
            position = self._changes_given.close(self._acknowledged)
            if position is not None:
                self._acknowledged, self._untold = position, True
                self._loop.call_soon_threadsafe(self._tell)
            for work in tuple(self._work):
                work.cancel()
            try:
                asyncio.run_coroutine_threadsafe(self._leave(kind), self._loop).result()
            finally:
                self._stop_thread()

    async def _leave(self, kind: type[BaseException] | None) -> None:
        await _end_other_tasks(_TASK_NAME)
        await self._stream.__aexit__(kind)

    def _stop_thread(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_end_other_tasks(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        self._close(kind)

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the stream's thread, and wait for the result."""
        loop = self._loop
        if loop is None or loop.is_closed():
            work.close()
            raise self._not_open()
        future = asyncio.run_coroutine_threadsafe(work, loop)
        self._work.add(future)
        try:
            with USER_BOUNDARY:
                return future.result()
        except WorkCancelledError:
            raise StreamStateError("the stream was closed") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._work.discard(future)

    def _not_open(self) -> StreamStateError:
        if self._loop is None:
            return StreamStateError("the stream is not open; use `with follow(…) as stream:`")
        return StreamStateError("the stream is closed; call follow() again")

    # State of the stream.

    @property
    def position(self) -> Position:
        """The safe resume point after everything that the iterators delivered."""
        if isinstance(self._given, Transaction):
            self._given = self._given.position
        if self._change is not None:
            return position_at(self._given, self._change)
        return self._given

    @property
    def acknowledged(self) -> Position | None:
        """The position that was acknowledged last."""
        return self._acknowledged

    @property
    def server(self) -> ServerInfo | None:
        """The source; None before the first connection."""
        return self._stream.server

    @property
    def server_id(self) -> int:
        """The server id with which we log in as a replica."""
        return self._stream.server_id

    @property
    def history(self) -> SchemaHistory:
        """Definitions of the tables, as far as the stream was read."""
        return self._stream.history

    @property
    def losses(self) -> LossLedger:
        """Counts of changes that could not be delivered (``record_losses``)."""
        return self._stream.losses

    def acknowledge(self, done: Acknowledged = None) -> None:
        """Save the consumer's progress; what was acknowledged is never delivered again.

        Returns at once. The position is saved in the background, as in
        :meth:`SourceStream.acknowledge
        <replica_client.stream.live.source_stream.SourceStream.acknowledge>`.

        Args:
            done: the last position, transaction or change that is done; None: everything that was
                delivered.

        Raises:
            ConfigError: ``done`` is none of these.
            PositionStoreError: this position or an earlier one could not be saved.
        """
        self._remember(acknowledged_position(self._changes_given, self.position, done))

    def _remember(self, position: Position) -> None:
        if self._stream.semi_sync:
            self._run(self._stream.acknowledge(position))
            self._acknowledged = position
            return
        loop = self._loop
        if loop is None or loop.is_closed():
            raise self._not_open()
        self._acknowledged = position
        if not self._untold:
            self._untold = True
            loop.call_soon_threadsafe(self._tell)
        error, self._unsaved = self._unsaved, None
        if error is not None:
            raise error

    def _tell(self) -> None:
        """Save what was acknowledged last; runs in the stream's thread."""
        self._untold = False
        position = self._acknowledged
        if position is not None:
            try:
                self._stream.remember(position)
            except PositionStoreError as error:
                self._unsaved = error

    def state(self, position: Position | None = None) -> dict[str, object]:
        """Return what a :class:`~replica_client.stream.position.stores.Checkpoint` of a position saves.

        Args:
            position: the position; None: :attr:`position`.
        """

        async def state() -> dict[str, object]:
            return self._stream.state(self.position if position is None else position)

        return self._run(state())

    def flush(self) -> None:
        """Save the position that was acknowledged last; it survives a crash once this returns.

        Raises:
            PositionStoreError: it could not be saved; what was saved before is intact.
        """
        self._run(self._stream.flush())

    # Iterators.

    def __iter__(self) -> Iterator[AnyChange]:
        """Yield :meth:`changes`; outside of a ``with`` block also open and close the stream."""
        if self._thread is not None:
            yield from self.changes()
            return
        with self:
            yield from self.changes()

    def events(self) -> Iterator[BinlogEvent]:
        """Return an iterator over every event of the source's files, once and in order.

        It includes artificial events.

        Raises:
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        stream = self._stream
        return self._one(
            "events()",
            lambda: self._items(stream.event_groups, lambda: stream.position),
        )

    def transactions(self) -> Iterator[Transaction]:
        """Return an iterator over committed transactions; very large transactions come in parts.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        return self._one("transactions()", self._transactions)

    def _transactions(self) -> Iterator[Transaction]:
        return self._items(self._stream.transaction_groups, None)

    @overload
    def changes(
        self, *, notices: Literal[False] = False, timeout: None = None
    ) -> Iterator[AnyChange]: ...

    @overload
    def changes(
        self, *, notices: Literal[False] = False, timeout: float
    ) -> Iterator[AnyChange | None]: ...

    @overload
    def changes(
        self, *, notices: Literal[True], timeout: None = None
    ) -> Iterator[AnyChange | Notice]: ...

    @overload
    def changes(
        self, *, notices: bool, timeout: float | None = None
    ) -> Iterator[AnyChange | Notice | None]: ...

    @checked_types
    def changes(self, *, notices: bool = False, timeout: float | None = None) -> Iterator[Any]:
        """Return an iterator over row changes of committed transactions, in order.

        Each change has a position of its own, after the change, for :meth:`acknowledge`.
        :attr:`position` moves after a transaction once more is requested; in a transaction of more
        than 1,024 changes it lies before the last delivered change.

        Args:
            notices: also return schema changes and losses, in their place among the rows.
            timeout: seconds without a change after which None is returned. None: wait without end.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        check_timeout(timeout)
        self._timeout = timeout
        return self._one(f"changes(notices={notices})", lambda: self._changes(notices))

    def get(self, timeout: float | None = None) -> AnyChange | None:
        """Return the next change; None after ``timeout`` seconds, or at the end of the stream.

        Raises:
            ReplicaClientError: what :meth:`changes` raises.
        """
        if timeout is None:
            return next(self.changes(), None)
        return next(self.changes(timeout=timeout), None)

    def _changes(self, notices: bool) -> Iterator[AnyChange | Notice | None]:
        before, given = self._given, self._changes_given
        for transaction in self._items(
            self._stream.transaction_groups, None, lambda: self._timeout
        ):
            if transaction is None:
                yield None
                continue
            self._given, light = before, transaction.with_rows(())
            changes = changes_of(transaction, notices=notices, before=before, without_rows=light)
            given.begin(before, light, changes)
            for change in islice(changes, inside.POSITIONED_AFTER):
                given.last = change
                yield change
                if self._closed:
                    return
            for change in changes:
                given.last = change
                self._change = light, change
                yield change
                if self._closed:
                    return
            self._change = None
            self._given = before = light
            if given.last is not None and (position := given.end(self._acknowledged)) is not None:
                self._remember(position)

    @overload
    def batches(
        self,
        max_rows: int = 16384,
        max_seconds: float = 1.0,
        *,
        notices: Literal[False] = False,
    ) -> Iterator[RecordBatch]: ...

    @overload
    def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool
    ) -> Iterator[RecordBatch | Notice]: ...

    @checked_types
    def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool = False
    ) -> Iterator[RecordBatch | Notice]:
        """Return an iterator over Arrow record batches of row changes, each of one table and shape.

        :attr:`position` moves only after all rows before it have been delivered.

        Args:
            max_rows: rows that a batch has at most.
            max_seconds: rows wait at most this long for their batch.
            notices: as in :meth:`changes`; all rows before a notice come in batches before it.

        Raises:
            ConfigError: pyarrow is not installed.
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: an event cannot be decoded.
            ServerError: the source refuses to go on.
            SourceChangedError: the source is not the one that was read before.
            ProtocolError: the source sent what the protocol forbids.
            TransportError: the connection was lost, and could not be opened again.
        """
        stream = self._stream
        return self._one(
            f"batches({max_rows}, {max_seconds}, notices={notices})",
            lambda: self._items(
                lambda: _one_by_one(stream.batches(max_rows, max_seconds, notices=notices)),
                lambda: stream.position,
            ),
        )

    def _one(self, call: str, make: Callable[[], Iterator[_T]]) -> Iterator[_T]:
        """Return the iterator of a call: always the same, as another would lose what it read ahead."""
        if self._iterator is None:
            self._iterator = call, make()
        if self._iterator[0] != call:
            raise ConfigError(
                f"{call}: this stream is read by {self._iterator[0]}; open another one, with "
                "start=stream.position, to read it in another way"
            )
        return self._iterator[1]

    def _items(
        self,
        start: Callable[[], AsyncGenerator[list[Any], None]],
        mark: Callable[[], Position] | None,
        timeout: Callable[[], float | None] = lambda: None,
    ) -> Iterator[Any]:
        """Yield the items of one of the stream's iterators; for the arguments see :class:`_Pump`.

        Yields None if no item comes within the time that ``timeout`` returns.
        """
        loop = self._loop
        if loop is None or loop.is_closed():
            raise self._not_open()
        chunks: queue.SimpleQueue[_Chunk | None] = queue.SimpleQueue()
        pump = _Pump(self._stream, start, mark, chunks)
        future = asyncio.run_coroutine_threadsafe(pump.run(), loop)
        self._work.add(future)
        # The iterator must learn of every end.
        future.add_done_callback(lambda _: chunks.put(None))
        try:
            while not self._closed:
                try:
                    chunk = chunks.get(timeout=timeout())
                except queue.Empty:
                    yield None
                    continue
                if chunk is None:
                    break
                items, behind = chunk
                last = len(items) - 1
                for at, item in enumerate(items):
                    if self._closed:
                        return
                    if behind is None:
                        self._given = item
                    elif at == last:
                        self._given = behind
                    yield item
                del chunk, items
                with suppress(RuntimeError):  # the loop was closed meanwhile
                    loop.call_soon_threadsafe(pump.take)
            with suppress(WorkCancelledError), USER_BOUNDARY:
                future.result()
        finally:
            self._work.discard(future)
            future.cancel()


async def _end_other_tasks(name: str | None = None) -> None:
    """Cancel this loop's tasks of a name and wait for them; without a name all, to stop the loop."""
    others = [
        task
        for task in asyncio.all_tasks()
        if task is not asyncio.current_task() and name in (None, task.get_name())
    ]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if name is None:
        await asyncio.get_running_loop().shutdown_asyncgens()
        await asyncio.get_running_loop().shutdown_default_executor()


async def _one_by_one(items: AsyncGenerator[_T, None]) -> AsyncGenerator[list[_T], None]:
    """Yield items as groups of one."""
    async with aclosing(items):
        async for item in items:
            yield [item]


class _Pump:
    """Mover of items from an asynchronous iterator into chunks, in the stream's thread.

    A chunk is sent when it is full or the iterator waits for the source. So items are delivered at
    once, and a thread wakes up per chunk and not per item. Items that come without waiting were
    received before, so that the stream's own limit bounds the memory of a chunk, too.

    While a chunk is being used, the stream reads what is at hand and then receives nothing: the two
    threads would only wait for each other, and reading far ahead would touch more memory.

    Args:
        stream: the stream to read.
        start: starts the iterator, which yields lists of items that came together.
        mark: returns the safe position after what the iterator yielded; None: the items are
            transactions.
        chunks: receives the chunks.
    """

    def __init__(
        self,
        stream: SourceStream,
        start: Callable[[], AsyncGenerator[list[Any], None]],
        mark: Callable[[], Position] | None,
        chunks: queue.SimpleQueue[_Chunk | None],
    ) -> None:
        self._stream = stream
        self._start = start
        self._mark = mark
        self._chunks = chunks
        self._items: list[Any] = []
        self._ahead = 0
        self._taken = asyncio.Event()

    def take(self) -> None:
        """Note that a chunk was used up."""
        self._ahead -= 1
        self._taken.set()

    async def run(self) -> None:
        """Move all items; end with the iterator, and raise what it raises."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is not None:
            task.set_name(_TASK_NAME)
        async with aclosing(self._start()) as groups:
            async for group in groups:
                if not self._items:
                    # Runs when the iterator yields to the loop: it has nothing more at hand.
                    loop.call_soon(self._send)
                    self._items = group
                else:
                    self._items += group
                if len(self._items) >= CHUNK_SIZE:
                    self._send()
                if self._ahead:
                    await self._until_taken()
        self._send()

    async def _until_taken(self) -> None:
        dump = self._stream.dump
        if dump is not None:
            dump.pause()
        while self._ahead:
            self._taken.clear()
            await self._taken.wait()

    def _send(self) -> None:
        if self._items:
            # Everything that the iterator yielded is in this chunk or an earlier one.
            self._chunks.put((self._items, None if self._mark is None else self._mark()))
            self._items = []
            self._ahead += 1


def _without_asyncio(
    connect: Callable[_P, SourceStream],
) -> Callable[_P, FollowedSource]:
    names = inspect.signature(connect).parameters

    @wraps(connect)
    def follow(*args: _P.args, **kwargs: _P.kwargs) -> FollowedSource:
        check_names("follow", names, kwargs)
        return FollowedSource(connect(*args, **kwargs))

    follow.__name__ = follow.__qualname__ = "follow"
    follow.__module__ = __name__
    follow.__annotations__ = {**follow.__annotations__, "return": "FollowedSource"}
    signature = inspect.signature(connect)
    follow.__dict__["__signature__"] = signature.replace(return_annotation="FollowedSource")
    follow.__doc__ = """Follow a live source without asyncio.

    Takes what :func:`~replica_client.stream.live.connect.connect` takes, and gives a :class:`FollowedSource`. Iterate
    over it for row changes, or use it in a ``with`` block::

        with rc.follow("mysql://repl:secret@db1/", position_store="shop.position") as stream:
            for transaction in stream.transactions():
                ...
                stream.acknowledge(transaction.position)

    Raises:
        ConfigError: an option is wrong.
    """
    return follow


follow = _without_asyncio(connect)
