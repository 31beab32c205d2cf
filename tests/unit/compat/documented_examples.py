"""The originals' documented examples with the import changed: mypy --strict reads this file as it reads all tests.

Nothing of it runs.
"""

from collections.abc import AsyncIterator

from replica_client.compat.asyncmy import BinLogStream
from replica_client.compat.asyncmy.row_events import (
    TableMapEvent as AsyncTableMapEvent,
    WriteRowsEvent as AsyncWriteRowsEvent,
)
from replica_client.compat.pymysqlreplication import BinLogStreamReader
from replica_client.compat.pymysqlreplication.event import GtidEvent, QueryEvent, RotateEvent
from replica_client.compat.pymysqlreplication.gtid import Gtid, GtidSet
from replica_client.compat.pymysqlreplication.row_event import (
    DeleteRowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)

SETTINGS = {"host": "127.0.0.1", "port": 3306, "user": "root", "passwd": ""}


def dump_all_events() -> None:
    """All events, printed."""
    stream = BinLogStreamReader(connection_settings=SETTINGS, server_id=100)
    for event in stream:
        event.dump()
    stream.close()


def rows_by_kind() -> list[tuple[str, dict[str, object]]]:
    """Rows as a cache or a queue gets them."""
    stream = BinLogStreamReader(
        connection_settings=SETTINGS,
        server_id=3,
        blocking=True,
        resume_stream=True,
        log_file="binlog.000001",
        log_pos=4,
        only_schemas=["shop"],
        only_events=[DeleteRowsEvent, WriteRowsEvent, UpdateRowsEvent],
    )
    found: list[tuple[str, dict[str, object]]] = []
    for event in stream:
        prefix = f"{event.schema}:{event.table}:"
        for row in event.rows:
            if isinstance(event, DeleteRowsEvent):
                found.append((prefix, row["values"]))
            elif isinstance(event, UpdateRowsEvent):
                found.append((prefix, row["after_values"]))
            elif isinstance(event, WriteRowsEvent):
                found.append((prefix, row["values"]))
    return found


def typed_event(event: WriteRowsEvent, tables: TableMapEvent) -> str:
    """Attributes have types."""
    first: dict[str, object] = event.rows[0]
    position: int = event.packet.log_pos
    names: list[str | None] = [column.name for column in tables.columns]
    return f"{event.schema}.{event.table} {position} {first} {names} {event.primary_key}"


def positions(event: QueryEvent | RotateEvent | GtidEvent) -> str:
    """What each kind of event tells."""
    if isinstance(event, RotateEvent):
        return f"{event.next_binlog}:{event.position}"
    if isinstance(event, GtidEvent):
        return str(GtidSet([Gtid(event.gtid)]))
    return event.query


async def asynchronous(connection: object, ctl_connection: object) -> AsyncIterator[object]:
    """asyncmy's example."""
    stream = BinLogStream(
        connection,
        ctl_connection,
        1,
        master_log_file="binlog.000001",
        master_log_position=4,
        resume_stream=True,
        blocking=True,
        only_events=[AsyncWriteRowsEvent],
    )
    async for event in stream:
        yield event.rows
    await stream.close()


def session_of(event: QueryEvent) -> tuple[int, bytes, int]:
    """Status variables, which are there where the statement has them."""
    return event.sql_mode, event.time_zone, event.auto_increment_increment


def digits_of(event: TableMapEvent) -> list[tuple[str | None, int, int]]:
    """Columns of a DECIMAL table."""
    return [(column.name, column.precision, column.decimals) for column in event.columns]


def local_times(zone: str) -> BinLogStreamReader:
    """TIMESTAMP values that tell their time zone."""
    return BinLogStreamReader(SETTINGS, 100, mysql_timezone=zone)


def names_of(event: AsyncTableMapEvent) -> tuple[str, str, dict[str, object]]:
    """A table as asyncmy gives it."""
    return event.table_name, event.table.schema, event.table.data
