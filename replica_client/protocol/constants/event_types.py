"""Event types, with the class and the role of each, and flags of event headers.

Spec: MySQL ``mysql::binlog::event::Log_event_type`` (binlog_event.h); MariaDB ``Log_event_type``
(log_event.h).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Final


class EventType(IntEnum):
    """Type codes of common headers: MySQL's 0 to 42, MariaDB's 160 to 172."""

    UNKNOWN_EVENT = 0
    START_EVENT_V3 = 1
    QUERY_EVENT = 2
    STOP_EVENT = 3
    ROTATE_EVENT = 4
    INTVAR_EVENT = 5
    LOAD_EVENT = 6
    SLAVE_EVENT = 7
    CREATE_FILE_EVENT = 8
    APPEND_BLOCK_EVENT = 9
    EXEC_LOAD_EVENT = 10
    DELETE_FILE_EVENT = 11
    NEW_LOAD_EVENT = 12
    RAND_EVENT = 13
    USER_VAR_EVENT = 14
    FORMAT_DESCRIPTION_EVENT = 15
    XID_EVENT = 16
    BEGIN_LOAD_QUERY_EVENT = 17
    EXECUTE_LOAD_QUERY_EVENT = 18
    TABLE_MAP_EVENT = 19
    PRE_GA_WRITE_ROWS_EVENT = 20
    PRE_GA_UPDATE_ROWS_EVENT = 21
    PRE_GA_DELETE_ROWS_EVENT = 22
    WRITE_ROWS_EVENT_V1 = 23
    UPDATE_ROWS_EVENT_V1 = 24
    DELETE_ROWS_EVENT_V1 = 25
    INCIDENT_EVENT = 26
    HEARTBEAT_LOG_EVENT = 27
    IGNORABLE_LOG_EVENT = 28
    ROWS_QUERY_LOG_EVENT = 29
    WRITE_ROWS_EVENT = 30
    UPDATE_ROWS_EVENT = 31
    DELETE_ROWS_EVENT = 32
    GTID_LOG_EVENT = 33
    ANONYMOUS_GTID_LOG_EVENT = 34
    PREVIOUS_GTIDS_LOG_EVENT = 35
    TRANSACTION_CONTEXT_EVENT = 36
    VIEW_CHANGE_EVENT = 37
    XA_PREPARE_LOG_EVENT = 38
    PARTIAL_UPDATE_ROWS_EVENT = 39
    TRANSACTION_PAYLOAD_EVENT = 40
    HEARTBEAT_LOG_EVENT_V2 = 41
    GTID_TAGGED_LOG_EVENT = 42
    ANNOTATE_ROWS_EVENT = 160
    BINLOG_CHECKPOINT_EVENT = 161
    GTID_EVENT = 162
    GTID_LIST_EVENT = 163
    START_ENCRYPTION_EVENT = 164
    QUERY_COMPRESSED_EVENT = 165
    WRITE_ROWS_COMPRESSED_EVENT_V1 = 166
    UPDATE_ROWS_COMPRESSED_EVENT_V1 = 167
    DELETE_ROWS_COMPRESSED_EVENT_V1 = 168
    WRITE_ROWS_COMPRESSED_EVENT = 169
    UPDATE_ROWS_COMPRESSED_EVENT = 170
    DELETE_ROWS_COMPRESSED_EVENT = 171
    PARTIAL_ROW_DATA_EVENT = 172


class EventClass(IntEnum):
    """The role of an event in its group (see :mod:`replica_client.stream.position.groups`)."""

    UNKNOWN = 0
    """An unknown type; ends no group."""
    OUTSIDE = 1
    """An event between transactions."""
    GTID = 2
    """Starts a group whose end depends on the events after it."""
    GTID_BEGIN = 3
    """Starts a group that a commit, rollback or prepare ends."""
    BEGIN = 4
    COMMIT = 5
    ROLLBACK = 6
    PREPARE = 7
    PART = 8
    """A part of the group that never ends it."""
    ANNOTATION = 9
    """A part with the statement of the rows."""
    TABLE_MAP = 10
    """A part with the table of the rows."""
    STATEMENT = 11
    """Ends the group, unless the group began with a BEGIN."""
    PAYLOAD = 12
    """Contains the rest of the group, including its end."""
    LOAD_PART = 13
    """Data of a LOAD DATA, with a ``file_id``; the statement comes later."""
    LOAD_END = 14
    """The statement of a LOAD DATA with a ``file_id``."""
    ROWS = 15
    """A part; also the end of a statement if STMT_END_F is set."""
    QUERY = 16
    """The role depends on the text."""
    QUERY_COMPRESSED = 17
    """The role depends on the text, which is compressed."""
    MARIADB_GTID = 18
    """Starts a group; flags say whether it is a BEGIN, too."""
    XA_PREPARE = 19
    """A commit in one phase, or a prepare."""


EVENTS: Final[Mapping[int, tuple[str, EventClass]]] = MappingProxyType(
    {
        EventType.START_EVENT_V3: ("control.StartEventV3", EventClass.OUTSIDE),
        EventType.QUERY_EVENT: ("queries.QueryEvent", EventClass.QUERY),
        EventType.STOP_EVENT: ("control.StopEvent", EventClass.OUTSIDE),
        EventType.ROTATE_EVENT: ("control.RotateEvent", EventClass.OUTSIDE),
        EventType.INTVAR_EVENT: ("queries.IntvarEvent", EventClass.PART),
        EventType.LOAD_EVENT: ("load.LoadEvent", EventClass.STATEMENT),
        EventType.SLAVE_EVENT: ("control.SlaveEvent", EventClass.OUTSIDE),
        EventType.CREATE_FILE_EVENT: ("load.CreateFileEvent", EventClass.LOAD_PART),
        EventType.APPEND_BLOCK_EVENT: ("load.AppendBlockEvent", EventClass.LOAD_PART),
        EventType.EXEC_LOAD_EVENT: ("load.ExecLoadEvent", EventClass.LOAD_END),
        EventType.DELETE_FILE_EVENT: ("load.DeleteFileEvent", EventClass.LOAD_END),
        EventType.NEW_LOAD_EVENT: ("load.LoadEvent", EventClass.STATEMENT),
        EventType.RAND_EVENT: ("queries.RandEvent", EventClass.PART),
        EventType.USER_VAR_EVENT: ("queries.UserVarEvent", EventClass.PART),
        EventType.FORMAT_DESCRIPTION_EVENT: ("control.FormatDescriptionEvent", EventClass.OUTSIDE),
        EventType.XID_EVENT: ("gtids.XidEvent", EventClass.COMMIT),
        EventType.BEGIN_LOAD_QUERY_EVENT: ("load.BeginLoadQueryEvent", EventClass.LOAD_PART),
        EventType.EXECUTE_LOAD_QUERY_EVENT: ("queries.ExecuteLoadQueryEvent", EventClass.LOAD_END),
        EventType.TABLE_MAP_EVENT: ("table_map.TableMapEvent", EventClass.TABLE_MAP),
        EventType.PRE_GA_WRITE_ROWS_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.PRE_GA_UPDATE_ROWS_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.PRE_GA_DELETE_ROWS_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.WRITE_ROWS_EVENT_V1: ("rows.RowsEvent", EventClass.ROWS),
        EventType.UPDATE_ROWS_EVENT_V1: ("rows.RowsEvent", EventClass.ROWS),
        EventType.DELETE_ROWS_EVENT_V1: ("rows.RowsEvent", EventClass.ROWS),
        EventType.INCIDENT_EVENT: ("control.IncidentEvent", EventClass.STATEMENT),
        EventType.HEARTBEAT_LOG_EVENT: ("control.HeartbeatEvent", EventClass.OUTSIDE),
        EventType.IGNORABLE_LOG_EVENT: ("control.IgnorableEvent", EventClass.OUTSIDE),
        EventType.ROWS_QUERY_LOG_EVENT: ("queries.RowsQueryEvent", EventClass.ANNOTATION),
        EventType.WRITE_ROWS_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.UPDATE_ROWS_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.DELETE_ROWS_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.GTID_LOG_EVENT: ("gtids.GtidEvent", EventClass.GTID),
        EventType.ANONYMOUS_GTID_LOG_EVENT: ("gtids.GtidEvent", EventClass.GTID),
        EventType.PREVIOUS_GTIDS_LOG_EVENT: ("gtids.PreviousGtidsEvent", EventClass.OUTSIDE),
        EventType.TRANSACTION_CONTEXT_EVENT: ("gtids.TransactionContextEvent", EventClass.PART),
        EventType.VIEW_CHANGE_EVENT: ("gtids.ViewChangeEvent", EventClass.PART),
        EventType.XA_PREPARE_LOG_EVENT: ("gtids.XaPrepareEvent", EventClass.XA_PREPARE),
        EventType.PARTIAL_UPDATE_ROWS_EVENT: (
            "rows.PartialUpdateRowsEvent",
            EventClass.ROWS,
        ),
        EventType.TRANSACTION_PAYLOAD_EVENT: (
            "transaction_payload.TransactionPayloadEvent",
            EventClass.PAYLOAD,
        ),
        EventType.HEARTBEAT_LOG_EVENT_V2: ("control.HeartbeatV2Event", EventClass.OUTSIDE),
        EventType.GTID_TAGGED_LOG_EVENT: ("gtid_tagged.GtidTaggedEvent", EventClass.GTID),
        EventType.ANNOTATE_ROWS_EVENT: ("queries.AnnotateRowsEvent", EventClass.ANNOTATION),
        EventType.BINLOG_CHECKPOINT_EVENT: ("gtids.BinlogCheckpointEvent", EventClass.OUTSIDE),
        EventType.GTID_EVENT: ("gtids.MariadbGtidEvent", EventClass.MARIADB_GTID),
        EventType.GTID_LIST_EVENT: ("gtids.MariadbGtidListEvent", EventClass.OUTSIDE),
        EventType.START_ENCRYPTION_EVENT: ("control.StartEncryptionEvent", EventClass.OUTSIDE),
        EventType.QUERY_COMPRESSED_EVENT: (
            "queries.QueryCompressedEvent",
            EventClass.QUERY_COMPRESSED,
        ),
        EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: ("rows.RowsEvent", EventClass.ROWS),
        EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: ("rows.RowsEvent", EventClass.ROWS),
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: ("rows.RowsEvent", EventClass.ROWS),
        EventType.WRITE_ROWS_COMPRESSED_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.UPDATE_ROWS_COMPRESSED_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.DELETE_ROWS_COMPRESSED_EVENT: ("rows.RowsEvent", EventClass.ROWS),
        EventType.PARTIAL_ROW_DATA_EVENT: ("rows.RowsFragmentEvent", EventClass.PART),
    }
)
"""The class of each type in :mod:`replica_client.protocol.binlog.events` (module and name), and its role in a
group. Other types are ``UnknownEvent`` and end no group."""


class EventFlag(IntFlag):
    """Flags of the common header."""

    LOG_EVENT_BINLOG_IN_USE_F = 0x1
    LOG_EVENT_FORCED_ROTATE_F = 0x2
    LOG_EVENT_THREAD_SPECIFIC_F = 0x4
    LOG_EVENT_SUPPRESS_USE_F = 0x8
    LOG_EVENT_UPDATE_TABLE_MAP_VERSION_F = 0x10
    LOG_EVENT_ARTIFICIAL_F = 0x20
    LOG_EVENT_RELAY_LOG_F = 0x40
    LOG_EVENT_IGNORABLE_F = 0x80
    LOG_EVENT_NO_FILTER_F = 0x100
    LOG_EVENT_MTS_ISOLATE_F = 0x200


class ChecksumAlgorithm(IntEnum):
    """The byte at the end of a format description (``enum_binlog_checksum_alg``)."""

    OFF = 0
    CRC32 = 1
    UNDEFINED = 255


def event_type_name(code: int) -> str:
    """Return the upstream name of a type code, or ``UNKNOWN_<code>`` for an unknown code."""
    try:
        return EventType(code).name
    except ValueError:
        return f"UNKNOWN_{code}"
