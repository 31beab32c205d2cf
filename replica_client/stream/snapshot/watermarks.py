"""The state of a source between two positions: watermarks and definitions.

``low``: every transaction that begins before it is seen by the reading. ``high``: every transaction
that the reading sees begins before it.

MariaDB reports the position of a consistent snapshot; low and high are the same. MySQL does not,
and writes a transaction to the binlog before its rows become visible. So the end of the binlog is a
high mark at once, but a low mark only when the transactions that were being committed then are
done, which ``gtid_owned`` shows.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from typing import Final, Literal

from replica_client.errors import (
    ConfigError,
    MalformedPacketError,
    ServerError,
    TransportTimeoutError,
)
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import GONE_ERRORS
from replica_client.schema.model import TableModel
from replica_client.schema.names import casefold_table, mysql_table
from replica_client.stream.live.live_definitions import read_definitions as definitions_of
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.source_gtids import owned_gtids

Locking = Literal["never", "brief"]
"""``brief``: a consistent snapshot begins under FLUSH TABLES WITH READ LOCK, which is released at
once; for sources without GTIDs, and for tables without a primary key that always change."""

_BEGIN: Final = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
)
_COMMITTING_WAIT: Final = 600.0
_PAUSE: Final = 0.005


@dataclass(frozen=True, slots=True)
class Window:
    """The positions between which a reading lies; exact when low and high are the same.

    Attributes:
        low: every transaction that begins before it is seen.
        high: every transaction that is seen begins before it.
        named: a position after every statement that gave the table its name and the definition
            under which it was read; not before ``high``. None where no table is read.
    """

    low: Position
    high: Position
    named: Position | None = None

    @property
    def exact(self) -> bool:
        """Whether the reading is of one position."""
        return self.low == self.high


async def low_watermark(connection: SourceConnection) -> Position:
    """Return a position before which every transaction is visible now.

    Raises:
        ConfigError: a MySQL source without GTIDs.
        TransportTimeoutError: a transaction takes very long to commit.
    """
    if connection.server.is_mariadb:
        await begin(connection)
        try:
            return await _snapshot_position(connection)
        finally:
            await connection.query("ROLLBACK")
    mode = await connection.query("SELECT @@global.gtid_mode", columns=1, rows=1)
    if str(mode[0][0]) != "ON":
        raise ConfigError(
            f"{connection.options.address} has gtid_mode={mode[0][0]}: a copy without a lock needs GTIDs; "
            "set gtid_mode=ON, or allow a brief lock (locking=brief)"
        )
    end = await log_end(connection)
    committing = await owned_gtids(connection)
    deadline = time.monotonic() + _COMMITTING_WAIT
    while committing and (committing := committing & await owned_gtids(connection)):
        if time.monotonic() > deadline:
            raise TransportTimeoutError(
                f"{connection.options.address}: transactions are being committed since "
                f"{_COMMITTING_WAIT:g} s ({next(iter(committing))} …); see its process list"
            )
        await asyncio.sleep(_PAUSE)
    return end


async def log_end(connection: SourceConnection) -> Position:
    """Return the position at which the source's binlog ends.

    Raises:
        ServerError: the source refuses.
    """
    status = await connection.binlog_status()
    return Position(status.file, status.position)


async def begin(connection: SourceConnection) -> None:
    """Begin a transaction that sees one state of the tables, with times in UTC."""
    await connection.query("SET SESSION time_zone = '+00:00', sql_mode = ''")
    for statement in _BEGIN:
        await connection.query(statement)


async def begin_between(connection: SourceConnection, locking: Locking = "never") -> Window:
    """Begin such a transaction, and return the positions between which its state lies.

    Raises:
        ConfigError: see :func:`low_watermark`.
        ServerError: a statement is not allowed.
    """
    if connection.server.is_mariadb:
        await begin(connection)
        position = await _snapshot_position(connection)
        return Window(position, position)
    if locking == "brief":
        await connection.query("FLUSH TABLES WITH READ LOCK")
        try:
            await begin(connection)
            position = await log_end(connection)
        finally:
            await connection.query("UNLOCK TABLES")
        return Window(position, position)
    low = await low_watermark(connection)
    await begin(connection)
    return Window(low, await log_end(connection))


async def _snapshot_position(connection: SourceConnection) -> Position:
    rows = await connection.query("SHOW STATUS LIKE 'binlog_snapshot_%'", columns=2)
    found = {str(row[0]).lower(): str(row[1]) for row in rows}
    try:
        return Position(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))
    except (KeyError, ValueError):
        raise MalformedPacketError(
            f"{connection.options.address} does not report the position of a consistent snapshot"
        ) from None


TableName = tuple[str, str]

_CASCADES = re.compile(
    r"^\s*CONSTRAINT .* FOREIGN KEY .* ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)",
    re.MULTILINE,
)


async def read_definitions(
    connection: SourceConnection, table: TableName | None = None
) -> dict[TableName, TableModel]:
    """Read the definitions of all tables, or of one, from ``information_schema``.

    Raises:
        ServerError: the source refuses.
        SchemaError: a column's type is not understood.
    """
    server = connection.server
    models = await definitions_of(connection, table)
    if (
        server.casefolds_names
    ):  # with lower_case_table_names=2 the server shows the names as they were created
        models = [one.renamed(*casefold_table((one.database, one.name))) for one in models]
    return {(model.database, model.name): model for model in models}


async def cascaded_tables(
    connection: SourceConnection, tables: Iterable[TableName]
) -> frozenset[TableName]:
    """Return the tables among ``tables`` whose rows foreign keys change without row events.

    InnoDB executes CASCADE and SET NULL on its own; MySQL 9.6 and newer do it in SQL, and log it,
    where ``innodb_native_foreign_keys`` is OFF. ``information_schema`` shows foreign keys only to
    users with more privileges than SELECT; SHOW CREATE TABLE shows them to all. A table that was
    dropped in the meantime is skipped.

    Raises:
        ServerError: the source refuses.
    """
    native = await connection.query("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    if native and str(native[0][1]).upper() == "OFF":
        return frozenset()
    found = set()
    for name in tables:
        try:
            rows = await connection.query(f"SHOW CREATE TABLE {mysql_table(*name)}", columns=2)
        except ServerError as error:
            if error.errno not in GONE_ERRORS:
                raise
            continue
        text = rows[0][1]
        shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        if _CASCADES.search(shown):
            found.add(name)
    return frozenset(found)
