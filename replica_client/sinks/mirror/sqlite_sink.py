"""Tables of the source in a SQLite file: exactly once, rows and position in one transaction."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from replica_client.errors import ConfigError, SinkError
from replica_client.position.stores.base import Checkpoint
from replica_client.readers.transaction import Transaction
from replica_client.rows.row import Row
from replica_client.sinks.mirror.collector import (
    ApplyRows,
    Collector,
    NewTable,
    Step,
    copied_values,
    gone_table,
)
from replica_client.sinks.mirror.sqlite_schema import apply_schema
from replica_client.sinks.mirror.sqlite_store import SqliteStore
from replica_client.sinks.mirror.sqlite_values import sqlite_encoder
from replica_client.sinks.output_directory import check_writable
from replica_client.sinks.protocol import Guarantee
from replica_client.sinks.sink_options import read_options
from replica_client.sinks.system_errors import os_errors
from replica_client.sinks.worker import Batches, Worker, in_thread
from replica_client.storage.location import local_path
from replica_client.tables.table_copy import TableCopy, TableName

_MAY_PASS = frozenset(
    (
        *("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY"),
        *("SQLITE_CANTOPEN", "SQLITE_NOMEM"),
    )
)

# One of the source's: the mirror's own tables do not come back by a copy.
_NO_SUCH_TABLE = re.compile("no such table: (?!_replica_client)")


class SqliteOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``sqlite``.

    Attributes:
        path: of the file; made when it is not there.
        missing_rows: what a change does of a row that the mirror does not have, or has already:
            ``error`` stops; ``ignore`` goes on, for a mirror that does not begin with all rows.
        unknown_tables: what a row of a table does of which neither CREATE TABLE nor a snapshot was
            seen: ``error`` stops; ``create`` takes the table for empty.
    """

    path: str
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"


def make(table: Mapping[str, object]) -> SqliteSink:
    """The sink of a table of the configuration.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    options = read_options(SqliteOptions, table, "sink sqlite")
    if not options.path:
        raise ConfigError("sink sqlite: path: a file is wanted")
    return SqliteSink(options)


class SqliteSink:
    """See the module.

    Args:
        options: what the user chose.
    """

    guarantee = Guarantee.EXACTLY_ONCE
    holds_position = True

    def __init__(self, options: SqliteOptions) -> None:
        self._options = options
        self._path = local_path(options.path, "sink sqlite: path")
        self._create = options.unknown_tables == "create"
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._take))
        self._store: SqliteStore | None = None
        self._collector: Collector | None = None

    async def probe(self) -> None:
        """See :class:`~replica_client.sinks.protocol.ProbedSink`."""
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        check_writable(self._path.parent)
        if self._path.exists():
            with (
                self._errors(),
                contextlib.closing(
                    sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)
                ) as connection,
            ):
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    async def open(self) -> Checkpoint | None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        return await self._worker.run(self._open)

    async def write(self, transaction: Transaction) -> None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        await self._batches.add(transaction)

    async def commit(self, checkpoint: Checkpoint) -> None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        await self._batches.flush()
        await self._worker.run(self._commit, checkpoint)

    async def close(self) -> None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        self._batches.clear()
        await self._worker.run(self._close)
        self._worker.stop()

    # First copies.

    @property
    def tables(self) -> Collection[TableName]:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        return self._store.tables.keys() if self._store is not None else ()

    @property
    def copies(self) -> Mapping[TableName, TableCopy]:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        return self._store.copies if self._store is not None else {}

    async def want_copies(self, tables: Iterable[TableName]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        await self._worker.run(self._with_store, lambda store: store.want_copies(tables))

    async def begin_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        await self._worker.run(self._with_store, lambda store: store.begin_copy(copy))

    async def copy_rows(self, copy: TableCopy, rows: Sequence[Row]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        model = copy.definition
        assert model is not None

        def work(store: SqliteStore) -> None:
            store.copy_rows(model, copied_values(model, rows, sqlite_encoder))

        await self._worker.run(self._with_store, work)

    async def save_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        await self._worker.run(self._with_store, lambda store: store.save_copy(copy))

    def _with_store(self, work: Callable[[SqliteStore], None]) -> None:
        store, _ = self._opened()
        with self._errors():
            work(store)

    def _open(self) -> Checkpoint | None:
        with self._errors():
            store = self._store = SqliteStore(self._path)
            checkpoint = store.prepare()
            self._collector = Collector(
                store.tables,
                sqlite_encoder,
                strict=self._options.missing_rows == "error",
                create=self._create,
                copies=store.copies,
            )
            return checkpoint

    def _take(self, transactions: list[Transaction]) -> None:
        store, collector = self._opened()
        with self._errors():
            for transaction in transactions:
                for step in collector.take(transaction):
                    self._do(store, step)

    def _do(self, store: SqliteStore, step: Step) -> None:
        try:
            self._do_step(store, step)
        except sqlite3.OperationalError as error:
            # Somebody dropped it: SQLite has no other sign of that than its words.
            is_gone = re.search(_NO_SUCH_TABLE, str(error))
            gone = gone_table(str(self._path), error, step) if is_gone else None
            if gone is None:
                raise
            raise gone from error

    def _do_step(self, store: SqliteStore, step: Step) -> None:
        store.begin()
        if isinstance(step, ApplyRows):
            store.apply(step.changes)
        elif isinstance(step, NewTable):
            store.create(step.model)
        else:
            apply_schema(store, step, create=self._create)

    def _commit(self, checkpoint: Checkpoint) -> None:
        store, collector = self._opened()
        with self._errors():
            for step in collector.flush():
                self._do(store, step)
            store.commit(checkpoint)

    def _close(self) -> None:
        store, self._store, self._collector = self._store, None, None
        if store is not None:
            with self._errors():
                store.close()

    def _opened(self) -> tuple[SqliteStore, Collector]:
        if self._store is None or self._collector is None:
            raise SinkError(f"{self._path}: the sink is not open")
        return self._store, self._collector

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with os_errors(str(self._path)):
                yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            base = "_".join(name.split("_")[:2])
            raise SinkError(f"{self._path}: {error}", retriable=base in _MAY_PASS) from error
