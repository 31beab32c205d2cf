"""Event bodies: one module per event or family, and the table of their classes.

A module is imported when the first event of its type is decoded, or its class is used: a file has
few of the types, and this keeps imports short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from replica_client.protocol.constants.event_types import EventType

if TYPE_CHECKING:
    from replica_client.protocol.binlog.event import EventBody
    from replica_client.protocol.binlog.events.annotate_rows import AnnotateRowsEvent
    from replica_client.protocol.binlog.events.append_block import (
        AppendBlockEvent,
        BeginLoadQueryEvent,
    )
    from replica_client.protocol.binlog.events.binlog_checkpoint import BinlogCheckpointEvent
    from replica_client.protocol.binlog.events.exec_load import DeleteFileEvent, ExecLoadEvent
    from replica_client.protocol.binlog.events.execute_load_query import ExecuteLoadQueryEvent
    from replica_client.protocol.binlog.events.format_description import FormatDescriptionEvent
    from replica_client.protocol.binlog.events.gtid import GtidEvent
    from replica_client.protocol.binlog.events.gtid_tagged import GtidTaggedEvent
    from replica_client.protocol.binlog.events.heartbeat import HeartbeatEvent, HeartbeatV2Event
    from replica_client.protocol.binlog.events.ignorable import IgnorableEvent
    from replica_client.protocol.binlog.events.incident import IncidentEvent
    from replica_client.protocol.binlog.events.intvar import IntvarEvent
    from replica_client.protocol.binlog.events.load import CreateFileEvent, LoadEvent
    from replica_client.protocol.binlog.events.mariadb_gtid import MariadbGtidEvent
    from replica_client.protocol.binlog.events.mariadb_gtid_list import MariadbGtidListEvent
    from replica_client.protocol.binlog.events.partial_update_rows import PartialUpdateRowsEvent
    from replica_client.protocol.binlog.events.previous_gtids import PreviousGtidsEvent
    from replica_client.protocol.binlog.events.query import QueryEvent
    from replica_client.protocol.binlog.events.query_compressed import QueryCompressedEvent
    from replica_client.protocol.binlog.events.rand import RandEvent
    from replica_client.protocol.binlog.events.rotate import RotateEvent
    from replica_client.protocol.binlog.events.rows import RowsEvent
    from replica_client.protocol.binlog.events.rows_query import RowsQueryEvent
    from replica_client.protocol.binlog.events.slave import SlaveEvent
    from replica_client.protocol.binlog.events.start_encryption import StartEncryptionEvent
    from replica_client.protocol.binlog.events.start_v3 import StartEventV3
    from replica_client.protocol.binlog.events.stop import StopEvent
    from replica_client.protocol.binlog.events.table_map import TableMapEvent
    from replica_client.protocol.binlog.events.transaction_context import TransactionContextEvent
    from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
    from replica_client.protocol.binlog.events.unknown import UnknownEvent
    from replica_client.protocol.binlog.events.user_var import UserVarEvent
    from replica_client.protocol.binlog.events.view_change import ViewChangeEvent
    from replica_client.protocol.binlog.events.xa_prepare import XaPrepareEvent
    from replica_client.protocol.binlog.events.xid import XidEvent

_MODULES: Final = {
    "AnnotateRowsEvent": "annotate_rows",
    "AppendBlockEvent": "append_block",
    "BeginLoadQueryEvent": "append_block",
    "BinlogCheckpointEvent": "binlog_checkpoint",
    "CreateFileEvent": "load",
    "DeleteFileEvent": "exec_load",
    "ExecLoadEvent": "exec_load",
    "ExecuteLoadQueryEvent": "execute_load_query",
    "FormatDescriptionEvent": "format_description",
    "GtidEvent": "gtid",
    "GtidTaggedEvent": "gtid_tagged",
    "HeartbeatEvent": "heartbeat",
    "HeartbeatV2Event": "heartbeat",
    "IgnorableEvent": "ignorable",
    "IncidentEvent": "incident",
    "IntvarEvent": "intvar",
    "LoadEvent": "load",
    "MariadbGtidEvent": "mariadb_gtid",
    "MariadbGtidListEvent": "mariadb_gtid_list",
    "PartialUpdateRowsEvent": "partial_update_rows",
    "PreviousGtidsEvent": "previous_gtids",
    "QueryCompressedEvent": "query_compressed",
    "QueryEvent": "query",
    "RandEvent": "rand",
    "RotateEvent": "rotate",
    "RowsEvent": "rows",
    "RowsQueryEvent": "rows_query",
    "SlaveEvent": "slave",
    "StartEncryptionEvent": "start_encryption",
    "StartEventV3": "start_v3",
    "StopEvent": "stop",
    "TableMapEvent": "table_map",
    "TransactionContextEvent": "transaction_context",
    "TransactionPayloadEvent": "transaction_payload",
    "UnknownEvent": "unknown",
    "UserVarEvent": "user_var",
    "ViewChangeEvent": "view_change",
    "XaPrepareEvent": "xa_prepare",
    "XidEvent": "xid",
}
"""The module of each class."""

_TABLE: Final[Mapping[int, str]] = {
    EventType.START_EVENT_V3: "StartEventV3",
    EventType.QUERY_EVENT: "QueryEvent",
    EventType.STOP_EVENT: "StopEvent",
    EventType.ROTATE_EVENT: "RotateEvent",
    EventType.INTVAR_EVENT: "IntvarEvent",
    EventType.LOAD_EVENT: "LoadEvent",
    EventType.SLAVE_EVENT: "SlaveEvent",
    EventType.CREATE_FILE_EVENT: "CreateFileEvent",
    EventType.APPEND_BLOCK_EVENT: "AppendBlockEvent",
    EventType.EXEC_LOAD_EVENT: "ExecLoadEvent",
    EventType.DELETE_FILE_EVENT: "DeleteFileEvent",
    EventType.NEW_LOAD_EVENT: "LoadEvent",
    EventType.RAND_EVENT: "RandEvent",
    EventType.USER_VAR_EVENT: "UserVarEvent",
    EventType.FORMAT_DESCRIPTION_EVENT: "FormatDescriptionEvent",
    EventType.XID_EVENT: "XidEvent",
    EventType.BEGIN_LOAD_QUERY_EVENT: "BeginLoadQueryEvent",
    EventType.EXECUTE_LOAD_QUERY_EVENT: "ExecuteLoadQueryEvent",
    EventType.TABLE_MAP_EVENT: "TableMapEvent",
    EventType.PRE_GA_WRITE_ROWS_EVENT: "RowsEvent",
    EventType.PRE_GA_UPDATE_ROWS_EVENT: "RowsEvent",
    EventType.PRE_GA_DELETE_ROWS_EVENT: "RowsEvent",
    EventType.WRITE_ROWS_EVENT_V1: "RowsEvent",
    EventType.UPDATE_ROWS_EVENT_V1: "RowsEvent",
    EventType.DELETE_ROWS_EVENT_V1: "RowsEvent",
    EventType.INCIDENT_EVENT: "IncidentEvent",
    EventType.HEARTBEAT_LOG_EVENT: "HeartbeatEvent",
    EventType.IGNORABLE_LOG_EVENT: "IgnorableEvent",
    EventType.ROWS_QUERY_LOG_EVENT: "RowsQueryEvent",
    EventType.WRITE_ROWS_EVENT: "RowsEvent",
    EventType.UPDATE_ROWS_EVENT: "RowsEvent",
    EventType.DELETE_ROWS_EVENT: "RowsEvent",
    EventType.GTID_LOG_EVENT: "GtidEvent",
    EventType.ANONYMOUS_GTID_LOG_EVENT: "GtidEvent",
    EventType.PREVIOUS_GTIDS_LOG_EVENT: "PreviousGtidsEvent",
    EventType.TRANSACTION_CONTEXT_EVENT: "TransactionContextEvent",
    EventType.VIEW_CHANGE_EVENT: "ViewChangeEvent",
    EventType.XA_PREPARE_LOG_EVENT: "XaPrepareEvent",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "PartialUpdateRowsEvent",
    EventType.TRANSACTION_PAYLOAD_EVENT: "TransactionPayloadEvent",
    EventType.HEARTBEAT_LOG_EVENT_V2: "HeartbeatV2Event",
    EventType.GTID_TAGGED_LOG_EVENT: "GtidTaggedEvent",
    EventType.ANNOTATE_ROWS_EVENT: "AnnotateRowsEvent",
    EventType.BINLOG_CHECKPOINT_EVENT: "BinlogCheckpointEvent",
    EventType.GTID_EVENT: "MariadbGtidEvent",
    EventType.GTID_LIST_EVENT: "MariadbGtidListEvent",
    EventType.START_ENCRYPTION_EVENT: "StartEncryptionEvent",
    EventType.QUERY_COMPRESSED_EVENT: "QueryCompressedEvent",
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: "RowsEvent",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: "RowsEvent",
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: "RowsEvent",
    EventType.WRITE_ROWS_COMPRESSED_EVENT: "RowsEvent",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT: "RowsEvent",
    EventType.DELETE_ROWS_COMPRESSED_EVENT: "RowsEvent",
}
"""Class names by event type; all other types are :class:`UnknownEvent`."""


class _EventClasses(Mapping[int, "type[EventBody]"]):
    """A mapping of the event classes, imported on demand."""

    def __init__(self) -> None:
        self._known: dict[int, type[EventBody]] = {}

    def __getitem__(self, code: int) -> type[EventBody]:
        found = self._known.get(code)
        if found is None:
            found = self._known[code] = _class(_TABLE[code])
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(_TABLE)

    def __len__(self) -> int:
        return len(_TABLE)


def _class(name: str) -> type[EventBody]:
    found: type[EventBody] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _class(name)
    return found


EVENT_CLASSES: Final[Mapping[int, type[EventBody]]] = _EventClasses()
"""Classes by event type; all other types are :class:`UnknownEvent`."""

__all__ = [
    "EVENT_CLASSES",
    "AnnotateRowsEvent",
    "AppendBlockEvent",
    "BeginLoadQueryEvent",
    "BinlogCheckpointEvent",
    "CreateFileEvent",
    "DeleteFileEvent",
    "ExecLoadEvent",
    "ExecuteLoadQueryEvent",
    "FormatDescriptionEvent",
    "GtidEvent",
    "GtidTaggedEvent",
    "HeartbeatEvent",
    "HeartbeatV2Event",
    "IgnorableEvent",
    "IncidentEvent",
    "IntvarEvent",
    "LoadEvent",
    "MariadbGtidEvent",
    "MariadbGtidListEvent",
    "PartialUpdateRowsEvent",
    "PreviousGtidsEvent",
    "QueryCompressedEvent",
    "QueryEvent",
    "RandEvent",
    "RotateEvent",
    "RowsEvent",
    "RowsQueryEvent",
    "SlaveEvent",
    "StartEncryptionEvent",
    "StartEventV3",
    "StopEvent",
    "TableMapEvent",
    "TransactionContextEvent",
    "TransactionPayloadEvent",
    "UnknownEvent",
    "UserVarEvent",
    "ViewChangeEvent",
    "XaPrepareEvent",
    "XidEvent",
]
