"""Definitions of a live source's tables, tied to a position of its binlog.

``information_schema`` describes tables as they are now. For an earlier position in the binlog that
is right only if no statement in between changed the table; the binlog itself proves that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from replica_client.errors import BinlogReadError, ConfigError, SchemaError, ServerError
from replica_client.protocol.binlog.event import FIRST_EVENT, DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ErrorCode
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import (
    GONE_ERRORS,
    PRIVILEGE_ERRORS,
    UNKNOWABLE_ERRORS,
)
from replica_client.rows.selection import Selection
from replica_client.schema import information_schema as queries
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import LogPosition, SchemaHistory
from replica_client.schema.known_tables import Version
from replica_client.schema.model import DatabaseModel, TableModel
from replica_client.schema.names import casefold_name, casefold_table, mysql_name, mysql_table
from replica_client.stream.live.binlog_scan import BinlogScan, Touch
from replica_client.stream.live.live_definitions import read_definitions
from replica_client.stream.live.source_start import dump_request
from replica_client.stream.live.stream_options import ReconnectPolicy, asked
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.server_statements import BinlogStatus

_LOG = logging.getLogger("replica_client.stream")
_TRIES = 30
_SURE_TRIES = 6
"""Tries that a changed definition discards; later tries only drop the changed tables."""
_LOCK_WAIT_SECONDS = 5
_SINGLE_READINGS = 4
"""Number of tables that are queried one by one; then all wanted tables are read at once."""


async def list_tables(connection: SourceConnection) -> list[TableName]:
    """Return the names of all tables and views that a source lists.

    Raises:
        ServerError: the source refuses, or has no catalogue.
    """
    rows = await connection.query(queries.ALL_TABLES, columns=2)
    return [(queries.text_of(database), queries.text_of(table)) for database, table in rows]


async def list_columns(connection: SourceConnection) -> list[tuple[str, str, str]]:
    """Return database, table and name of all columns that a source lists.

    Raises:
        ServerError: the source refuses, or has no catalogue.
    """
    rows = await connection.query(queries.ALL_COLUMNS, columns=3)
    return [
        (queries.text_of(one), queries.text_of(two), queries.text_of(name))
        for one, two, name in rows
    ]


async def read_source(
    options: ConnectOptions,
    decode: DecodeOptions,
    selection: Selection | None = None,
    policy: ReconnectPolicy | None = None,
    connection: SourceConnection | None = None,
) -> tuple[SchemaHistory, Position]:
    """Read the definitions of a source's tables, and the position for which they are right.

    Args:
        options: of the source.
        decode: how statements are decoded.
        selection: the wanted tables; None: all. Others stay unknown.
        policy: delays after failures, see :func:`~replica_client.stream.live.stream_options.asked`.
        connection: to the source, used for the first try; it is not closed. None: a new one.

    Raises:
        ServerError: the source refuses for a privilege, has no catalogue, or failed too often.
        TransportError: the connection failed too often.
        SchemaError: statements that may have changed any table come faster than tables can be read.
    """

    async def question() -> tuple[SchemaHistory, Position]:
        if connection is not None and connection.is_open:
            return await _read_source(connection, decode, selection)
        async with await SourceConnection.open(options) as own:
            return await _read_source(own, decode, selection)

    return await asked(question, f"reading the table definitions of {options.address}", policy)


async def _read_source(
    connection: SourceConnection, decode: DecodeOptions, selection: Selection | None
) -> tuple[SchemaHistory, Position]:
    """Read the definitions of a source's tables, and the position for which they are right.

    Takes no locks: if a statement after the position changed a wanted table before the reading
    ended, the tables are read again. If statements come faster than that, the tables that they
    changed stay unknown.

    MySQL >= 8.0 shows in information_schema what is committed, and a statement is in the binlog
    before that (elsewhere the reading waits for it). With GTIDs every transaction that was not
    committed when the reading began is after the position. Without GTIDs a statement before the
    position may not be committed yet, as long as a semi-synchronous replica delays it; only in the
    newest file, since a file begins when everything in the file before is committed. The reading
    waits for each table that a statement changed there.
    """
    for attempt in range(_TRIES):
        scan = BinlogScan(connection.options, decode)
        await asyncio.sleep(min(0.02 * attempt, 0.5))
        before = await connection.binlog_status()
        gtids = connection.gtids(before.executed_gtid_set)
        position = Position(before.file, before.position, gtids)
        request = await dump_request(connection, position, non_block=True)
        is_late = _tells_late(connection)
        unproven: set[str | TableName] = set()
        if is_late and request.gtid_set is None:
            doubtful = await _wait_for_commits(connection, before, decode, selection)
            if doubtful is None:
                continue
            unproven = doubtful
        databases, tables = await _read(connection, selection=selection)
        after = await connection.binlog_status()
        touches: list[Touch] = []
        if is_late and request.gtid_set is not None:
            touches = await scan.read_behind(request)
        elif (before.file, before.position) != (after.file, after.position):
            await scan.read(before.file, before.position)
            touches = scan.touches.all
        touches = [one for one in touches if _is_of_wanted(one, selection)]
        if touches and (attempt < _SURE_TRIES or any(one.anything for one in touches)):
            continue
        for one in touches:
            unproven.update(one.tables, one.databases)
        history = SchemaHistory(lower_case_names=connection.server.casefolds_names)
        # Statements at the position itself come after it.
        history.position = LogPosition.of(before.file, before.position - 1)
        _adopt_proven(history, databases, tables, unproven)
        return history, position
    raise SchemaError(
        f"{connection.options.address}: tables were changed during each of {_TRIES} readings of "
        "information_schema; start again when the schema rests"
    )


def _is_of_wanted(touch: Touch, selection: Selection | None) -> bool:
    """Return whether a statement may have changed a definition that is read."""
    if selection is None or touch.anything:
        return True
    wanted = selection.casefolded()  # as the names in a Touch are
    return any(wanted.wants(*table) for table in touch.tables) or any(
        map(wanted.wants_database, touch.databases)
    )


def _adopt_proven(
    history: SchemaHistory,
    databases: Mapping[str, DatabaseModel],
    tables: Iterable[TableModel],
    unproven: Iterable[str | TableName],
) -> None:
    """Add proven definitions to a history, without tables and databases in ``unproven``."""
    names = {
        casefold_name(one) if isinstance(one, str) else casefold_table(one) for one in unproven
    }
    # Whether an unproven table exists is unknown, too.
    partly = {one if isinstance(one, str) else one[0] for one in names}
    for name, database in databases.items():
        casefolded = casefold_name(name)
        if casefolded not in names:
            complete = database.complete and casefolded not in partly
            history.set_database(name, replace(database, complete=complete))
    for table in tables:
        key = casefold_table((table.database, table.name))
        if names.isdisjoint((key[0], key)):
            history.adopt(table)


def _tells_late(connection: SourceConnection) -> bool:
    """Return whether the binlog has a statement before information_schema shows its effect."""
    return not connection.server.is_mariadb and connection.server.version >= (8, 0, 0)


async def _wait_for_commits(
    connection: SourceConnection,
    status: BinlogStatus,
    decode: DecodeOptions,
    selection: Selection | None,
) -> set[str | TableName] | None:
    """Wait until the table changes by statements before a position are committed.

    A statement that changes a table locks it until then.

    Returns:
        Databases and tables for which this cannot be determined; None: try again.
    """
    scan = BinlogScan(connection.options, decode)
    await scan.read(status.file, FIRST_EVENT)
    unproven: set[str | TableName] = set()
    if not scan.touches.all:
        return unproven
    await connection.query(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}")
    databases, tables = await _read(connection, selection=selection)
    begin, end = LogPosition.of(status.file, FIRST_EVENT), scan.end
    barriers: list[tuple[str | TableName, str]] = [
        (name, f"SHOW CREATE DATABASE {mysql_name(name)}")
        for name in databases
        if scan.touches.touched_database(name, begin, end)
    ]
    for one in tables:
        table = (one.database, one.name)
        if scan.touches.touched(table, begin, end):
            barriers.append((table, f"SELECT 1 FROM {mysql_table(*table)} LIMIT 0"))  # noqa: S608 - names are quoted
    for name, statement in barriers:
        try:
            await connection.query(statement)
        except ServerError as error:
            if error.errno in GONE_ERRORS:
                return None
            if (
                error.errno not in PRIVILEGE_ERRORS
                and error.errno != ErrorCode.ER_LOCK_WAIT_TIMEOUT
            ):
                raise
            _LOG.info(
                "whether the definition of %s is the newest is not known: %s", name, str(error)
            )
            unproven.add(name)
    return unproven


async def _read(
    connection: SourceConnection,
    table: TableName | None = None,
    selection: Selection | None = None,
) -> tuple[dict[str, DatabaseModel], list[TableModel]]:
    """Read all databases, and the definition of one table or of the wanted tables."""
    databases = queries.read_databases(await connection.query(queries.DATABASES, lists_all=True))
    silent: set[TableName] = set()
    if table is None and selection is not None and not selection.selects_all:
        wanted = selection.for_server(connection.server.casefolds_names)
        databases = {
            name: one if wanted.wants_whole_database(name) else replace(one, complete=False)
            for name, one in databases.items()
        }
    tables = await read_definitions(connection, table, selection, silent)
    for database, _ in silent:  # whether it has more tables is unknown
        if database in databases:
            databases[database] = replace(databases[database], complete=False)
    return databases, tables


@dataclass(frozen=True, slots=True)
class _Reading:
    """Definitions as the source listed them.

    Attributes:
        tables: by their casefolded names.
        databases: by name.
        begin: a position in the binlog that was reached before the reading began. Rows before it
            belong to tables as they were committed then.
        end: a position in the binlog after everything that happened before the reading.
    """

    tables: dict[TableName, TableModel]
    databases: dict[str, DatabaseModel]
    begin: LogPosition
    end: LogPosition


class SchemaProver:
    """Prover of a table's definition at a position, by the live source and the binlog in between.

    Args:
        options: of the source.
        decode: how statements are decoded.
        selection: the wanted tables; after a few single queries all are read at once.

    Attributes:
        works: whether the source has a catalogue, as far as known.
    """

    def __init__(
        self, options: ConnectOptions, decode: DecodeOptions, selection: Selection | None = None
    ) -> None:
        self._options = options
        self._selection = selection
        self._scan = BinlogScan(options, decode)
        self._singles = 0
        self._all: _Reading | None = None
        self.works = True

    async def prove(
        self, history: SchemaHistory, table: TableName, transaction: Position, position: LogPosition
    ) -> bool:
        """Add a table's definition at a position to a history, if it can be proven.

        Args:
            history: a history that has read everything before the position.
            table: database and name.
            transaction: start of the transaction of the position.
            position: position of rows of the table.

        Returns:
            Whether anything was proven.

        Raises:
            TransportError: a connection failed; a retry may help.
            ServerError: the source failed; a retry may help.
        """
        if not self.works:
            return False
        try:
            return await self._prove(history, table, transaction, position)
        except (ServerError, ConfigError) as error:
            if not self._proves_nothing(error):
                raise
            _LOG.warning("no proof of what %s.%s looked like: %s", *table, str(error))
            return False

    def _proves_nothing(self, error: ServerError | ConfigError) -> bool:
        """Return whether an error means that there is no proof; other errors are retried."""
        if isinstance(error, ConfigError | BinlogReadError):
            return True
        if error.errno not in UNKNOWABLE_ERRORS:
            return False
        self.works = error.errno in PRIVILEGE_ERRORS
        return True

    async def prove_by(
        self,
        history: SchemaHistory,
        later: Version,
        table: TableName,
        transaction: Position,
        position: LogPosition,
    ) -> bool:
        """Add a definition that is right at a later position, if no statement between changed the table.

        A stream that asks the source only now may be late: it has altered the table since.

        ``later`` is what the stream knows about the table since then; the other arguments and the errors are
        those of :meth:`prove`.
        """
        # A definition that a statement made says nothing about the time before.
        if later.origin != "information_schema" or not isinstance(later.state, TableModel):
            return False
        try:
            await self._scan.extend(transaction.file, transaction.offset)
        except (ServerError, ConfigError) as error:
            if not self._proves_nothing(error):
                raise
            return False
        if self._scan.touches.touched(table, position, later.since):
            return False
        history.adopt(later.state)
        return True

    async def is_there(
        self, table: TableName, transaction: Position, position: LogPosition
    ) -> bool:
        """Return whether a table certainly exists at a position; False if that is unknown.

        Args:
            table: database and name.
            transaction: start of the transaction of the position.
            position: position after a statement.

        Raises:
            TransportError: a connection failed; a retry may help.
            ServerError: the source ended it; another connection may work.
        """
        if not self.works:
            return False
        try:
            async with await SourceConnection.open(self._options) as connection:
                _, tables = await _read(connection, table)
            await self._scan.extend(transaction.file, transaction.offset)
        except (ServerError, ConfigError) as error:
            if not self._proves_nothing(error):
                raise
            return False
        return bool(tables) and not self._scan.touches.touched(table, position, self._scan.end)

    async def _prove(
        self, history: SchemaHistory, table: TableName, transaction: Position, position: LogPosition
    ) -> bool:
        # If no statement changed the table between the position and the last reading of all tables,
        # that reading still holds.
        known = self._all
        if known is not None and self._scan.begin is not None:
            covered = self._scan.begin <= position < known.begin and known.end <= self._scan.end
            if covered and self._adopt(history, table, position, known):
                return True
        wanted = self._selection
        together = self._singles >= _SINGLE_READINGS and wanted is not None and known is None
        self._singles += 1
        first = transaction.offset
        if together:
            # A statement in this file may not be committed yet; those in earlier files are.
            first = FIRST_EVENT
            await self._scan.extend(transaction.file, first)
        begin = self._scan.end
        async with await SourceConnection.open(self._options) as connection:
            databases, tables = await _read(
                connection, None if together else table, wanted if together else None
            )
            is_late = _tells_late(connection)
        # Everything that happened before the reading is in the binlog now.
        await self._scan.extend(transaction.file, first)
        models = {casefold_table((one.database, one.name)): one for one in tables}
        if len(models) < len(tables):  # names that differ by letter case
            models = {(one.database, one.name): one for one in tables}
        reading = _Reading(models, databases, begin, self._scan.end)
        if together:
            self._all = reading
            since = LogPosition.of(transaction.file, first) if is_late else position
            for name, model in models.items():
                if name != table and not isinstance(history.table(name), TableModel):
                    self._adopt(history, (model.database, model.name), since, reading)
        return self._adopt(history, table, position, reading)

    def _adopt(
        self, history: SchemaHistory, table: TableName, position: LogPosition, reading: _Reading
    ) -> bool:
        """Add a table's definition to the history if it was the same at a position."""
        touches, end = self._scan.touches, reading.end
        model = reading.tables.get(table) or reading.tables.get(casefold_table(table))
        if model is not None and not touches.touched(table, position, end):
            history.adopt(model)
            return True
        database = reading.databases.get(table[0])
        state = history.table(table)
        if (
            database is not None
            and database.charset is not None
            and history.database(table[0]).changed_by is None
            and isinstance(state, TableModel)
            and state.needs_charset
            and state.takes_default
            and not touches.touched_database(table[0], position, end)
        ):
            history.adopt(state.with_charset(database.charset))
            return True
        return False
