"""The tables of a live source, read from its current binlog."""

from __future__ import annotations

import asyncio
import datetime
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyarrow as pa

from replica_client.archive.contents import SeenSchemas
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import ReplicaClientError, ServerError
from replica_client.position.position import Position
from replica_client.readers.assembler import AssemblyOptions
from replica_client.readers.files.piece_batches import ChosenRows
from replica_client.readers.live.connect import connect
from replica_client.readers.live.follow import FollowedSource
from replica_client.readers.live.live_schema import list_tables
from replica_client.readers.live.reconnect import asked
from replica_client.readers.notices import batches_of
from replica_client.readers.start_position import Start, micros_of
from replica_client.readers.surface import remedies
from replica_client.readers.transaction import Transaction
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.rows.where import Condition
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.transport.connection import SourceConnection
from replica_client.transport.url import parse_url
from replica_client.wire.server_errors import UNKNOWABLE_ERRORS


class LiveTables:
    """A reader of tables of a live source, up to the end of its binlog at the first access.

    Args:
        url: URL of the source.
        assembly: which tables.
        decode: how values are decoded.
        since: where the first transaction begins.
        until: no transaction that begins there or later is read.
        schema: the definitions of the tables at the start; None: those that the source proves.
    """

    def __init__(
        self,
        url: str,
        assembly: AssemblyOptions,
        decode: DecodeOptions,
        since: Start,
        until: Start,
        schema: SchemaHistory | None,
    ) -> None:
        self._url = url
        self._assembly, self._decode = assembly, decode
        self._since, self._until, self._schema = since, until, schema
        self._lock = threading.Lock()
        self._schemas: dict[TableName, list[pa.Schema]] | None = None
        self._history = SchemaHistory()
        self.failure: ReplicaClientError | None = None
        self._end = Position("", 0)

    def _open(self, assembly: AssemblyOptions) -> FollowedSource:
        return FollowedSource(
            connect(
                self._url,
                start=self._since,
                stop_at_end=True,
                options=self._decode,
                assembly=assembly,
                schema=self._schema,
                allow_empty=True,
            )
        )

    def schemas(self) -> dict[TableName, list[pa.Schema]]:
        """Return the schemas of each table's batches, the newest last.

        Raises:
            ReplicaClientError: the source cannot be read.
        """
        with self._lock:
            if self._schemas is None:
                found: dict[TableName, list[pa.Schema]] = {}
                seen = SeenSchemas(found)
                with self._open(self._assembly) as stream:
                    for transaction in stream.transactions():
                        if self._is_behind(transaction):
                            break
                        for rows in transaction.rows:
                            seen.saw(rows.shape, rows.decoder)
                    self._end, self._history = stream.position, stream.history
                self._schemas = found
            return self._schemas

    def check_tables(self) -> None:
        """Raise if a pattern of the wanted tables matches no table that was read or is there now.

        Raises:
            ReplicaClientError: the source cannot be asked.
        """
        selection, read = self._assembly.selection, self.schemas()
        if not selection.unmatched_of(self._history):
            return

        async def question() -> list[TableName]:
            async with await SourceConnection.open(parse_url(self._url)) as connection:
                return await list_tables(connection)

        try:
            # The caller's thread may run an event loop.
            with ThreadPoolExecutor(1) as thread:
                known = thread.submit(asyncio.run, asked(question, "listing the tables")).result()
        except ServerError as error:
            if error.errno not in UNKNOWABLE_ERRORS:
                raise
            if self._since != "earliest":
                return  # another part of the binlog may have the table
            known = []
        selection.check_matched(self._history, [*known, *read], f"; {remedies('empty answer')}")

    def _is_behind(self, transaction: Transaction) -> bool:
        """Return whether a transaction is at or after ``until``."""
        if isinstance(self._until, datetime.datetime):
            return not transaction.is_before(micros_of(self._until))
        return isinstance(self._until, Position) and transaction.start >= self._until

    def batches(
        self,
        table: TableName,
        columns: Sequence[str],
        where: Condition | None,
        max_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, in order.

        The arguments and errors are those of
        :meth:`~replica_client.archive.file_tables.FileTables.batches`.
        """
        self.schemas()
        pattern = exact_pattern(*table)
        selection = Selection([pattern], columns={pattern: columns})
        batches = BatchAssembler(max_rows, self._decode)
        make: Callable[[Transaction], Iterator[pa.RecordBatch]]
        if where is None:
            make = lambda one: batches_of(batches, one, notices=False)  # noqa: E731
        else:
            make = partial(ChosenRows(where).batches, batches)
        with self._open(replace(self._assembly, selection=selection)) as stream:
            for transaction in stream.transactions():
                if self._is_behind(transaction) or transaction.start >= self._end:
                    break
                yield from make(transaction)
        yield from batches.flush()
