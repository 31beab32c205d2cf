"""MySQL and MariaDB replication-protocol client: binlog files and live sources.

::

    import replica_client as rc

    for change in rc.open_binlog("binlog.000024").changes():
        print(change.kind, change.table, change.before, change.after)

    async with rc.connect("mysql://repl:secret@db1/", tables=["shop.*"]) as stream:
        async for transaction in stream.transactions():
            ...
            await stream.acknowledge(transaction.position)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from replica_client._compiled import compiled
from replica_client._version import __version__

if TYPE_CHECKING:
    from replica_client.archive.archive import Archive, Found, FoundChange, open_archive
    from replica_client.archive.arrow_tables import BinlogTable, BinlogTables
    from replica_client.archive.as_of.table_state import TableState
    from replica_client.archive.scan import scan_binlog
    from replica_client.errors import (
        BinlogDecodeError,
        ConfigError,
        DataLossError,
        PositionError,
        ProtocolError,
        ReplicaClientError,
        ServerError,
        SourceBehindError,
        SourceChangedError,
        SourceResetError,
        TransportError,
    )
    from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
    from replica_client.protocol.binlog.values.json_binary import JsonDocument
    from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
    from replica_client.protocol.binlog.values.value_types import EnumValue, Geometry, SetValue
    from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet
    from replica_client.protocol.position import Position
    from replica_client.rows.change import RowsOfEvent
    from replica_client.rows.row import Row
    from replica_client.rows.row_change import (
        AnyChange,
        Change,
        DeleteChange,
        InsertChange,
        UpdateChange,
    )
    from replica_client.rows.selection import Selection
    from replica_client.rows.special_values import ABSENT
    from replica_client.schema.history import SchemaHistory
    from replica_client.schema.history_records import SchemaChange
    from replica_client.schema.shape import ColumnShape, TableShape
    from replica_client.stream.files.binlog_file import BinlogFileReader, open_binlog
    from replica_client.stream.live.connect import connect
    from replica_client.stream.live.follow import FollowedSource, follow
    from replica_client.stream.live.source_stream import SourceStream
    from replica_client.stream.live.stream_options import ReconnectPolicy
    from replica_client.stream.position.losses import Loss, LossCount, LossLedger
    from replica_client.stream.position.stores.base import MemoryPositionStore
    from replica_client.stream.position.stores.file import FilePositionStore
    from replica_client.stream.transactions.assembler import AssemblyOptions
    from replica_client.stream.transactions.transaction import Changes, Statement, Transaction

__all__ = [
    "ABSENT",
    "AnyChange",
    "Archive",
    "AssemblyOptions",
    "BinlogDecodeError",
    "BinlogEvent",
    "BinlogFileReader",
    "BinlogTable",
    "BinlogTables",
    "Change",
    "Changes",
    "ColumnShape",
    "ConfigError",
    "DataLossError",
    "Date",
    "DateTime",
    "DecodeOptions",
    "DeleteChange",
    "EnumValue",
    "FilePositionStore",
    "FollowedSource",
    "Found",
    "FoundChange",
    "Geometry",
    "Gtid",
    "GtidSet",
    "InsertChange",
    "JsonDocument",
    "Loss",
    "LossCount",
    "LossLedger",
    "MariadbGtid",
    "MariadbGtidSet",
    "MemoryPositionStore",
    "Position",
    "PositionError",
    "ProtocolError",
    "ReconnectPolicy",
    "ReplicaClientError",
    "Row",
    "RowsOfEvent",
    "SchemaChange",
    "SchemaHistory",
    "Selection",
    "ServerError",
    "SetValue",
    "SourceBehindError",
    "SourceChangedError",
    "SourceResetError",
    "SourceStream",
    "Statement",
    "TableShape",
    "TableState",
    "Time",
    "Timestamp",
    "Transaction",
    "TransportError",
    "UpdateChange",
    "__version__",
    "compiled",
    "connect",
    "follow",
    "open_archive",
    "open_binlog",
    "scan_binlog",
]

# Where the public names are: importing the package loads none of them, using one loads its module.
_MODULES = {
    "archive.archive": (
        "Archive",
        "Found",
        "FoundChange",
        "open_archive",
    ),
    "archive.arrow_tables": (
        "BinlogTable",
        "BinlogTables",
    ),
    "archive.as_of.table_state": ("TableState",),
    "archive.scan": ("scan_binlog",),
    "errors": (
        "BinlogDecodeError",
        "ConfigError",
        "DataLossError",
        "PositionError",
        "ProtocolError",
        "ReplicaClientError",
        "ServerError",
        "SourceBehindError",
        "SourceChangedError",
        "SourceResetError",
        "TransportError",
    ),
    "protocol.binlog.event": ("BinlogEvent", "DecodeOptions"),
    "protocol.binlog.values.value_types": (
        "EnumValue",
        "Geometry",
        "SetValue",
    ),
    "protocol.binlog.values.json_binary": ("JsonDocument",),
    "protocol.binlog.values.temporal": (
        "Date",
        "DateTime",
        "Time",
        "Timestamp",
    ),
    "protocol.gtid": (
        "Gtid",
        "GtidSet",
        "MariadbGtid",
        "MariadbGtidSet",
    ),
    "protocol.position": ("Position",),
    "rows.special_values": ("ABSENT",),
    "rows.change": ("RowsOfEvent",),
    "rows.row": ("Row",),
    "rows.row_change": ("AnyChange", "Change", "DeleteChange", "InsertChange", "UpdateChange"),
    "rows.selection": ("Selection",),
    "schema.history": ("SchemaHistory",),
    "schema.history_records": ("SchemaChange",),
    "schema.shape": (
        "ColumnShape",
        "TableShape",
    ),
    "stream.files.binlog_file": (
        "BinlogFileReader",
        "open_binlog",
    ),
    "stream.live.connect": ("connect",),
    "stream.live.follow": (
        "FollowedSource",
        "follow",
    ),
    "stream.live.source_stream": ("SourceStream",),
    "stream.live.stream_options": ("ReconnectPolicy",),
    "stream.position.losses": (
        "Loss",
        "LossCount",
        "LossLedger",
    ),
    "stream.position.stores.base": ("MemoryPositionStore",),
    "stream.position.stores.file": ("FilePositionStore",),
    "stream.transactions.assembler": ("AssemblyOptions",),
    "stream.transactions.transaction": (
        "Changes",
        "Statement",
        "Transaction",
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
