"""The stream of python-mysql-replication."""

# Over 500 lines: the one class that programs import from this module; it has an attribute for
# each of theirs.

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from replica_client.compat.event_screen import (
    LIKE,
    PASS,
    ROWS,
    STOP,
    TABLE,
    TABLE_LIKE,
    EventScreen,
)
from replica_client.compat.pymysqlreplication.constants.BINLOG import (
    FORMAT_DESCRIPTION_EVENT,
    ROTATE_EVENT,
    TABLE_MAP_EVENT,
)
from replica_client.compat.pymysqlreplication.event import (
    BeginLoadQueryEvent,
    BinLogEvent,
    ExecuteLoadQueryEvent,
    FormatDescriptionEvent,
    GtidEvent,
    HeartbeatLogEvent,
    MariadbAnnotateRowsEvent,
    MariadbBinLogCheckPointEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    MariadbStartEncryptionEvent,
    NotImplementedEvent,
    PreviousGtidsEvent,
    QueryEvent,
    RandEvent,
    RotateEvent,
    RowsQueryLogEvent,
    StopEvent,
    UserVarEvent,
    XAPrepareEvent,
    XidEvent,
)
from replica_client.compat.pymysqlreplication.exceptions import BinLogNotEnabled
from replica_client.compat.pymysqlreplication.gtid import GtidSet
from replica_client.compat.pymysqlreplication.logger import logger
from replica_client.compat.pymysqlreplication.packet import (
    EVENT_CLASSES,
    MORE_CLASSES,
    BinLogPacketWrapper,
    Context,
)
from replica_client.compat.pymysqlreplication.reading import ReportSlave
from replica_client.compat.pymysqlreplication.row_event import (
    DeleteRowsEvent,
    PartialUpdateRowsEvent,
    RowsEvent,
    TableMapEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
    fetch_column_names,
)
from replica_client.compat.pymysqlreplication.stream_tables import (
    TableBook,
    TableFacts,
    TableFilter,
)
from replica_client.compat.pymysqlreplication.table_numbers import TableMap
from replica_client.errors import ServerError
from replica_client.protocol.binlog.decoder import CONTAINERS, BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent as DecodedEvent
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.constants.client_server import Command
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet as CoreGtidSet, MariadbGtidSet
from replica_client.protocol.wire.dump_commands import ComRegisterSlave
from replica_client.schema.model import TableModel
from replica_client.stream.transport import driver_dump
from replica_client.stream.transport.driver_dump import DriverDump
from replica_client.stream.transport.dump import DumpRequest
from replica_client.stream.transport.server_statements import (
    ServerInfo,
    binlog_status,
    has_checksums,
)

MYSQL_EXPECTED_ERROR_CODES = [2013, 2006]
MYSQL_ER_PARSE_ERROR = 1064
COM_BINLOG_DUMP = int(Command.COM_BINLOG_DUMP)
COM_BINLOG_DUMP_GTID = int(Command.COM_BINLOG_DUMP_GTID)
COM_REGISTER_SLAVE = int(Command.COM_REGISTER_SLAVE)
PYMYSQL_VERSION_LT_06 = False
_FRAGMENT = int(EventType.PARTIAL_ROW_DATA_EVENT)
_HEADER_SIZE = 19
_KEPT_MAPS = 4096
_HEADER = struct.Struct("<IBIIIH")
_ROWS_CLASSES = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, PartialUpdateRowsEvent)
_ALL_EVENTS: frozenset[type[BinLogEvent]] = frozenset(
    (
        QueryEvent,
        RotateEvent,
        StopEvent,
        FormatDescriptionEvent,
        XAPrepareEvent,
        XidEvent,
        GtidEvent,
        PreviousGtidsEvent,
        BeginLoadQueryEvent,
        ExecuteLoadQueryEvent,
        HeartbeatLogEvent,
        RowsQueryLogEvent,
        RandEvent,
        UserVarEvent,
        TableMapEvent,
        *_ROWS_CLASSES,
        MariadbGtidEvent,
        MariadbGtidListEvent,
        MariadbBinLogCheckPointEvent,
        MariadbAnnotateRowsEvent,
        MariadbStartEncryptionEvent,
        NotImplementedEvent,
    )
)


class BinLogStreamReader:
    """Reads the binlog of a source as a replica does, and returns its events.

    Values that python-mysql-replication gets wrong are right here, unless ``strict_compat`` is set:

    ========================================  ==================================  =====================
    what                                      here                                ``strict_compat``
    ========================================  ==================================  =====================
    negative TIME with a fraction             its value                           fraction added
    YEAR 0                                    0                                   1900
    TIMESTAMP ``0000-00-00``                  None (out of datetime2 range)       1970-01-01
    BINARY(n)                                 n bytes                             without the zero bytes
    empty BINARY, VARBINARY, BLOB             ``b""``                             ``""``
    integers without names (MINIMAL)          signed or not as the column is      signed
    text without names (MINIMAL)              in its character set                as UTF-8
    BLOB without names (MINIMAL)              bytes                               as UTF-8, or an error
    ENUM, SET without names                   the number                          None
    JSON, negative TIME                       a timedelta                         without its sign
    JSON null                                 None, without ``none_sources``      ``null`` there
    several partial updates of one document   a list of JsonDiff                  the first one
    compressed transactions and rows          their events                        left out
    tagged GTIDs                              GtidEvent, with ``tag``             left out
    status variables that are not known       passed over                         an exception
    ``is_mariadb`` with ``log_file``          begins there                        with the oldest event
    after the end of the binlog               reading goes on there               as ``resume_stream``
    ========================================  ==================================  =====================

    Also with ``strict_compat``: ``primary_key`` names columns of which the key has a prefix; VARBINARY inside
    JSON is bytes. A wrong checksum is an error. A lost connection is opened again, and each event is given once: with
    ``auto_position`` theirs begin again at the set.

    Args:
        connection_settings: of ``pymysql.connect``.
        server_id: ours, unique among the source's replicas.
        ctl_connection_settings: for the second connection, where it is another server.
        resume_stream: begin at ``log_file`` and ``log_pos``, or at the end of the binlog; else at the start of
            the file.
        blocking: wait for events; else iteration ends at the end of the binlog.
        only_events: classes of wanted events.
        log_file: where to begin.
        log_pos: where in it.
        end_log_pos: where to end.
        filter_non_implemented_events: leave out events that have no class.
        ignored_events: classes of unwanted events.
        auto_position: a GTID set; begin after it.
        only_tables: names of wanted tables.
        ignored_tables: names of unwanted tables.
        only_schemas: names of wanted databases.
        ignored_schemas: names of unwanted databases.
        freeze_schema: without effect: table maps are kept as they come.
        skip_to_timestamp: leave out events before this second.
        report_slave: how the source lists us: a host, a tuple (host, user, password, port) or a dict.
        slave_uuid: ours; the source ends an older dump with the same one.
        pymysql_wrapper: instead of ``pymysql.connect``; gives a PyMySQL connection.
        slave_heartbeat: seconds of silence after which the source sends a heartbeat.
        is_mariadb: that the source is MariaDB is found out; a program that says so and tells neither
            ``log_file`` nor ``auto_position`` begins with the oldest event.
        annotate_rows_event: ask MariaDB for the statements' texts.
        ignore_decode_errors: leave out bytes that are not text of their character set.
        verify_checksum: checksums are always verified.
        enable_logging: log the parameters.
        use_column_name_cache: ask the server for names that the binlog does not have.
        strict_compat: give what python-mysql-replication gives, also where it is wrong.
        mysql_timezone: an argument of mysql_ch_replicator's copy: a time zone in which TIMESTAMP values come, as
            aware ``datetime``.

    Raises:
        ZoneInfoNotFoundError: there is no such time zone.
    """

    report_slave: ReportSlave | None = None
    names_from_source = False
    """Ask the source how a table is now, where the binlog does not tell its columns' names: as releases before
    1.0 did. Names, labels and signedness are taken if they fit the rows."""

    def __init__(
        self,
        connection_settings: Mapping[str, Any],
        server_id: int,
        ctl_connection_settings: Mapping[str, Any] | None = None,
        resume_stream: bool = False,
        blocking: bool = False,
        only_events: Collection[type[BinLogEvent]] | None = None,
        log_file: str | None = None,
        log_pos: int | None = None,
        end_log_pos: int | None = None,
        filter_non_implemented_events: bool = True,
        ignored_events: Collection[type[BinLogEvent]] | None = None,
        auto_position: str | GtidSet | None = None,
        only_tables: Collection[str] | None = None,
        ignored_tables: Collection[str] | None = None,
        only_schemas: Collection[str] | None = None,
        ignored_schemas: Collection[str] | None = None,
        freeze_schema: bool = False,
        skip_to_timestamp: float | None = None,
        report_slave: str | tuple[Any, ...] | Mapping[str, Any] | None = None,
        slave_uuid: str | None = None,
        pymysql_wrapper: Callable[..., Any] | None = None,
        slave_heartbeat: float | None = None,
        is_mariadb: bool = False,
        annotate_rows_event: bool = False,
        ignore_decode_errors: bool = False,
        verify_checksum: bool = False,
        enable_logging: bool = True,
        use_column_name_cache: bool = False,
        *,
        strict_compat: bool = False,
        mysql_timezone: str | None = None,
    ) -> None:
        self.__connection_settings = dict(connection_settings)
        self.__connection_settings.setdefault("charset", "utf8")
        self._ctl_connection_settings = dict(ctl_connection_settings or self.__connection_settings)
        self.__connected_stream = False
        self.__connected_ctl = False
        self.__resume_stream = resume_stream
        self.__blocking = blocking
        self.__server_id = server_id
        self.__use_checksum = False
        self.__only_tables = only_tables
        self.__ignored_tables = ignored_tables
        self.__only_schemas = only_schemas
        self.__ignored_schemas = ignored_schemas
        self.__freeze_schema = freeze_schema
        self.__ignore_decode_errors = ignore_decode_errors
        self.__verify_checksum = verify_checksum
        self.__optional_meta_data = False
        self.__enable_logging = enable_logging
        self.__use_column_name_cache = use_column_name_cache
        self.__annotate_rows_event = annotate_rows_event
        self.__strict = strict_compat
        self.__allowed_events = self._allowed_event_list(
            only_events, ignored_events, filter_non_implemented_events
        )
        self.__allowed_events_in_packet = frozenset(
            (TableMapEvent, RotateEvent, *self.__allowed_events)
        )
        self.log_pos = log_pos
        self.end_log_pos = end_log_pos
        self.log_file = log_file
        self.auto_position = auto_position
        self.skip_to_timestamp = skip_to_timestamp
        self.is_mariadb = is_mariadb
        self.mysql_version: tuple[int, int, int] = (0, 0, 0)
        self.dbms: str | None = None
        self.slave_uuid = slave_uuid
        self.slave_heartbeat = slave_heartbeat
        self.pymysql_wrapper = pymysql_wrapper or driver_dump.connect
        if report_slave:
            self.report_slave = ReportSlave(report_slave)
        self._stream_connection: Any = None
        self._ctl_connection: Any = None
        self.table_map = TableMap()
        tables = TableBook(
            TableFilter(only_tables, ignored_tables, only_schemas, ignored_schemas),
            strict=strict_compat,
            ignore_decode_errors=ignore_decode_errors,
            names_of=self._names_of if use_column_name_cache else None,
            model_of=self._model_of if self.names_from_source else None,
            time_zone=None if mysql_timezone is None else ZoneInfo(mysql_timezone),
        )
        classes = EVENT_CLASSES if strict_compat else EVENT_CLASSES | MORE_CLASSES
        self._context = Context(tables, self.table_map, strict=strict_compat, classes=classes)
        self._wanted = {
            code: kind in self.__allowed_events
            for code, kind in (EVENT_CLASSES | MORE_CLASSES).items()
            if strict_compat <= (code in EVENT_CLASSES)
        }
        self._others_wanted = NotImplementedEvent in self.__allowed_events
        self._needs_tables = any(issubclass(k, RowsEvent) for k in self.__allowed_events)
        self._decoder = BinlogDecoder(tables.decode)
        self._dump: DriverDump | None = None
        self._inner: Iterator[DecodedEvent] | None = None
        self._end_of_inner = 0
        self._past_end = False
        # Where a dump can begin that has the table maps of the rows after log_pos.
        self._group_start = 0
        self._given_before = 0
        # Events after log_pos whose headers give no position (MariaDB since 11.4), and how many of
        # them, and of a compressed transaction, were taken before the connection was lost.
        self._unplaced = self._unplaced_before = 0
        self._inner_count = self._inner_before = 0
        self._started = False
        self._known_contents: set[bytes] = set()
        # Table maps of this file by their bytes, those of the number only where it matters.
        self._known_maps: SizedCache[bytes, tuple[int, TableFacts]] = SizedCache(_KEPT_MAPS)
        self._screen = EventScreen(self.table_map._known, self._known_maps, _GROUP_CODES)

    @property
    def is_past_end_log_pos(self) -> bool:
        """Whether ``end_log_pos`` was reached."""
        return self._past_end

    # Connections.

    def close(self) -> None:
        """Close the connections; reading opens them again."""
        if self.__connected_stream:
            driver_dump.close_quietly(self._stream_connection)
            self.__connected_stream = False
        if self.__connected_ctl:
            driver_dump.close_quietly(self._ctl_connection)
            self.__connected_ctl = False
        self._dump = None
        self._inner = None

    def __connect_to_ctl(self) -> None:
        settings = dict(self._ctl_connection_settings)
        settings["autocommit"] = True
        self._ctl_connection = self.pymysql_wrapper(**settings)
        self._context.ctl_connection = self._ctl_connection
        self._screen.forget()
        self.__connected_ctl = True

    def _names_of(self, schema: str, table: str) -> list[str]:
        if not self.__connected_ctl:
            self.__connect_to_ctl()
        return fetch_column_names(self._ctl_connection, schema, table, True)

    def _model_of(self, schema: str, table: str) -> TableModel | None:
        # Only here: most programs do without, and start sooner.
        from replica_client.compat.shim import definition, questions

        if not self.__connected_ctl:
            self.__connect_to_ctl()
        asked = schema, table
        answers = [
            driver_dump.query(self._ctl_connection, *question)
            for question in questions(asked, self.dbms)
        ]
        return definition(asked, answers, self.dbms, self.mysql_version)

    def __connect_to_stream(self) -> None:
        self._stream_connection = connection = self.pymysql_wrapper(**self.__connection_settings)
        self.__connected_stream = True
        server = driver_dump.identify(connection)
        self.__use_checksum = has_checksums(server) and driver_dump.query(
            connection, "SELECT @@global.binlog_checksum"
        )[0][0] not in ("NONE", b"NONE")
        if self._needs_position and not self._from_oldest(server):
            rows = driver_dump.query(connection, binlog_status(server))
            if not rows:
                raise BinLogNotEnabled
            self.log_file, self.log_pos = str(rows[0][0]), int(rows[0][1])
        dump = DriverDump(connection, server)
        dump.start(
            self.begin(server),
            server_id=self.__server_id,
            heartbeat_period=self.slave_heartbeat or 0,
            replica_uuid=self.slave_uuid or "",
            register=self.registration(),
        )
        self._dump = dump
        if self.__enable_logging and not server.is_mariadb and server.version >= (8, 0, 14):
            logger.debug("reading %s:%s of %s", self.log_file, self.log_pos, server.version_text)

    @property
    def _goes_on(self) -> bool:
        return self._started and not self.__strict and bool(self.log_file and self.log_pos)

    @property
    def _needs_position(self) -> bool:
        return not self._goes_on and (self.log_file is None or self.log_pos is None)

    def _from_oldest(self, server: ServerInfo) -> bool:
        """Return whether to begin with the oldest event.

        That holds for a MariaDB source if the program says ``is_mariadb`` and gives no place to
        begin.
        """
        given = self.log_file is not None and self.log_pos is not None
        return bool(
            self.is_mariadb
            and server.is_mariadb
            and not self.auto_position
            and (self.__strict or not given)
        )

    def registration(self) -> ComRegisterSlave:
        """Return the command that registers us with the source."""
        return (self.report_slave or ReportSlave("")).command(self.__server_id)

    def begin(self, server: ServerInfo) -> DumpRequest:
        """Return the request for a new connection to a source, and drop the state of the last connection."""
        self.dbms = self._context.dbms = "mariadb" if server.is_mariadb else "mysql"
        self._decoder = BinlogDecoder(self._context.tables.decode)
        self._screen.actions = bytes(256)
        self._screen.forget()
        goes_on, self._started = self._goes_on, True
        self._given_before = 0
        if goes_on:
            self._given_before = self.log_pos or 0
            self._unplaced_before, self._unplaced = self._unplaced, 0
            self._inner_before, self._inner_count = self._inner_count, 0
            return self._asked(self.log_file or "", self._group_start or self.log_pos or 4)
        if self.auto_position or self._from_oldest(server):
            text = str(self.auto_position or "")
            gtids = MariadbGtidSet.parse(text) if server.is_mariadb else CoreGtidSet.parse(text)
            return self._asked(gtid_set=gtids)
        if not self.__resume_stream or not self.log_pos or self.log_pos < 4:
            self.log_pos = 4
        return self._asked(self.log_file or "", self.log_pos)

    def _asked(self, file: str = "", position: int = 4, gtid_set: Any = None) -> DumpRequest:
        return DumpRequest(
            file,
            position,
            gtid_set,
            non_block=not self.__blocking,
            annotate_rows=self.__annotate_rows_event,
        )

    # Events.

    def fetchone(self) -> Any:
        """Return the next wanted event, or None at the end of the binlog or at ``end_log_pos``.

        Raises:
            ServerError: the source refused.
            BinlogDecodeError: the bytes are not an event.
            pymysql.err.Error: a connection could not be opened.
        """
        while not self._past_end:
            if self._inner is not None:
                event = self._next_inner()
            else:
                events = self._waiting()
                if events is None:
                    return None
                event = self._screened(events)
                if event is None and len(events):
                    event = self._event_of(events.take())
            if self.end_log_pos and self.log_pos and self.log_pos >= self.end_log_pos:
                self._past_end = True
            if event is not None:
                return event
        return None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchone, None)

    def _waiting(self) -> EventQueue | None:
        """Return received events, or None at the end of the binlog."""
        while True:
            dump = self._dump
            if dump is None:
                self.__connect_to_stream()
                continue
            if len(dump.events):
                return dump.events
            try:
                more = dump.wait()
            except ServerError as error:
                self._drop()
                if error.errno in MYSQL_EXPECTED_ERROR_CODES:
                    continue
                raise driver_dump.OperationalError(error.errno, error.message) from error
            except Exception as error:
                self._drop()
                if not driver_dump.is_lost(error):
                    raise
                logger.warning("%s; connecting again", error)
                continue
            if not more:
                self._drop()
                return None

    def _screened(self, events: EventQueue) -> Any:
        """Skip unwanted events, and return the wanted event after them if it needs no decoding."""
        if (
            self._given_before
            or self._unplaced_before
            or self._inner_before
            or self.end_log_pos
            or self.log_pos is None
        ):
            return None
        screen = self._screen
        self.table_map.trim()
        event = screen.take(events, self.log_pos, self._group_start, self._unplaced)
        self.log_pos = screen.log_pos
        self._group_start = screen.group_start
        self._unplaced = screen.unplaced
        return event

    def _actions(self) -> bytes:
        """Return the screen's action for each event type, by the layout of the format description."""
        layout = self._decoder.format
        usual = self._decoder.is_plain and layout.header_size == _HEADER_SIZE
        actions = bytearray(256)
        for code in range(256):
            if code in (ROTATE_EVENT, FORMAT_DESCRIPTION_EVENT) or (
                code in CONTAINERS and not self.__strict
            ):
                continue
            if not self._wanted.get(code, self._others_wanted):
                actions[code] = TABLE if code == TABLE_MAP_EVENT and self._needs_tables else PASS
            elif code in _PLAIN_ROWS and usual and not self.skip_to_timestamp:
                size = _PLAIN_ROWS[code]
                actions[code] = ROWS if layout.post_header_size(code, size) == size else STOP
            elif (
                code in _LOADED_LATER and usual and not self.skip_to_timestamp and not self.__strict
            ):
                actions[code] = TABLE_LIKE if code == TABLE_MAP_EVENT else LIKE
        return bytes(actions)

    def _drop(self) -> None:
        self._dump = None
        if self.__connected_stream:
            driver_dump.close_quietly(self._stream_connection)
            self.__connected_stream = False

    def _event_of(self, data: bytes) -> Any:
        timestamp, code, _, size, position, _ = _HEADER.unpack_from(data)
        if code == ROTATE_EVENT:
            return self._rotate(data)
        before = self.log_pos or 0
        again = self._was_taken(code, position)
        if position and not again:
            self.log_pos = position
            self._unplaced = 0
            if code == TABLE_MAP_EVENT:
                self._group_start = self._group_start or before
            elif code not in _IN_GROUP:
                self._group_start = 0
        if again and code not in (FORMAT_DESCRIPTION_EVENT, TABLE_MAP_EVENT):
            if code == _FRAGMENT:
                self._decoder.decode(data, before)  # those that follow need it
            return None
        if code in CONTAINERS and not self.__strict:
            return self._payload(data, before)
        wanted = self._wanted.get(code, self._others_wanted)
        skipped = self.skip_to_timestamp and timestamp < self.skip_to_timestamp
        if code == TABLE_MAP_EVENT:
            return self._table_map(data, wanted and not skipped and not again)
        if code == FORMAT_DESCRIPTION_EVENT:
            return self._format(data, wanted and not skipped)
        if not wanted or skipped:
            return None
        return self._made(self._decoder.decode(data, position - size if position else 0), data)

    def _was_taken(self, code: int, position: int) -> bool:
        """Return whether an event was delivered before the connection was lost and now repeats."""
        if code == FORMAT_DESCRIPTION_EVENT:
            return not position
        if position:
            if position <= self._given_before:
                return True
            self._given_before = self._unplaced_before = 0
            return False
        if self._unplaced_before:
            self._unplaced_before -= 1
            self._unplaced += 1
            return True
        self._unplaced += 1
        return False

    def _made(self, decoded: DecodedEvent, data: bytes | None) -> Any:
        event = BinLogPacketWrapper._of(decoded, data, self._context).event
        if not event._processed:
            return None
        if data is not None:
            self._screen.learn(event, self._context, data)
        return event

    def _rotate(self, data: bytes) -> Any:
        decoded = self._decoder.decode(data, 0)
        body = decoded.body
        goes_on = self._given_before and body.next_file == self.log_file
        self.table_map.clear()
        self._known_maps.clear()
        self._screen.forget()
        if not goes_on:
            self._given_before = 0
            self.log_file, self.log_pos = body.next_file, body.next_position
            self._group_start = 0
        if self.skip_to_timestamp and decoded.header.timestamp < self.skip_to_timestamp:
            return None
        return self._made(decoded, data) if self._wanted[ROTATE_EVENT] else None

    def _format(self, data: bytes, wanted: bool) -> Any:
        decoded = self._decoder.decode(data, 4)
        context = self._context
        event = BinLogPacketWrapper._of(decoded, data, context).event
        context.mysql_version = self.mysql_version = event.mysql_version
        context.dbms = self.dbms = event.dbms
        context.format = self._decoder.format
        # A format description has a checksum of its own even where the events have none.
        self.__use_checksum = context.tail > 0
        self._screen.forget()
        self._screen.tail = context.tail
        self._screen.number_size = self._number_size()
        self._known_maps.clear()
        self._screen.actions = self._actions()
        return event if wanted else None

    def _number_size(self) -> int:
        """Return how many bytes of a table map are its table's number, or 0 if the number counts.

        The number counts where the source is asked for names: its answer holds for one number, and
        another number means that the table was altered.
        """
        if self.names_from_source or self.__use_column_name_cache:
            return 0
        return 6 if self._decoder.format.post_header_size(TABLE_MAP_EVENT, 8) == 8 else 0

    def _content(self, data: bytes) -> bytes:
        """Return the part of a table map event that all table maps of the same table share."""
        at = _HEADER_SIZE + self._screen.number_size
        return data[at : -4 if self.__use_checksum else None]

    def _table_map(self, data: bytes, wanted: bool) -> Any:
        if not wanted:
            if self._needs_tables:
                self._announce(data)
            return None
        return self._mapped(self._decoder.decode(data, 0), data, wanted)

    def unnamed_table(self, data: bytes) -> tuple[str, str] | None:
        """Return the database and name of a wanted table whose table map has no column names, else None."""
        if not self._needs_tables and not self._wanted[TABLE_MAP_EVENT]:
            return None
        size = len(data) - 4 if self.__use_checksum else len(data)
        if data[_HEADER_SIZE:size] in self._known_contents:
            return None
        body = self._decoder.decode(data, 0).body
        if len(self._known_contents) >= _KEPT_MAPS:
            self._known_contents.clear()
        self._known_contents.add(data[_HEADER_SIZE:size])
        if not self._context.tables.wants(body.schema, body.table):
            return None
        named = bool(body.metadata.column_names) if body.optional_metadata else False
        return None if named else (body.schema, body.table)

    def _announce(self, data: bytes) -> None:
        """Learn the table of an unwanted table map; most repeat the bytes of an earlier one."""
        content = self._content(data)
        known = self._known_maps.get(content)
        self._screen.announced()
        if known is None:
            body = self._decoder.decode(data, 0).body
            facts = self._context.tables.facts(body, self._context.dbms)
            known = body.table_id, facts
            if facts.named or not self.__use_column_name_cache:
                self._known_maps.put(content, known, len(content))
        if self._screen.number_size:
            number = int.from_bytes(data[_HEADER_SIZE : _HEADER_SIZE + 6], "little")
            known = number, known[1]
        self.table_map.announce(*known)

    def _mapped(self, decoded: DecodedEvent, data: bytes | None, wanted: bool) -> Any:
        body = decoded.body
        facts = self._context.tables.facts(body, self._context.dbms)
        self._screen.announced()
        self.table_map.announce(body.table_id, facts)
        if data is not None and (facts.named or not self.__use_column_name_cache):
            content = self._content(data)
            self._known_maps.put(content, (body.table_id, facts), len(content))
        self.__optional_meta_data = facts.named
        return self._made(decoded, data) if wanted and facts.wanted else None

    def _payload(self, data: bytes, before: int) -> Any:
        """Begin the events of a compressed transaction; the position stays before it until its last event."""
        self._end_of_inner, self.log_pos = self.log_pos or 0, before
        decoded = self._decoder.decode(data, before)
        if self.skip_to_timestamp and decoded.header.timestamp < self.skip_to_timestamp:
            self.log_pos = self._end_of_inner
            return None
        self._inner = self._decoder.inner_events(decoded)
        self._inner_count = 0
        for _ in range(self._inner_before):
            # Table maps among them are needed again.
            self._next_inner()
        self._inner_before = 0
        return None

    def _next_inner(self) -> Any:
        assert self._inner is not None
        decoded = next(self._inner, None)
        if decoded is None:
            self._inner = None
            self._inner_count = 0
            self.log_pos = self._end_of_inner
            return None
        self._inner_count += 1
        code = decoded.header.type_code
        wanted = self._wanted.get(code, self._others_wanted)
        if code == TABLE_MAP_EVENT:
            return self._mapped(decoded, None, wanted)
        if code in _COMMITS:
            self.log_pos = self._end_of_inner
        return self._made(decoded, None) if wanted else None

    def _allowed_event_list(
        self,
        only_events: Collection[type[BinLogEvent]] | None,
        ignored_events: Collection[type[BinLogEvent]] | None,
        filter_non_implemented_events: bool,
    ) -> frozenset[type[BinLogEvent]]:
        """Return the classes of events that are delivered."""
        wanted = set(_ALL_EVENTS if only_events is None else only_events)
        wanted.difference_update(ignored_events or ())
        if filter_non_implemented_events:
            wanted.discard(NotImplementedEvent)
        return frozenset(wanted)


_IN_GROUP = frozenset(
    code for code, kind in (EVENT_CLASSES | MORE_CLASSES).items() if issubclass(kind, RowsEvent)
) | {TABLE_MAP_EVENT, _FRAGMENT}
_GROUP_CODES = bytes(code in _IN_GROUP for code in range(256))
# Types whose rows are read where they are, and the bytes of their post-headers.
_PLAIN_ROWS = {23: 8, 24: 8, 25: 8, 30: 10, 31: 10, 32: 10}
# Types whose events are decoded when an attribute of theirs is asked for.
_LOADED_LATER = frozenset(
    code
    for code, kind in EVENT_CLASSES.items()
    if kind
    in (
        QueryEvent,
        XidEvent,
        GtidEvent,
        RowsQueryLogEvent,
        MariadbGtidEvent,
        MariadbAnnotateRowsEvent,
        MariadbBinLogCheckPointEvent,
        TableMapEvent,
    )
)
_COMMITS = frozenset((int(EventType.XID_EVENT), int(EventType.XA_PREPARE_LOG_EVENT)))
