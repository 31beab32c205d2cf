"""Event bodies: one module per event or family, and the table of their classes.

A module is imported when the first event of its type is decoded, or its class is used: a file has
few of the types, and this keeps imports short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from replica_client.protocol.constants.event_types import EVENTS

if TYPE_CHECKING:
    from replica_client.protocol.binlog.event import EventBody
    from replica_client.protocol.binlog.events.control import (
        FormatDescriptionEvent,
        HeartbeatEvent,
        HeartbeatV2Event,
        IgnorableEvent,
        IncidentEvent,
        RotateEvent,
        SlaveEvent,
        StartEncryptionEvent,
        StartEventV3,
        StopEvent,
        UnknownEvent,
    )
    from replica_client.protocol.binlog.events.gtid_tagged import GtidTaggedEvent
    from replica_client.protocol.binlog.events.gtids import (
        BinlogCheckpointEvent,
        GtidEvent,
        MariadbGtidEvent,
        MariadbGtidListEvent,
        PreviousGtidsEvent,
        TransactionContextEvent,
        ViewChangeEvent,
        XaPrepareEvent,
        XidEvent,
    )
    from replica_client.protocol.binlog.events.load import (
        AppendBlockEvent,
        BeginLoadQueryEvent,
        CreateFileEvent,
        DeleteFileEvent,
        ExecLoadEvent,
        LoadEvent,
    )
    from replica_client.protocol.binlog.events.queries import (
        AnnotateRowsEvent,
        ExecuteLoadQueryEvent,
        IntvarEvent,
        QueryCompressedEvent,
        QueryEvent,
        RandEvent,
        RowsQueryEvent,
        UserVarEvent,
    )
    from replica_client.protocol.binlog.events.rows import (
        PartialUpdateRowsEvent,
        RowsEvent,
        RowsFragmentEvent,
    )
    from replica_client.protocol.binlog.events.table_map import TableMapEvent
    from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent

_MODULES: Final = {
    name: module for module, name in (path.split(".") for path, _ in EVENTS.values())
} | {"UnknownEvent": "control"}


class _EventClasses(Mapping[int, "type[EventBody]"]):
    """A mapping of the event classes, imported on demand."""

    def __init__(self) -> None:
        self._known: dict[int, type[EventBody]] = {}

    def __getitem__(self, code: int) -> type[EventBody]:
        found = self._known.get(code)
        if found is None:
            found = self._known[code] = _class(EVENTS[code][0].split(".")[1])
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(EVENTS)

    def __len__(self) -> int:
        return len(EVENTS)


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
    "RowsFragmentEvent",
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
