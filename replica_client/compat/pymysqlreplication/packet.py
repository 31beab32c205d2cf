"""An event's header, and its bytes for those who read them on their own."""

from __future__ import annotations

from dataclasses import field, replace
from struct import Struct
from typing import Any

from replica_client.compat.pymysqlreplication import event, row_event
from replica_client.compat.pymysqlreplication.constants import BINLOG
from replica_client.compat.pymysqlreplication.exceptions import MalformedBinLogEvent
from replica_client.compat.pymysqlreplication.json_binary import (
    JsonDiff as JsonDiff,
    JsonDiffOperation as JsonDiffOperation,
    parse_json,
)
from replica_client.compat.pymysqlreplication.reading import PacketReader
from replica_client.compat.pymysqlreplication.stream_tables import TableBook, TableFilter
from replica_client.compat.pymysqlreplication.util.bytes import *  # noqa: F403
from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import event_checksum
from replica_client.protocol.binlog.event import (
    BinlogEvent as DecodedEvent,
    BinlogFormat,
    DecodeOptions,
    EventHeader,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import ChecksumAlgorithm

NULL_COLUMN = 251
UNSIGNED_CHAR_COLUMN = 251
UNSIGNED_SHORT_COLUMN = 252
UNSIGNED_INT24_COLUMN = 253
UNSIGNED_INT64_COLUMN = 254
UNSIGNED_CHAR_LENGTH = 1
UNSIGNED_SHORT_LENGTH = 2
UNSIGNED_INT24_LENGTH = 3
UNSIGNED_INT64_LENGTH = 8
_QUERY_POST_HEADER = 13
_HEADER = Struct("<IBIIIH")

EVENT_CLASSES: dict[int, type[event.BinLogEvent]] = {
    BINLOG.QUERY_EVENT: event.QueryEvent,
    BINLOG.ROTATE_EVENT: event.RotateEvent,
    BINLOG.FORMAT_DESCRIPTION_EVENT: event.FormatDescriptionEvent,
    BINLOG.XID_EVENT: event.XidEvent,
    BINLOG.INTVAR_EVENT: event.IntvarEvent,
    BINLOG.GTID_LOG_EVENT: event.GtidEvent,
    BINLOG.PREVIOUS_GTIDS_LOG_EVENT: event.PreviousGtidsEvent,
    BINLOG.STOP_EVENT: event.StopEvent,
    BINLOG.BEGIN_LOAD_QUERY_EVENT: event.BeginLoadQueryEvent,
    BINLOG.EXECUTE_LOAD_QUERY_EVENT: event.ExecuteLoadQueryEvent,
    BINLOG.HEARTBEAT_LOG_EVENT: event.HeartbeatLogEvent,
    BINLOG.XA_PREPARE_EVENT: event.XAPrepareEvent,
    BINLOG.ROWS_QUERY_LOG_EVENT: event.RowsQueryLogEvent,
    BINLOG.RAND_EVENT: event.RandEvent,
    BINLOG.USER_VAR_EVENT: event.UserVarEvent,
    BINLOG.TABLE_MAP_EVENT: row_event.TableMapEvent,
    BINLOG.WRITE_ROWS_EVENT_V1: row_event.WriteRowsEvent,
    BINLOG.UPDATE_ROWS_EVENT_V1: row_event.UpdateRowsEvent,
    BINLOG.DELETE_ROWS_EVENT_V1: row_event.DeleteRowsEvent,
    BINLOG.WRITE_ROWS_EVENT_V2: row_event.WriteRowsEvent,
    BINLOG.UPDATE_ROWS_EVENT_V2: row_event.UpdateRowsEvent,
    BINLOG.DELETE_ROWS_EVENT_V2: row_event.DeleteRowsEvent,
    BINLOG.PARTIAL_UPDATE_ROWS_EVENT: row_event.PartialUpdateRowsEvent,
    BINLOG.ANONYMOUS_GTID_LOG_EVENT: event.NotImplementedEvent,
    BINLOG.MARIADB_ANNOTATE_ROWS_EVENT: event.MariadbAnnotateRowsEvent,
    BINLOG.MARIADB_BINLOG_CHECKPOINT_EVENT: event.MariadbBinLogCheckPointEvent,
    BINLOG.MARIADB_GTID_EVENT: event.MariadbGtidEvent,
    BINLOG.MARIADB_GTID_GTID_LIST_EVENT: event.MariadbGtidListEvent,
    BINLOG.MARIADB_START_ENCRYPTION_EVENT: event.MariadbStartEncryptionEvent,
}
"""The classes that python-mysql-replication has."""

MORE_CLASSES: dict[int, type[event.BinLogEvent]] = {
    41: event.HeartbeatLogEvent,  # with 64-bit positions
    42: event.GtidEvent,  # tagged
    165: event.QueryEvent,  # compressed, as those that follow
    166: row_event.WriteRowsEvent,
    167: row_event.UpdateRowsEvent,
    168: row_event.DeleteRowsEvent,
    169: row_event.WriteRowsEvent,
    170: row_event.UpdateRowsEvent,
    171: row_event.DeleteRowsEvent,
}
"""Events that python-mysql-replication passes over."""


@dataclass(slots=True)
class Context:
    """The state that the events of a stream share.

    Attributes:
        tables: the table definitions.
        table_map: tables by number.
        mysql_version: of the server that wrote the file.
        dbms: ``mysql`` or ``mariadb``.
        strict: give what python-mysql-replication gives, also where it is wrong.
        classes: by type code.
        format: the layout of events, from the last format description.
    """

    tables: TableBook
    table_map: Any = field(default_factory=dict)
    ctl_connection: Any = None
    mysql_version: tuple[int, int, int] = (0, 0, 0)
    dbms: str = "mysql"
    strict: bool = False
    classes: dict[int, type[event.BinLogEvent]] = field(
        default_factory=lambda: EVENT_CLASSES | MORE_CLASSES
    )
    format: BinlogFormat | None = None
    _decoder: BinlogDecoder | None = None

    @property
    def decoder(self) -> BinlogDecoder:
        """A decoder of single events in the layout of now."""
        decoder = self._decoder
        if decoder is None or decoder.format is not self.format:
            options = replace(self.tables.decode, verify_checksum=False)
            decoder = self._decoder = BinlogDecoder(options, "", self.format)
        return decoder

    @property
    def tail(self) -> int:
        """Bytes of an event's checksum."""
        found = self.format is not None and self.format.checksum_algorithm
        return 4 if found == ChecksumAlgorithm.CRC32 else 0

    def packet_of(self, data: bytes, made: event.BinLogEvent) -> BinLogPacketWrapper:
        """Return a packet for an event that was made without one."""
        packet = BinLogPacketWrapper.__new__(BinLogPacketWrapper)
        packet._fill(None, data, self, EventHeader(*_HEADER.unpack_from(data)))
        packet.event = made
        return packet


class BinLogPacketWrapper(PacketReader):
    """The header of an event, and its bytes.

    Made of a driver's packet, it decodes the event on its own.

    Attributes:
        event: the event.
        timestamp: seconds since 1970.
        event_type: its type code.
        server_id: of the server that logged it first.
        event_size: bytes of the whole event.
        log_pos: offset of the byte after it in its file.
        flags: of the header.
    """

    __event_map = EVENT_CLASSES

    event: Any
    enable_logging = False
    use_column_name_cache = False

    @property
    def charset(self) -> str:
        """The character set of the connection that is asked about tables."""
        return getattr(self._context.ctl_connection, "charset", None) or "utf8"

    def __init__(
        self,
        from_packet: Any,
        table_map: Any,
        ctl_connection: Any,
        mysql_version: tuple[int, int, int],
        use_checksum: bool,
        allowed_events: Any,
        only_tables: Any,
        ignored_tables: Any,
        only_schemas: Any,
        ignored_schemas: Any,
        freeze_schema: bool,
        ignore_decode_errors: bool,
        verify_checksum: bool,
        optional_meta_data: bool,
        enable_logging: bool,
        use_column_name_cache: bool = False,
        post_header_lengths: tuple[int, ...] | None = None,
    ) -> None:
        data = from_packet.get_all_data()[1:]
        declared = (post_header_lengths or ())[BINLOG.QUERY_EVENT - 1 : BINLOG.QUERY_EVENT]
        if declared and 0 < declared[0] < _QUERY_POST_HEADER:
            raise MalformedBinLogEvent(
                f"a query event's post-header has {_QUERY_POST_HEADER} bytes at least, not {declared[0]}"
            )
        layout = BinlogFormat(
            server_version=".".join(map(str, mysql_version)),
            post_header_sizes=bytes(post_header_lengths or ()),
            checksum_algorithm=ChecksumAlgorithm.CRC32 if use_checksum else ChecksumAlgorithm.OFF,
        )
        tables = TableBook(
            TableFilter(only_tables, ignored_tables, only_schemas, ignored_schemas),
            ignore_decode_errors=ignore_decode_errors,
        )
        context = Context(tables, table_map, ctl_connection, mysql_version)
        try:
            decoder = BinlogDecoder(DecodeOptions(verify_checksum=False), "", layout)
            decoded = decoder.decode(data, 4)
        except BinlogDecodeError as error:
            raise MalformedBinLogEvent(str(error)) from error
        self._fill(decoded, data, context, decoded.header)
        self.event = class_of(context, decoded)(self, self._body_size, table_map, ctl_connection)

    def _fill(
        self,
        decoded: DecodedEvent | None,
        data: bytes | None,
        context: Context,
        header: EventHeader,
    ) -> None:
        self._decoded = decoded
        self._context = context
        self._data = data
        self.timestamp = header.timestamp
        self.event_type = header.type_code
        self.server_id = header.server_id
        self.event_size = header.event_size
        self.log_pos = header.next_position
        self.flags = header.flags
        self._body_size = header.event_size - HEADER_SIZE
        if context.tail if decoded is None else decoded.checksum is not None:
            self._body_size -= 4
        self.read_bytes = self._body_size

    @classmethod
    def _of(
        cls, decoded: DecodedEvent, data: bytes | None, context: Context
    ) -> BinLogPacketWrapper:
        self = cls.__new__(cls)
        self._fill(decoded, data, context, decoded.header)
        self.event = class_of(context, decoded)(
            self, self._body_size, context.table_map, context.ctl_connection
        )
        return self

    @property
    def _event(self) -> DecodedEvent:
        decoded = self._decoded
        if decoded is None:
            # Of an event that was made like an earlier one. Its checksum was verified.
            decoded = self._decoded = self._context.decoder.decode(self._data or b"", 0)
        return decoded

    def _checksum_is_right(self) -> bool | None:
        checksum = self._event.checksum
        if checksum is None or self._data is None:
            return None
        is_format = self.event_type == BINLOG.FORMAT_DESCRIPTION_EVENT
        return event_checksum(memoryview(self._data)[:-4], is_format) == checksum

    def _bytes(self) -> bytes:
        data = self._data or b""
        return data[HEADER_SIZE : HEADER_SIZE + self._body_size]

    def read_binary_json(self, size: int, is_partial: bool) -> Any:
        """Read a JSON document after its length of ``size`` bytes."""
        data = self.read(self.read_uint_by_size(size))
        return parse_json(data[0], data[1:]) if data else None


def class_of(context: Context, decoded: DecodedEvent) -> type[event.BinLogEvent]:
    """Return the class of an event."""
    return context.classes.get(decoded.header.type_code, event.NotImplementedEvent)
