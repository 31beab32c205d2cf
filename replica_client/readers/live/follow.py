"""A live source without asyncio: the stream runs in a thread of its own, the iterators are ordinary ones."""

# Over 500 lines: the four iterators of a live source without asyncio, and the loop that they
# share.

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as WorkCancelledError
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, overload

from replica_client.argument_types import check_names
from replica_client.binlog.event import BinlogEvent
from replica_client.errors import ConfigError, PositionStoreError, StreamStateError
from replica_client.position.losses import LossLedger
from replica_client.position.position import Position
from replica_client.readers import inside
from replica_client.readers.inside import (
    Acknowledged,
    GivenChange,
    GivenChanges,
    acknowledged_position,
    position_at,
)
from replica_client.readers.live.connect import connect
from replica_client.readers.live.grouped import check_timeout
from replica_client.readers.live.source_stream import SourceStream
from replica_client.readers.misuse import SynchronousOnly
from replica_client.readers.notices import Notice, changes_of
from replica_client.readers.transaction import Transaction
from replica_client.rows.row_change import Change
from replica_client.schema.history import SchemaHistory
from replica_client.transport.server_info import ServerInfo

if TYPE_CHECKING:
    from replica_client.rows.batching import RecordBatch

_P = ParamSpec("_P")
_T = TypeVar("_T")

_TASK_NAME = "replica_client iterator"

CHUNK_SIZE = 128
"""From how many items on what waits is sent to the iterator, though the stream has more at hand.

Of larger chunks the garbage collector looks at all objects while they wait, again and again.
"""

_Mark = Position | Transaction
_Chunk = tuple[list[Any], _Mark | None]
"""Items, and the position behind the last of them; None: each stands for the position behind it."""


class FollowedSource(SynchronousOnly):
    """Follows a live source with ordinary iterators; a context manager, made by :func:`follow`.

    The stream is a :class:`~replica_client.readers.live.source_stream.SourceStream` in a thread of its own
    and does the same: it answers heartbeats and connects again while your code works, and stops reading
    while you are behind. It reads a little ahead; :attr:`position` and what :meth:`acknowledge` saves
    never do.

    One of its iterators may be used, by one thread; asking for it again goes on where it was left.
    :meth:`close` may be called by any thread: an iterator that waits then ends.

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
        # Whether the stream's thread is still to learn of it.
        self._untold = False
        self._unsaved: PositionStoreError | None = None
        self._change: GivenChange | None = None
        self._changes_given = GivenChanges()
        self._timeout: float | None = None
        self._closed = False

    # Life.

    def open(self) -> Self:
        """Connect; what ``with`` does.

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
        """Do something in the stream's thread, and wait for it."""
        loop = self._loop
        if loop is None or loop.is_closed():
            work.close()
            raise StreamStateError("the stream is closed")
        future = asyncio.run_coroutine_threadsafe(work, loop)
        self._work.add(future)
        try:
            return future.result()
        except WorkCancelledError:
            raise StreamStateError("the stream was closed") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._work.discard(future)

    # What the stream knows.

    @property
    def position(self) -> Position:
        """The safe resume point behind what the iterators delivered."""
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
        """The source, once connected."""
        return self._stream.server

    @property
    def server_id(self) -> int:
        """The server id that we log in with as a replica."""
        return self._stream.server_id

    @property
    def history(self) -> SchemaHistory:
        """What tables look like, as far as the stream was read."""
        return self._stream.history

    @property
    def losses(self) -> LossLedger:
        """Counts of what could not be delivered (``record_losses``)."""
        return self._stream.losses

    def acknowledge(self, done: Acknowledged = None) -> None:
        """Save how far the consumer is; what was acknowledged is never delivered again.

        Returns at once, and the position is saved in the background, as
        :meth:`SourceStream.acknowledge <replica_client.readers.live.source_stream.SourceStream.acknowledge>` says.

        Args:
            done: the last position, transaction or change that is done; None: all that was handed out.

        Raises:
            ConfigError: ``done`` is none of these.
            PositionStoreError: a position could not be saved, this one or one before.
        """
        self._remember(acknowledged_position(self._changes_given, self.position, done))

    def _remember(self, position: Position) -> None:
        if self._stream.semi_sync:
            self._run(self._stream.acknowledge(position))
            self._acknowledged = position
            return
        loop = self._loop
        if loop is None or loop.is_closed():
            raise StreamStateError("the stream is closed")
        self._acknowledged = position
        if not self._untold:
            self._untold = True
            loop.call_soon_threadsafe(self._tell)
        error, self._unsaved = self._unsaved, None
        if error is not None:
            raise error

    def _tell(self) -> None:
        """In the stream's thread: let it save what was acknowledged last."""
        self._untold = False
        position = self._acknowledged
        if position is not None:
            try:
                self._stream.remember(position)
            except PositionStoreError as error:
                self._unsaved = error

    def flush(self) -> None:
        """Save the position that was acknowledged last; when this returns it survives a crash.

        Raises:
            PositionStoreError: it could not be saved; what was saved before is whole.
        """
        self._run(self._stream.flush())

    # Iterators.

    def __iter__(self) -> Iterator[Change]:
        """:meth:`changes`; opens the stream before and closes it behind where no ``with`` does."""
        if self._thread is not None:
            yield from self.changes()
            return
        with self:
            yield from self.changes()

    def events(self) -> Iterator[BinlogEvent]:
        """Every event that stands in the source's files, once and in order, and artificial ones.

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
        """Committed transactions; very large ones in parts.

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
    ) -> Iterator[Change]: ...

    @overload
    def changes(
        self, *, notices: Literal[False] = False, timeout: float
    ) -> Iterator[Change | None]: ...

    @overload
    def changes(
        self, *, notices: Literal[True], timeout: None = None
    ) -> Iterator[Change | Notice]: ...

    @overload
    def changes(
        self, *, notices: bool, timeout: float | None = None
    ) -> Iterator[Change | Notice | None]: ...

    def changes(self, *, notices: bool = False, timeout: float | None = None) -> Iterator[Any]:
        """Return row changes of committed transactions, in order.

        A change has a position of its own, after it, for :meth:`acknowledge`. :attr:`position` lies after a
        transaction once more is asked for; in a transaction of more than 1,024 changes it lies before the one that
        was given last.

        Args:
            notices: also give schema changes and losses, in their place among the rows.
            timeout: seconds; where no change comes for so long, None is given. None: wait without end.

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

    def get(self, timeout: float | None = None) -> Change | None:
        """Return the next change; None where none comes within ``timeout`` seconds, or the stream has ended.

        Raises:
            ReplicaClientError: what :meth:`changes` raises.
        """
        if timeout is None:
            return next(self.changes(), None)
        return next(self.changes(timeout=timeout), None)

    def _changes(self, notices: bool) -> Iterator[Change | Notice | None]:
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

    def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool = False
    ) -> Iterator[RecordBatch | Notice]:
        """Row changes as Arrow record batches, each of one table and one shape.

        :attr:`position` moves only when all rows before it have been given.

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
        """The iterator that a call asks for; what it read ahead would be lost with it."""
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
        """Return what an iterator of the stream gives; for the arguments see :class:`_Pump`.

        Where nothing comes within the time that ``timeout`` returns, None is given.
        """
        loop = self._loop
        if loop is None or loop.is_closed():
            raise StreamStateError("the stream is not open; use `with follow(…) as stream:`")
        chunks: queue.SimpleQueue[_Chunk | None] = queue.SimpleQueue()
        pump = _Pump(self._stream, start, mark, chunks)
        future = asyncio.run_coroutine_threadsafe(pump.run(), loop)
        self._work.add(future)
        # Whatever ends it, the iterator learns of it.
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
            with suppress(WorkCancelledError):
                future.result()
        finally:
            self._work.discard(future)
            future.cancel()


async def _end_other_tasks(name: str | None = None) -> None:
    """Cancel what runs in this loop, and wait for it: the tasks of a name, or all, to stop the loop."""
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
    """Items as groups of one."""
    async with aclosing(items):
        async for item in items:
            yield [item]


class _Pump:
    """Moves items from an asynchronous iterator into chunks, in the stream's thread.

    A chunk is sent when the iterator waits for the source, or when it is full: what is there comes at
    once, and a thread is woken per chunk and not per item. What comes without waiting was received
    before, so that the stream's own bound holds for the memory of a chunk, too.

    While a chunk is being used, the stream reads what is at hand and then receives nothing. Both threads
    would only wait for each other's turn, and what is read far ahead is memory that is touched anew.

    Args:
        stream: that is read.
        start: starts the iterator, which gives items that come together as lists.
        mark: the safe position behind what the iterator gave; None: the items are transactions.
        chunks: takes what was moved.
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
        """A chunk was used up."""
        self._ahead -= 1
        self._taken.set()

    async def run(self) -> None:
        """Move all items; ends with the iterator, and raises what it raises."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is not None:
            task.set_name(_TASK_NAME)
        async with aclosing(self._start()) as groups:
            async for group in groups:
                if not self._items:
                    # Runs when the iterator lets the loop go on: it has nothing more at hand.
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
            # All that the iterator gave so far is in this chunk or one before.
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
    follow.__doc__ = """Follow a live source without asyncio.

    Takes what :func:`~replica_client.readers.live.connect.connect` takes. Iterate over the result for row
    changes, or use it in a ``with`` block::

        with rc.follow("mysql://repl:secret@db1/", position_store="shop.position") as stream:
            for transaction in stream.transactions():
                ...
                stream.acknowledge(transaction.position)

    Raises:
        ConfigError: an option is wrong.
    """
    return follow


follow = _without_asyncio(connect)
