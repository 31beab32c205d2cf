"""The stream of asyncmy.replication."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from replica_client.compat.asyncmy.constants import *  # noqa: F403
from replica_client.compat.asyncmy.errors import BinLogNotEnabledError
from replica_client.compat.asyncmy.events import *  # noqa: F403
from replica_client.compat.asyncmy.packets import BinLogPacket as BinLogPacket
from replica_client.compat.asyncmy.receiving import ConnectionDump
from replica_client.compat.asyncmy.row_events import (
    DeleteRowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)
from replica_client.compat.pymysqlreplication import row_event
from replica_client.compat.pymysqlreplication.binlogstream import BinLogStreamReader
from replica_client.compat.pymysqlreplication.event import BinLogEvent
from replica_client.compat.pymysqlreplication.gtid import Gtid, GtidSet
from replica_client.compat.pymysqlreplication.reading import ReportSlave as ReportSlave
from replica_client.compat.shim import definition, questions
from replica_client.protocol.constants.client_server import Command, ServerFlavor
from replica_client.schema.model import TableModel
from replica_client.stream.transport import server_statements
from replica_client.stream.transport.server_statements import ServerInfo, parse_version

_LOG = logging.getLogger("asyncmy")
_LOST = (2013, 2006)
_NET_WRITE_TIMEOUT = 3600
COM_BINLOG_DUMP = int(Command.COM_BINLOG_DUMP)
COM_BINLOG_DUMP_GTID = int(Command.COM_BINLOG_DUMP_GTID)
COM_REGISTER_SLAVE = int(Command.COM_REGISTER_SLAVE)
_CLASSES: Mapping[type[BinLogEvent], type[BinLogEvent]] = {
    row_event.TableMapEvent: TableMapEvent,
    row_event.WriteRowsEvent: WriteRowsEvent,
    row_event.UpdateRowsEvent: UpdateRowsEvent,
    row_event.DeleteRowsEvent: DeleteRowsEvent,
}
_BASES = {ours: base for base, ours in _CLASSES.items()}


class _Reader(BinLogStreamReader):
    """Makes events of packets that another object receives."""

    def use(self, classes: Mapping[type[BinLogEvent], type[BinLogEvent]]) -> None:
        """Give events of these classes instead."""
        context = self._context
        context.classes = {code: classes.get(kind, kind) for code, kind in context.classes.items()}
        context.tables._none_sources = False
        context.tables._wanted = replace(context.tables._wanted, qualified=True)
        context.tables._model_of = lambda schema, table: self.models.get((schema, table))
        self.models: dict[tuple[str, str], TableModel | None] = {}


class BinLogStream:
    """Reads the binlog of a source as a replica does; an asynchronous iterator of its events.

    Names, labels and signedness that the binlog does not have are asked for when a table is first
    met, as asyncmy does; where they do not fit the table of that moment, columns are
    ``UNKNOWN_COL0`` …

    Args:
        connection: of asyncmy; used up by the stream.
        ctl_connection: of asyncmy; for questions about tables.
        server_id: ours, unique among the source's replicas.
        slave_uuid: ours; the source ends an older dump with the same one.
        slave_heartbeat: seconds of silence after which the source sends a heartbeat.
        report_slave: how the source lists us.
        master_log_file: where to begin.
        master_log_position: where in it.
        master_auto_position: GTIDs; begin after them.
        resume_stream: begin at file and position, or at the end of the binlog; else at the start of the file.
        blocking: wait for events; else iteration ends at the end of the binlog.
        skip_to_timestamp: leave out events before this second.
        only_events: classes of wanted events.
        ignored_events: classes of unwanted events.
        filter_non_implemented_events: leave out events that have no class.
        only_tables: names of wanted tables, ``database.table``.
        ignored_tables: names of unwanted tables, ``database.table``.
        only_schemas: names of wanted databases.
        ignored_schemas: names of unwanted databases.
        freeze_schema: without effect: table maps are kept as they come.
        strict_compat: give wrong values as python-mysql-replication does; asyncmy's differ from them in
            fractions of negative TIME and in empty VARBINARY.
    """

    MYSQL_EXPECTED_ERROR_CODES: ClassVar[list[int]] = [*_LOST]

    def __init__(
        self,
        connection: Any,
        ctl_connection: Any,
        server_id: int,
        slave_uuid: str | None = None,
        slave_heartbeat: int | None = None,
        report_slave: str | tuple[Any, ...] | dict[str, Any] | None = None,
        master_log_file: str | None = None,
        master_log_position: int | None = None,
        master_auto_position: Iterable[Gtid] | str | None = None,
        resume_stream: bool = False,
        blocking: bool = False,
        skip_to_timestamp: int | None = None,
        only_events: Collection[type[BinLogEvent]] | None = None,
        ignored_events: Collection[type[BinLogEvent]] | None = None,
        filter_non_implemented_events: bool = True,
        only_tables: Collection[str] | None = None,
        ignored_tables: Collection[str] | None = None,
        only_schemas: Collection[str] | None = None,
        ignored_schemas: Collection[str] | None = None,
        freeze_schema: bool = False,
        *,
        strict_compat: bool = False,
    ) -> None:
        def bases(kinds: Collection[type[BinLogEvent]] | None) -> list[type[BinLogEvent]] | None:
            return None if kinds is None else [_BASES.get(kind, kind) for kind in kinds]

        self._connection = connection
        self._ctl_connection = ctl_connection
        self._server_id = server_id
        self._dump: ConnectionDump | None = None
        self._reader = _Reader(
            {},
            server_id,
            resume_stream=resume_stream,
            blocking=blocking,
            only_events=bases(only_events),
            ignored_events=bases(ignored_events),
            filter_non_implemented_events=filter_non_implemented_events,
            log_file=master_log_file,
            log_pos=master_log_position,
            auto_position=_gtids(master_auto_position),
            only_tables=only_tables,
            ignored_tables=ignored_tables,
            only_schemas=only_schemas,
            ignored_schemas=ignored_schemas,
            freeze_schema=freeze_schema,
            skip_to_timestamp=skip_to_timestamp,
            report_slave=report_slave,
            slave_uuid=slave_uuid,
            slave_heartbeat=slave_heartbeat,
            enable_logging=False,
            strict_compat=strict_compat,
        )
        self._reader.use(_CLASSES)

    @property
    def _connected(self) -> bool:
        return self._dump is not None

    @property
    def _master_log_file(self) -> str | None:
        return self._reader.log_file

    @property
    def _master_log_position(self) -> int | None:
        return self._reader.log_pos

    async def close(self) -> None:
        """Close the connection of the stream; the other one stays open."""
        self._dump = None
        self._reader.close()
        self._connection.close()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        """Return the next wanted event.

        Raises:
            StopAsyncIteration: the end of the binlog, for a stream that does not block.
            BinlogDecodeError: the bytes are not an event.
        """
        reader = self._reader
        while True:
            if reader._inner is not None:
                event = reader._next_inner()
            else:
                dump = self._dump
                if dump is None or not len(dump.events):
                    dump = await self._waiting()
                    if dump is None:
                        raise StopAsyncIteration
                events = dump.events
                event = reader._screened(events)
                if event is None and len(events):
                    data = events.take()
                    if data[4] == row_event.BINLOG.TABLE_MAP_EVENT:
                        await self._learn(data)
                    event = reader._event_of(data)
            if event is not None:
                return event

    async def _waiting(self) -> ConnectionDump | None:
        """Return a dump that has received events, or None at the end of the binlog."""
        while True:
            dump = self._dump
            if dump is None:
                dump = await self._connect()
            try:
                if await dump.wait():
                    return dump
            except Exception as error:
                self._dump = None
                if not error.args or error.args[0] not in _LOST:
                    raise
                _LOG.warning("%s; connecting again", error)
                continue
            self._dump = None
            self._connection.close()
            return None

    async def _connect(self) -> ConnectionDump:
        reader, connection = self._reader, self._connection
        if not connection.connected or reader._started:
            await connection.connect()
        rows = await _query(connection, "SELECT @@version, @@version_comment, @@server_id")
        text = str(rows[0][0])
        flavor = ServerFlavor.of_version(f"{text} {rows[0][1]}")
        server = ServerInfo(flavor, parse_version(text), text, int(rows[0][2]))
        if reader.log_file is None or reader.log_pos is None:
            status = await _query(connection, server_statements.binlog_status(server))
            if not status:
                raise BinLogNotEnabledError
            reader.log_file, reader.log_pos = str(status[0][0]), int(status[0][1])
        request = reader.begin(server)
        request.check(server)
        settings = server_statements.SessionSettings(
            int((reader.slave_heartbeat or 0) * 1_000_000_000),
            reader.slave_uuid or "",
            _NET_WRITE_TIMEOUT,
            slave_connect_state=request.slave_connect_state,
            gtid_strict_mode=False,
        )
        await _run(connection, server_statements.session_setup(server, settings))
        await self._send(reader.registration().encode())
        await connection.read_packet()
        await self._send(request.command(server, self._server_id))
        dump = self._dump = ConnectionDump(connection)
        return dump

    async def _send(self, payload: bytes) -> None:
        await self._connection._execute_command(payload[0], payload[1:])

    async def _learn(self, data: bytes) -> None:
        """Ask for the definition of a table whose names the binlog does not have."""
        asked = self._reader.unnamed_table(data)
        if asked is None:
            return
        dbms, version = self._reader.dbms, self._reader.mysql_version
        answers = [
            await _query(self._ctl_connection, *question) for question in questions(asked, dbms)
        ]
        self._reader.models[asked] = definition(asked, answers, dbms, version)


def _gtids(given: Iterable[Gtid] | str | None) -> str | None:
    if not given:
        return None
    return given if isinstance(given, str) else str(GtidSet(given))


async def _query(connection: Any, sql: str, args: Any = ()) -> list[tuple[Any, ...]]:
    async with connection.cursor() as cursor:
        await cursor.execute(sql, tuple(args) or None)
        rows = await cursor.fetchall()
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]


async def _run(connection: Any, sql: str) -> None:
    async with connection.cursor() as cursor:
        await cursor.execute(sql)
