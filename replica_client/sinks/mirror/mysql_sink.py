"""Tables of the source on another MySQL or MariaDB: exactly once, rows and position in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Literal

import msgspec

from replica_client.errors import ConfigError, ServerError, SinkError, TransportError
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.ownership import BEAT_SECONDS, Claim, Owner
from replica_client.readers.transaction import Transaction
from replica_client.rows.row import Row
from replica_client.sinks.mirror.collector import (
    ApplyRows,
    ApplySchema,
    Collector,
    NewTable,
    Step,
    copied_values,
    gone_table,
    of_tables,
    refused_change,
    tables_of,
)
from replica_client.sinks.mirror.mysql_schema import (
    apply_schema,
    create_table,
    drop_table,
    position_of,
)
from replica_client.sinks.mirror.mysql_store import MysqlStore, may_pass, server_errors
from replica_client.sinks.mirror.mysql_values import mysql_encoder
from replica_client.sinks.protocol import Guarantee
from replica_client.sinks.sink_options import check_positive, read_options
from replica_client.sinks.worker import Batches, Worker
from replica_client.tables.table_copy import TableCopy, TableName
from replica_client.transport.url import parse_url

_LOG = logging.getLogger("replica_client")
_NO_SUCH_TABLE = 1146
_OF_ALL = frozenset((1044, 1045, 1142, 1143, 1227, 1290, 1792, 1836))
"""Missing rights, and servers that are read-only: every table would meet them."""


def _concerns_all(error: BaseException | None) -> bool:
    return isinstance(error, ServerError) and error.errno in _OF_ALL


class MysqlOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``mysql``.

    Attributes:
        url: ``mysql://user:password@host:3306/`` or ``mariadb://…``, of the mirror's server.
        database_prefix: what is put before the source's database names.
        state_database: where the mirror keeps its position.
        missing_rows: what a change does of a row that the mirror does not have, or has already:
            ``error`` stops; ``ignore`` goes on, for a mirror that does not begin with all rows.
        unknown_tables: what a row of a table does of which neither CREATE TABLE nor a snapshot was
            seen: ``error`` stops; ``create`` takes the table for empty.
        statement_timeout: seconds that a statement may take, such as an ALTER of a large table.
    """

    url: str
    database_prefix: str = ""
    state_database: str = "replica_client"
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"
    statement_timeout: float = 3600.0


def make(table: Mapping[str, object]) -> MysqlSink:
    """The sink of a table of the configuration.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    options = read_options(MysqlOptions, table, "sink mysql")
    try:
        parse_url(options.url)
    except ConfigError as error:
        raise ConfigError(f"sink mysql: url: {error}") from error
    check_positive(options, "sink mysql", "statement_timeout")
    return MysqlSink(options)


class MysqlSink:
    """See the module.

    Args:
        options: what the user chose.
    """

    guarantee = Guarantee.EXACTLY_ONCE
    holds_position = True

    def __init__(self, options: MysqlOptions) -> None:
        self._options = options
        self._connect = replace(parse_url(options.url), read_timeout=options.statement_timeout)
        self._where = self._connect.address
        self._create = options.unknown_tables == "create"
        self._worker = Worker()
        self._batches = Batches(self._take)
        self._store: MysqlStore | None = None
        self._collector: Collector | None = None
        self._may_repeat = True
        self._claim: Claim | None = None
        self._beats: asyncio.Task[None] | None = None

    def claim(self, claim: Claim) -> None:
        """See :class:`~replica_client.position.stores.ownership.OwnedSink`."""
        self._claim = claim

    async def owners(self) -> Sequence[Owner]:
        """See :class:`~replica_client.sinks.protocol.ReadSink`."""
        async with server_errors(self._where):
            store = await self._session()
            try:
                return await store.owners()
            finally:
                await store.close()

    async def saved(self) -> Checkpoint | None:
        """See :class:`~replica_client.sinks.protocol.ReadSink`."""
        async with server_errors(self._where):
            store = await self._session()
            try:
                return await store.saved()
            finally:
                await store.close()

    async def _session(self) -> MysqlStore:
        options = self._options
        return await MysqlStore.open(
            self._connect,
            prefix=options.database_prefix,
            state=options.state_database,
            claim=self._claim,
        )

    async def probe(self) -> None:
        """See :class:`~replica_client.sinks.protocol.ProbedSink`."""
        async with server_errors(self._where):
            await (await self._session()).close()

    async def open(self) -> Checkpoint | None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        options = self._options
        async with server_errors(self._where):
            store = self._store = await self._session()
            checkpoint = await store.prepare()
        if self._claim is not None:
            self._beats = asyncio.create_task(self._beat(store))
        self._collector = Collector(
            store.tables,
            mysql_encoder,
            strict=options.missing_rows == "error",
            create=self._create,
            copies=store.copies,
        )
        self._may_repeat = True
        return checkpoint

    async def write(self, transaction: Transaction) -> None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        await self._batches.add(transaction)

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        """See :class:`~replica_client.sinks.protocol.GroupSink`."""
        await self._batches.add_some(transactions, size)

    async def commit(self, checkpoint: Checkpoint) -> None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        await self._batches.flush()
        store, collector = self._opened()
        async with server_errors(self._where):
            await self._do_all(store, collector.flush())
            await store.commit(checkpoint)
        self._may_repeat = False

    async def close(self) -> None:
        """See :class:`~replica_client.sinks.protocol.Sink`."""
        self._batches.clear()
        self._worker.stop()
        store, self._store, self._collector = self._store, None, None
        beats, self._beats = self._beats, None
        if beats is not None:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
        if store is not None:
            try:
                if beats is not None:
                    with contextlib.suppress(SinkError, ServerError, TransportError, TimeoutError):
                        async with asyncio.timeout(BEAT_SECONDS):
                            await store.give_back()
            finally:
                await store.close()

    async def _beat(self, store: MysqlStore) -> None:
        """Write beats until it is cancelled."""
        other: MysqlStore | None = None
        try:
            while True:
                try:
                    if other is None:
                        other = await self._session()
                    await store.write_beat(other, secrets.token_hex(8))
                except (SinkError, ServerError, TransportError, OSError) as error:
                    # The sink says what is wrong with the server; the lease is not renewed meanwhile.
                    _LOG.debug("no beat is written: %s", error)
                    if other is not None:
                        await other.close()
                    other = None
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            if other is not None:
                await other.close()

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
        async with server_errors(self._where):
            await self._opened()[0].want_copies(tables)

    async def forget_tables(self, tables: Iterable[TableName]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.ForgettingSink`."""
        async with server_errors(self._where):
            await self._opened()[0].forget_tables(tables)

    async def begin_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        store, _ = self._opened()
        with of_tables((copy.name,), _concerns_all):
            await self._begin_copy(store, copy)

    async def _begin_copy(self, store: MysqlStore, copy: TableCopy) -> None:
        async with server_errors(self._where):
            # Noted first: a table that is half made is begun again.
            await store.save_copy(copy)
            if copy.definition is None:
                await drop_table(store, copy.name)
            else:
                await create_table(store, copy.definition, f"copied from {copy.begin}")

    async def copy_rows(self, copy: TableCopy, rows: Sequence[Row]) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        store, model = self._opened()[0], copy.definition
        assert model is not None
        with of_tables((copy.name,), _concerns_all):
            values = await self._worker.run(lambda: list(copied_values(model, rows, mysql_encoder)))
        with of_tables((copy.name,), _concerns_all):
            async with server_errors(self._where):
                await store.copy_rows(model, values)

    async def save_copy(self, copy: TableCopy) -> None:
        """See :class:`~replica_client.sinks.copying_sink.CopyingSink`."""
        async with server_errors(self._where):
            await self._opened()[0].save_copy(copy)

    async def _take(self, transactions: list[Transaction]) -> None:
        store, collector = self._opened()
        async with server_errors(self._where):
            await self._do_all(store, chain.from_iterable(map(collector.take, transactions)))

    async def _do_all(self, store: MysqlStore, steps: Iterator[Step]) -> None:
        while True:
            # Rows are decoded and summed up in a thread, statements are run here.
            step = await self._worker.run(next, steps, None)
            if step is None:
                return
            await self._do(store, step)

    async def _do(self, store: MysqlStore, step: Step) -> None:
        if isinstance(step, ApplyRows):
            await store.begin()
        with of_tables(tables_of(step), _concerns_all):
            async with server_errors(self._where):
                await self._do_and_name(store, step)

    async def _do_and_name(self, store: MysqlStore, step: Step) -> None:
        try:
            await self._do_step(store, step)
        except ServerError as error:
            # Dropped by somebody, or a kill fell between the renames of one statement and a copy took away what tells
            # how many were done: DDL ends transactions.
            is_gone = error.errno == _NO_SUCH_TABLE
            gone = gone_table(f"on {self._where}", error, step) if is_gone else None
            if gone is None and isinstance(step, ApplySchema) and not may_pass(error):
                # The source's mode may have converted values that the mirror's refuses.
                gone = refused_change(self._where, error, step)
            if gone is None:
                raise
            raise gone from error

    async def _do_step(self, store: MysqlStore, step: Step) -> None:
        if isinstance(step, ApplyRows):
            await store.apply(step.changes)
        elif isinstance(step, NewTable):
            await self._new_table(store, step)
        else:
            done = 0
            if self._may_repeat:
                done = await store.steps_done(position_of(step.change))
            await apply_schema(store, step, create=self._create, done=done)

    async def _new_table(self, store: MysqlStore, step: NewTable) -> None:
        """Make a table in a session of its own: DDL would end the transaction of this one."""
        options = self._options
        other = await MysqlStore.open(
            self._connect,
            prefix=options.database_prefix,
            state=options.state_database,
            names=store.names,
        )
        try:
            await create_table(other, step.model, "from rows")
        finally:
            await other.close()
        store.keep(step.model)

    def _opened(self) -> tuple[MysqlStore, Collector]:
        if self._store is None or self._collector is None:
            raise SinkError(f"mirror on {self._where}: the sink is not open")
        return self._store, self._collector
