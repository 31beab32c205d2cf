"""What the tables of a live source look like, tied to a position of its binlog.

``information_schema`` tells what tables look like now. For a place in the binlog that lies before,
it is right only when no statement between the two changed the table; the binlog itself proves that.
"""

from __future__ import annotations

import contextlib
import logging
import random
import uuid
from dataclasses import dataclass

from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.options import DecodeOptions
from replica_client.constants.event_types import EventType
from replica_client.errors import ConfigError, SchemaError, ServerError
from replica_client.position.position import Position
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.live_labels import with_true_labels
from replica_client.readers.query_text import read_query
from replica_client.schema import information_schema as queries
from replica_client.schema.catalog import tables_touched
from replica_client.schema.ddl.changes import TableName
from replica_client.schema.history import Place, SchemaHistory
from replica_client.schema.model import DatabaseModel, TableModel
from replica_client.schema.names import fold_name, fold_table
from replica_client.transport.connection import SourceConnection
from replica_client.transport.options import ConnectOptions
from replica_client.transport.request import DumpRequest
from replica_client.transport.server_info import BinlogStatus
from replica_client.wire.server_errors import TRANSIENT_ERRORS

_LOG = logging.getLogger("replica_client")
_QUERIES = frozenset((EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT))
_TRIES = 30


@dataclass(frozen=True, slots=True)
class Touch:
    """A statement in the binlog that may have changed tables; their names are in lower case."""

    place: Place
    tables: tuple[TableName, ...]
    databases: tuple[str, ...]
    anything: bool

    def concerns(self, table: TableName) -> bool:
        """Whether it may have changed this table, in whatever letter case."""
        folded = fold_table(table)
        return self.concerns_database(table[0]) or folded in self.tables

    def concerns_database(self, database: str) -> bool:
        """Whether it may have changed this database's default character set."""
        return self.anything or fold_name(database) in self.databases


async def read_source(
    connection: SourceConnection, decode: DecodeOptions
) -> tuple[SchemaHistory, BinlogStatus]:
    """All tables of a source, and the position at which they look so.

    Without locks: the position before and the one after the reading are the same, or no statement
    between them changed a table; else it is read again.

    Raises:
        ServerError: the source does not tell.
        SchemaError: tables change faster than they can be read.
    """
    scan = BinlogScan(connection.options, decode)
    for _ in range(_TRIES):
        before = await connection.binlog_status()
        databases, tables = await _read(connection)
        after = await connection.binlog_status()
        if (before.file, before.position) != (after.file, after.position):
            await scan.read(before.file, before.position)
            if scan.touches:
                scan = BinlogScan(connection.options, decode)
                continue
        history = SchemaHistory(lower_case_names=connection.server.folds_names)
        # Statements at the position itself come behind.
        history.place = Place.of(before.file, before.position - 1)
        for name, database in databases.items():
            history.set_database(name, database)
        for table in tables:
            history.adopt(table)
        return history, before
    raise SchemaError(
        f"{connection.options.address}: tables were changed during each of {_TRIES} readings of "
        "information_schema; start again when the schema rests"
    )


async def _read(
    connection: SourceConnection, table: TableName | None = None
) -> tuple[dict[str, DatabaseModel], list[TableModel]]:
    server = connection.server
    with contextlib.suppress(ServerError):  # of a server without such keys
        await connection.query(queries.SHOW_HIDDEN)
    one, args = table is not None, table or ()
    databases = queries.read_databases(await connection.query(queries.DATABASES, lists_all=True))
    columns = await connection.query(
        queries.columns_query(server.flavor, one_table=one), args, lists_all=True
    )
    keys = await connection.query(queries.keys_query(one_table=one), args, lists_all=True)
    tables = await connection.query(queries.tables_query(one_table=one), args, lists_all=True)
    models = queries.read_tables(tables, columns, keys, server.flavor, server.version)
    return databases, [await with_true_labels(connection, model) for model in models]


class BinlogScan:
    """Reads a source's binlog for statements that change tables.

    Args:
        options: of the source.
        decode: how events are decoded.

    Attributes:
        touches: what was found.
    """

    def __init__(self, options: ConnectOptions, decode: DecodeOptions) -> None:
        self._options = options
        self._decode = decode
        self.touches: list[Touch] = []
        self.begin: Place | None = None
        self._end = Position("", 0)

    async def extend(self, file: str, offset: int) -> None:
        """Know everything from a place to the end of the binlog."""
        wanted, begin = Place.of(file, offset), self.begin
        # Until all is read nothing is known: a connection may fail in the midst.
        self.begin = None
        if begin is None or wanted < begin:
            self.touches = []
            await self.read(file, offset)
            self.begin = wanted
        else:
            await self.read(self._end.file, self._end.offset)
            self.begin = begin

    async def read(self, file: str, offset: int) -> None:
        """Read from a place to the end of the binlog.

        Raises:
            ServerError: the source does not have it any more.
        """
        feed = EventFeed(self._decode, Position(file, offset))
        async with await SourceConnection.open(self._options) as connection:
            # Not our own server id: the source ends a dump when the same id begins another.
            dump = await connection.start_dump(
                DumpRequest(file, offset, non_block=True),
                server_id=random.randrange(1 << 31, (1 << 32) - 1),
                replica_uuid=str(uuid.uuid4()),
            )
            async with dump:
                while packets := await dump.read():
                    for data in packets:
                        for placed in feed.feed_stream(data):
                            if placed.event.header.type_code in _QUERIES:
                                self._look(placed.event, feed)
        self._end = feed.tracker.position

    def _look(self, event: BinlogEvent, feed: EventFeed) -> None:
        body = event.body
        if body.query in (b"BEGIN", b"COMMIT"):
            return
        read = read_query(event, feed.decoder.format)
        tables, databases, anything = tables_touched(read.meaning)
        if tables or databases or anything:
            place = Place.of(event.file, event.position)
            self.touches.append(
                Touch(
                    place,
                    tuple(map(fold_table, tables)),
                    tuple(map(fold_name, databases)),
                    anything,
                )
            )


class SchemaProver:
    """Proves what a table looked like at a place, by the live source and the binlog in between.

    Args:
        options: of the source.
        decode: how events are decoded.
    """

    def __init__(self, options: ConnectOptions, decode: DecodeOptions) -> None:
        self._options = options
        self._scan = BinlogScan(options, decode)
        self.works = True

    async def prove(
        self, history: SchemaHistory, table: TableName, transaction: Position, place: Place
    ) -> bool:
        """Let a history know a table as it is at a place, where that can be proven.

        Args:
            history: which has read everything before the place.
            table: database and name.
            transaction: the start of the transaction of the place.
            place: where rows of the table are.

        Returns:
            whether anything was proven.

        Raises:
            TransportError: a connection failed; it may be tried again.
            ServerError: the source ended it, and another one may work.
        """
        if not self.works:
            return False
        try:
            return await self._prove(history, table, transaction, place)
        except (ServerError, ConfigError) as error:
            if isinstance(error, ServerError) and error.errno in TRANSIENT_ERRORS:
                raise
            _LOG.warning("no proof of what %s.%s looked like: %s", *table, error)
            if isinstance(error, ServerError) and error.errno == _PARSE_ERROR:
                self.works = False
            return False

    async def _prove(
        self, history: SchemaHistory, table: TableName, transaction: Position, place: Place
    ) -> bool:
        async with await SourceConnection.open(self._options) as connection:
            databases, tables = await _read(connection, table)
        # Everything that happened before the reading is in the binlog now.
        await self._scan.extend(transaction.file, transaction.offset)
        later = [touch for touch in self._scan.touches if touch.place >= place]
        if tables and not any(touch.concerns(table) for touch in later):
            history.adopt(tables[0])
            return True
        database = databases.get(table[0])
        state = history.table(table)
        if (
            database is not None
            and database.charset is not None
            and isinstance(state, TableModel)
            and not any(touch.concerns_database(table[0]) for touch in later)
        ):
            history.adopt(state.with_charset(database.charset))
            return True
        return False


_PARSE_ERROR = 1064
