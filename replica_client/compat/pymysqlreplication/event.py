"""Events as python-mysql-replication gives them."""

# Over 500 lines: programs import all of these names from this module of python-mysql-replication.

from __future__ import annotations

import datetime
import json
from typing import Any, ClassVar

from replica_client.compat.event_screen import LaterLoaded, state_of
from replica_client.compat.pymysqlreplication.constants.STATUS_VAR_KEY import *  # noqa: F403
from replica_client.compat.pymysqlreplication.exceptions import (
    MalformedBinLogEvent as MalformedBinLogEvent,
    StatusVariableMismatch as StatusVariableMismatch,
)
from replica_client.compat.pymysqlreplication.logger import logger as logger
from replica_client.compat.pymysqlreplication.optional_metadata import (
    STATUS_NAMES,
    status_attributes,
)
from replica_client.compat.pymysqlreplication.util.bytes import (
    parse_decimal_from_bytes as parse_decimal_from_bytes,
)
from replica_client.protocol.binlog.events.query_status import parse_query_status
from replica_client.protocol.gtid import GtidSet as _GtidSet
from replica_client.stream.transport.server_statements import parse_version

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001


class BinLogEvent(LaterLoaded):
    """An event.

    Attributes:
        packet: its header's fields.
        event_type: its type code.
        timestamp: seconds since 1970.
        event_size: bytes without header and checksum.
        table_map: tables by number, those of the stream.
        mysql_version: of the server that wrote the file.
        dbms: ``mysql`` or ``mariadb``.
    """

    def __init__(
        self, from_packet: Any, event_size: int, table_map: Any, ctl_connection: Any, **kwargs: Any
    ) -> None:
        self.packet = from_packet
        self.table_map = table_map
        self.event_type: int = from_packet.event_type
        self.timestamp: int = from_packet.timestamp
        self.event_size = event_size
        self._ctl_connection = ctl_connection
        context = from_packet._context
        self.mysql_version: tuple[int, int, int] = context.mysql_version
        self.dbms: str = context.dbms
        self._decode(from_packet._event.body)

    complete = True
    # Of an event that was not decoded: its bytes, what the stream knows, and whether its type's
    # attributes were taken.
    _data = b""
    _context: Any = None
    _is_loaded = True

    def __getattr__(self, name: str) -> Any:
        # Only for attributes that are not there. Events that were made like an earlier one of their type
        # have no packet before it is asked for, and are not decoded before one of their attributes is.
        if self._data and not name.startswith("__"):
            if name == "packet":
                packet = self.packet = self._context.packet_of(self._data, self)
                return packet
            if not self._is_loaded:
                self._load()
                return getattr(self, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _load(self) -> None:
        self._is_loaded = True
        self._decode(self.packet._event.body)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All attributes, so that ``vars(event)`` has those that are loaded later, too."""
        if not self._is_loaded:
            self._load()
        if self._data:
            self.packet  # noqa: B018
        state: dict[str, Any] = state_of(self)
        return state

    def _decode(self, body: Any) -> None:
        """Take the attributes of an event's type."""

    async def init(self) -> None:
        """Do nothing: an event is complete from the start (asyncmy completes its events here)."""

    @property
    def processed(self) -> bool:
        """Whether its table is wanted; the stream gives no other (asyncmy's name)."""
        return self._processed

    @property
    def _processed(self) -> bool:
        return True

    @property
    def _is_event_valid(self) -> bool | None:
        """Whether the checksum is right; None where there is none."""
        valid: bool | None = self.packet._checksum_is_right()
        return valid

    @property
    def formatted_timestamp(self) -> str:
        """The event's time in UTC, in ISO format."""
        return (_EPOCH + datetime.timedelta(seconds=self.timestamp)).isoformat()

    def dump(self) -> None:
        """Print the event."""
        print(f"=== {self.__class__.__name__} ===")  # noqa: T201
        print(f"Date: {self.formatted_timestamp}")  # noqa: T201
        print(f"Log position: {self.packet.log_pos}")  # noqa: T201
        print(f"Event size: {self.event_size}")  # noqa: T201
        print(f"Read bytes: {self.packet.read_bytes}")  # noqa: T201
        self._dump()
        print()  # noqa: T201

    def to_dict(self) -> dict[str, Any]:
        """Time, position and size."""
        return {
            "timestamp": self.formatted_timestamp,
            "log_pos": self.packet.log_pos,
            "event_size": self.event_size,
            "read_bytes": self.packet.read_bytes,
        }

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict())

    _dumped: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Labels and attributes that :meth:`dump` prints."""

    def _dump(self) -> None:
        for label, name in self._dumped:
            print(f"{label}: {getattr(self, name)}")  # noqa: T201


class NotImplementedEvent(BinLogEvent):
    """An event of a type that has no class here."""


class StopEvent(BinLogEvent):
    """The server stopped."""


class GtidEvent(BinLogEvent):
    """The GTID of the transaction that follows.

    Attributes:
        commit_flag: the event's flag.
        sid: the server's UUID, 16 bytes.
        gno: the transaction's number.
        tag: of a tagged GTID, else empty.
        lt_type: 2, where there are the next two.
        last_committed: of the logical clock.
        sequence_number: of the logical clock.
    """

    _dumped = (
        ("Commit", "commit_flag"),
        ("GTID_NEXT", "gtid"),
        ("last_committed", "last_committed"),
        ("sequence_number", "sequence_number"),
    )

    def _decode(self, body: Any) -> None:
        self.commit_flag = body.flags == 1
        self.sid: bytes = body.sid
        self.gno: int = body.gno
        self.tag: str = getattr(body, "tag", "")
        self.lt_type: int | None = getattr(body, "clock_type", 2)
        self.last_committed: int | None = body.last_committed
        self.sequence_number: int | None = body.sequence_number

    @property
    def gtid(self) -> str:
        """``uuid:number``, or ``uuid:tag:number``."""
        sid = self.sid.hex()
        text = f"{sid[:8]}-{sid[8:12]}-{sid[12:16]}-{sid[16:20]}-{sid[20:]}"
        return f"{text}:{self.tag}:{self.gno}" if self.tag else f"{text}:{self.gno}"

    def __repr__(self) -> str:
        return f'<GtidEvent "{self.gtid}">'


class PreviousGtidsEvent(BinLogEvent):
    """The GTIDs of the files before."""

    def _decode(self, body: Any) -> None:
        self._gtids = _GtidSet.decode(body.data)
        self._previous_gtids = ",".join(
            f"{sid}:{list(str(numbers).split(':'))}"
            for sid, _, numbers in (
                part.strip().partition(":") for part in str(self._gtids).split(",") if part
            )
        )

    @property
    def previous_gtids(self) -> str:
        """The set's text."""
        return str(self._gtids)

    def _dump(self) -> None:
        print(f"previous_gtids: {self.previous_gtids}")  # noqa: T201

    def __repr__(self) -> str:
        return f'<PreviousGtidsEvent "{self.previous_gtids}">'


class MariadbGtidEvent(BinLogEvent):
    """The GTID of the transaction that follows."""

    _dumped = (("Flags", "flags"), ("GTID", "gtid"))

    def _decode(self, body: Any) -> None:
        self.server_id: int = self.packet.server_id
        self.gtid_seq_no: int = body.sequence
        self.domain_id: int = body.domain_id
        self.flags: int = body.flags
        self.gtid = f"{self.domain_id}-{self.server_id}-{self.gtid_seq_no}"


class MariadbBinLogCheckPointEvent(BinLogEvent):
    """The oldest file that a recovery needs."""

    _dumped = (("Filename", "filename"),)

    def _decode(self, body: Any) -> None:
        self.filename: str = body.file


class MariadbAnnotateRowsEvent(BinLogEvent):
    """The statement of the rows that follow, as bytes."""

    _dumped = (("SQL statement", "sql_statement"),)

    def _decode(self, body: Any) -> None:
        self.sql_statement: bytes = body.query


class MariadbStartEncryptionEvent(BinLogEvent):
    """The rest of the file is encrypted on the server's disk."""

    _dumped = (("Schema", "schema"), ("Key version", "key_version"), ("Nonce", "nonce"))

    def _decode(self, body: Any) -> None:
        self.schema: int = body.scheme
        self.key_version: int = body.key_version
        self.nonce: bytes = body.nonce


class MariadbGtidListEvent(BinLogEvent):
    """The last GTID of each domain and server before this file."""

    class MariadbGtidObject(BinLogEvent):
        """One of them."""

        def __init__(self, domain_id: int, server_id: int, gtid_seq_no: int) -> None:
            self.domain_id = domain_id
            self.server_id = server_id
            self.gtid_seq_no = gtid_seq_no
            self.gtid = f"{domain_id}-{server_id}-{gtid_seq_no}"

    def _decode(self, body: Any) -> None:
        self.gtid_length = len(body.gtids)
        self.gtid_list = [self.MariadbGtidObject(*gtid) for gtid in body.gtids]


class RotateEvent(BinLogEvent):
    """The next events are of another file.

    Attributes:
        position: where in it.
        next_binlog: its name.
    """

    def _decode(self, body: Any) -> None:
        self.position: int = body.next_position
        self.next_binlog: str = body.next_file

    def dump(self) -> None:
        """Print the event."""
        print(f"=== {self.__class__.__name__} ===")  # noqa: T201
        print(f"Position: {self.position}")  # noqa: T201
        print(f"Next binlog file: {self.next_binlog}")  # noqa: T201
        print()  # noqa: T201


class FormatDescriptionEvent(BinLogEvent):
    """The layout of the events of a file."""

    _dumped = (
        ("Binlog version", "binlog_version"),
        ("mysql version", "mysql_version_str"),
        ("Created", "created"),
        ("Common header length", "common_header_len"),
        ("Post header length", "post_header_len"),
        ("Server version split", "server_version_split"),
        ("Number of event types", "number_of_event_types"),
    )

    def _decode(self, body: Any) -> None:
        self.binlog_version = (body.binlog_version,)
        self.mysql_version_str: str = body.version
        self.created: int = body.create_timestamp
        self.common_header_len: int = body.header_size
        self.post_header_len = tuple(body.post_header_sizes)
        self.number_of_event_types = len(self.post_header_len)
        self.server_version_split = parse_version(self.mysql_version_str)
        self.mysql_version = self.server_version_split
        self.dbms = "mariadb" if "mariadb" in self.mysql_version_str.lower() else "mysql"
        self.checksum_algorithm = int(body.checksum_algorithm)


class XAPrepareEvent(BinLogEvent):
    """An XA transaction was prepared, or committed in one phase."""

    _dumped = (("One phase", "one_phase"), ("XID formatID", "xid_format_id"), ("XID", "xid"))

    def _decode(self, body: Any) -> None:
        self.one_phase = bool(body.one_phase)
        self.xid_format_id: int = body.format_id
        self.xid_gtrid: bytes = body.gtrid
        self.xid_bqual: bytes = body.bqual

    @property
    def xid(self) -> str:
        """Both parts of the id as one text."""
        return (self.xid_gtrid + self.xid_bqual).decode(errors="backslashreplace")


class XidEvent(BinLogEvent):
    """A transaction was committed."""

    _dumped = (("Transaction ID", "xid"),)

    def _decode(self, body: Any) -> None:
        self.xid: int = body.xid


class HeartbeatLogEvent(BinLogEvent):
    """The source has nothing new: it is at ``log_pos`` of the file ``ident``."""

    _dumped = (("Current binlog", "ident"),)

    def _decode(self, body: Any) -> None:
        self.ident: str = body.log_file


class QueryEvent(BinLogEvent):
    """A statement; also BEGIN and COMMIT.

    Besides these it has an attribute for each status variable, e.g. ``sql_mode``.

    Attributes:
        slave_proxy_id: the session's number.
        execution_time: seconds that it took.
        error_code: how it ended.
        schema: the default database, as bytes.
        query: the statement; bytes that are not UTF-8 are escaped.
    """

    # Status variables; each is there where the statement has it.
    flags2: int
    sql_mode: int
    catalog_nz_code: bytes
    auto_increment_increment: int
    auto_increment_offset: int
    character_set_client: int
    collation_connection: int
    collation_server: int
    time_zone: bytes
    lc_time_names_number: int
    charset_database_number: int
    table_map_for_update: int
    user: bytes
    host: bytes
    mts_accessed_db_names: list[bytes]
    microseconds: int
    explicit_defaults_ts: int
    ddl_xid: int
    default_collation_for_utf8mb4_number: int
    sql_require_primary_key: int
    default_table_encryption: int
    hrnow: int
    xid: int

    _dumped = (("Schema", "schema"), ("Execution time", "execution_time"), ("Query", "query"))

    def _decode(self, body: Any) -> None:
        self.slave_proxy_id: int = body.thread_id
        self.execution_time: int = body.exec_time
        self.schema_length = len(body.schema)
        self.error_code: int = body.error_code
        self.status_vars_length = len(body.status_vars)
        self.schema: bytes = body.schema
        self.query: str = body.query.decode(errors="backslashreplace")
        self._status_vars: bytes | None = body.status_vars
        if self.packet._context.strict:
            self._read_status(strict=True)

    @property
    def status_vars(self) -> bytes:
        """The status variables as they are in the event (asyncmy's name)."""
        found: bytes = self.packet._event.body.status_vars
        return found

    def _read_status(self, *, strict: bool = False) -> None:
        data, self._status_vars = self._status_vars, None
        if data:
            status = parse_query_status(data)
            if strict and (status.unparsed or 130 in status.codes):
                raise StatusVariableMismatch
            for name, value in status_attributes(status, self.dbms).items():
                state_of(self).setdefault(name, value)

    def __getattr__(self, name: str) -> Any:
        # Status variables are parsed when the first of them is asked for.
        if name in STATUS_NAMES and self._is_loaded and state_of(self).get("_status_vars"):
            self._read_status()
            if name in state_of(self):
                return state_of(self)[name]
        return super().__getattr__(name)


class BeginLoadQueryEvent(BinLogEvent):
    """The first block of a file of LOAD DATA."""

    _dumped = (("File id", "file_id"), ("Block data", "block_data"))

    def _decode(self, body: Any) -> None:
        self.file_id: int = body.file_id
        self.block_data: bytes = body.block


class ExecuteLoadQueryEvent(BinLogEvent):
    """The statement of LOAD DATA."""

    _dumped = (
        ("Slave proxy id", "slave_proxy_id"),
        ("Execution time", "execution_time"),
        ("Schema length", "schema_length"),
        ("Error code", "error_code"),
        ("Status vars length", "status_vars_length"),
        ("File id", "file_id"),
        ("Start pos", "start_pos"),
        ("End pos", "end_pos"),
        ("Dup handling flags", "dup_handling_flags"),
    )

    def _decode(self, body: Any) -> None:
        self.slave_proxy_id: int = body.thread_id
        self.execution_time: int = body.exec_time
        self.schema_length = len(body.schema)
        self.error_code: int = body.error_code
        self.status_vars_length = len(body.status_vars)
        self.file_id: int = body.file_id
        self.start_pos: int = body.file_name_start
        self.end_pos: int = body.file_name_end
        self.dup_handling_flags: int = body.duplicates


class IntvarEvent(BinLogEvent):
    """LAST_INSERT_ID (type 1) or the next AUTO_INCREMENT (type 2) of the statement that follows."""

    _dumped = (("type", "type"), ("Value", "value"))

    def _decode(self, body: Any) -> None:
        self.type: int = body.kind
        self.value: int = body.value


class RandEvent(BinLogEvent):
    """The seeds of RAND() in the statement that follows."""

    _dumped = (("seed1", "seed1"), ("seed2", "seed2"))

    def _decode(self, body: Any) -> None:
        self._seed1: int = body.seed1
        self._seed2: int = body.seed2

    @property
    def seed1(self) -> int:
        """The first one."""
        return self._seed1

    @property
    def seed2(self) -> int:
        """The second one."""
        return self._seed2


_DECIMAL_RESULT = 4


class UserVarEvent(BinLogEvent):
    """A user variable of the statement that follows."""

    _types: ClassVar[dict[int, str]] = {
        0: "STRING_RESULT",
        1: "REAL_RESULT",
        2: "INT_RESULT",
        3: "ROW_RESULT",
        4: "DECIMAL_RESULT",
    }

    def _decode(self, body: Any) -> None:
        self.name_len = len(body.name)
        self.name: str = body.name.decode(errors="backslashreplace")
        self.is_null: int = body.is_null
        self.type: int | None = None
        self.charset: int | None = None
        self.value: Any = None
        self.flags: int | None = None
        if not body.is_null:
            self.type, self.charset = int(body.type_code), body.collation_id
            self.flags = body.flags
            self.temp_value_buffer: bytes = body.value_bytes or b""
            self.value_len = len(self.temp_value_buffer)
            if self.type == _DECIMAL_RESULT and self.value_len > 1:
                self.precision: int = self.temp_value_buffer[0]
                self.decimals: int = self.temp_value_buffer[1]
            value = body.value
            self.value = value.decode(errors="backslashreplace") if type(value) is bytes else value

    def _dump(self) -> None:
        print(f"User variable name: {self.name}")  # noqa: T201
        print(f"Is NULL: {'Yes' if self.is_null else 'No'}")  # noqa: T201
        if not self.is_null:
            print(f"Type: {self._types.get(self.type or 0)}")  # noqa: T201
            print(f"Charset: {self.charset}")  # noqa: T201
            print(f"Value: {self.value}")  # noqa: T201
            print(f"Flags: {self.flags}")  # noqa: T201


class RowsQueryLogEvent(BinLogEvent):
    """The statement of the rows that follow."""

    def _decode(self, body: Any) -> None:
        self.query: str = body.query.decode(errors="backslashreplace")

    def dump(self) -> None:
        """Print the event."""
        print(f"=== {self.__class__.__name__} ===")  # noqa: T201
        print(f"Query: {self.query}")  # noqa: T201
