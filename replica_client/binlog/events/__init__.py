"""Event bodies: one module per event or family, and the one table of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replica_client.binlog.event import EventBody
from replica_client.binlog.events.format_description import FormatDescriptionEvent
from replica_client.binlog.events.gtid import GtidEvent
from replica_client.binlog.events.heartbeat import HeartbeatEvent, HeartbeatV2Event
from replica_client.binlog.events.previous_gtids import PreviousGtidsEvent
from replica_client.binlog.events.query import QueryEvent
from replica_client.binlog.events.rotate import RotateEvent
from replica_client.binlog.events.rows import RowsEvent
from replica_client.binlog.events.rows_query import RowsQueryEvent
from replica_client.binlog.events.start_v3 import StartEventV3
from replica_client.binlog.events.stop import StopEvent
from replica_client.binlog.events.table_map import TableMapEvent
from replica_client.binlog.events.unknown import UnknownEvent
from replica_client.binlog.events.xid import XidEvent
from replica_client.constants.event_types import EventType

EVENT_CLASSES: Final[Mapping[int, type[EventBody]]] = {
    EventType.START_EVENT_V3: StartEventV3,
    EventType.QUERY_EVENT: QueryEvent,
    EventType.STOP_EVENT: StopEvent,
    EventType.ROTATE_EVENT: RotateEvent,
    EventType.FORMAT_DESCRIPTION_EVENT: FormatDescriptionEvent,
    EventType.XID_EVENT: XidEvent,
    EventType.TABLE_MAP_EVENT: TableMapEvent,
    EventType.PRE_GA_WRITE_ROWS_EVENT: RowsEvent,
    EventType.PRE_GA_UPDATE_ROWS_EVENT: RowsEvent,
    EventType.PRE_GA_DELETE_ROWS_EVENT: RowsEvent,
    EventType.WRITE_ROWS_EVENT_V1: RowsEvent,
    EventType.UPDATE_ROWS_EVENT_V1: RowsEvent,
    EventType.DELETE_ROWS_EVENT_V1: RowsEvent,
    EventType.HEARTBEAT_LOG_EVENT: HeartbeatEvent,
    EventType.ROWS_QUERY_LOG_EVENT: RowsQueryEvent,
    EventType.WRITE_ROWS_EVENT: RowsEvent,
    EventType.UPDATE_ROWS_EVENT: RowsEvent,
    EventType.DELETE_ROWS_EVENT: RowsEvent,
    EventType.GTID_LOG_EVENT: GtidEvent,
    EventType.ANONYMOUS_GTID_LOG_EVENT: GtidEvent,
    EventType.PREVIOUS_GTIDS_LOG_EVENT: PreviousGtidsEvent,
    EventType.HEARTBEAT_LOG_EVENT_V2: HeartbeatV2Event,
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: RowsEvent,
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: RowsEvent,
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: RowsEvent,
    EventType.WRITE_ROWS_COMPRESSED_EVENT: RowsEvent,
    EventType.UPDATE_ROWS_COMPRESSED_EVENT: RowsEvent,
    EventType.DELETE_ROWS_COMPRESSED_EVENT: RowsEvent,
}
"""The class of each event type that has one; all other types are :class:`UnknownEvent`."""

__all__ = [
    "EVENT_CLASSES",
    "FormatDescriptionEvent",
    "GtidEvent",
    "HeartbeatEvent",
    "HeartbeatV2Event",
    "PreviousGtidsEvent",
    "QueryEvent",
    "RotateEvent",
    "RowsEvent",
    "RowsQueryEvent",
    "StartEventV3",
    "StopEvent",
    "TableMapEvent",
    "UnknownEvent",
    "XidEvent",
]
