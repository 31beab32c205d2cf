"""Every event on a line of standard output, as JSON or for people."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from replica_client.cli.output import Column, clock, cropped
from replica_client.errors import BinlogDecodeError, ReplicaClientError
from replica_client.protocol.binlog.event import (
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
    EventContext,
    EventHeader,
)
from replica_client.protocol.binlog.events import EVENT_CLASSES
from replica_client.protocol.binlog.events.control import FormatDescriptionEvent
from replica_client.protocol.binlog.events.fields import text_names
from replica_client.protocol.binlog.events.gtid_tagged import GtidTaggedEvent
from replica_client.protocol.binlog.events.gtids import (
    GtidEvent,
    MariadbGtidEvent,
    PreviousGtidsEvent,
)
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.binlog.events.query_status import STATUS_TEXTS
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.protocol.constants.event_types import event_type_name
from replica_client.protocol.gtid import format_uuid
from replica_client.rows.image import located

_METADATA_TEXTS = frozenset(("column_names", "enum_labels", "set_labels"))
# The fields of each class, and whether they are text.
_NAMES: dict[type, tuple[tuple[str, bool], ...]] = {}
# The columns of a table, by the definition in its table map: many tables look alike.
_COLUMNS: SizedCache[tuple[object, ...], dict[str, Any]] = SizedCache(1000)


def json_value(value: Any, is_text: bool = False) -> Any:
    """Return a field's value in JSON's terms; bytes as ``{"$binary": base64}``, or text where they are.

    Args:
        value: the value.
        is_text: bytes are text of a character set that contains ASCII.
    """
    if isinstance(value, bytes):
        if is_text:
            try:
                return value.decode()
            except UnicodeDecodeError:
                pass
        return {"$binary": b64encode(value).decode()}
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [json_value(item, is_text) for item in value]
    if is_dataclass(value):
        return _dataclass(value)
    return str(value)


def _dataclass(value: Any, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    kind = type(value)
    names = _NAMES.get(kind)
    if names is None:
        texts = text_names(kind.FIELDS) if hasattr(kind, "FIELDS") else _METADATA_TEXTS
        names = _NAMES[kind] = tuple((one.name, one.name in texts) for one in fields(value))
    shown = {}
    for name, is_text in names:
        found = getattr(value, name)
        if name not in without and not _is_empty(name, found):
            shown[name] = json_value(found, is_text)
    return shown


def _is_empty(name: str, value: Any) -> bool:
    """Return whether a field has only bytes that are seldom there, and none now."""
    return value == b"" and name.startswith(("extra", "unknown", "unparsed"))


def _query(body: QueryEvent) -> dict[str, Any]:
    shown = _dataclass(body, frozenset(("status_vars", "query", "compressed_query")))
    try:
        status: Any = {
            name: json_value(value, name in STATUS_TEXTS)
            for name, value in body.status.present().items()
        }
        text: Any = body.query_text()
    except (ReplicaClientError, UnicodeError, LookupError):
        status = json_value(body.status_vars)
        text = json_value(body.query, is_text=True)
    return {**shown, "status": status, "query": text}


def _gtid(body: GtidEvent | GtidTaggedEvent) -> dict[str, Any]:
    shown = _dataclass(body)
    uuid = format_uuid(body.sid)
    tag = f"{body.tag}:" if body.tag else ""
    gtid = f"{uuid}:{tag}{body.gno}" if body.gno else None
    return {"gtid": gtid, **shown, "sid": uuid}


def _previous_gtids(body: PreviousGtidsEvent) -> dict[str, Any]:
    return {"gtid_set": str(body.gtid_set)}


def _format_description(body: FormatDescriptionEvent) -> dict[str, Any]:
    shown = _dataclass(body, frozenset(("server_version", "post_header_sizes")))
    return {
        **shown,
        "server_version": body.version,
        "post_header_sizes": list(body.post_header_sizes),
    }


_OF_COLUMNS = frozenset(("column_types", "null_bitmap", "optional_metadata"))


def _table_map(body: TableMapEvent) -> dict[str, Any]:
    shown = _dataclass(body, _OF_COLUMNS)
    key = body.definition[2:]
    columns = _COLUMNS.get(key)
    if columns is None:
        columns = _columns(body)
        _COLUMNS.put(key, columns, len(body.optional_metadata))
    return {**shown, **columns}


def _columns(body: TableMapEvent) -> dict[str, Any]:
    types = [_type_name(code) for code in body.column_types]
    nullable = [body.is_nullable(at) for at in range(body.column_count)]
    metadata = {
        name: value for name, value in _dataclass(body.metadata).items() if value not in (None, [])
    }
    metadata.pop("field_types", None)
    return {"column_types": types, "nullable": nullable, "metadata": metadata}


def _type_name(code: int) -> str:
    try:
        return ColumnType(code).name.removeprefix("MYSQL_TYPE_")
    except ValueError:
        return str(code)


def _rows(body: RowsEvent) -> dict[str, Any]:
    return {**_dataclass(body, frozenset(("rows", "type_code"))), "rows_size": len(body.rows)}


def _payload(body: TransactionPayloadEvent) -> dict[str, Any]:
    return {
        "compression_type": body.compression_type,
        "payload_size": body.payload_size,
        "uncompressed_size": body.uncompressed_size,
    }


_SHOWN: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    QueryEvent: _query,
    GtidEvent: _gtid,
    GtidTaggedEvent: _gtid,
    PreviousGtidsEvent: _previous_gtids,
    FormatDescriptionEvent: _format_description,
    TableMapEvent: _table_map,
    RowsEvent: _rows,
    TransactionPayloadEvent: _payload,
}


def event_fields(event: BinlogEvent) -> dict[str, Any]:
    """Return the fields of an event's body, by name."""
    body = event.body
    if isinstance(body, MariadbGtidEvent):
        gtid = f"{body.domain_id}-{event.header.server_id}-{body.sequence}"
        return {"gtid": gtid, **_dataclass(body)}
    for kind, shown in _SHOWN.items():
        if isinstance(body, kind):
            return shown(body)
    return _dataclass(body)


def summary(event: BinlogEvent) -> str:
    """Return an event's fields on one line for people, the longest parts cut."""
    body = event.body
    if isinstance(body, QueryEvent):
        text = event_fields(event)["query"]
        return text if isinstance(text, str) else str(text)
    if isinstance(body, TableMapEvent):
        return f"{body.schema}.{body.table} (id {body.table_id}, {body.column_count} columns)"
    if isinstance(body, RowsEvent):
        return f"{body.kind} (table id {body.table_id}, {len(body.rows)} bytes of rows)"
    if isinstance(body, FormatDescriptionEvent):
        return f"binlog v{body.binlog_version}, server {body.version}"
    found = event_fields(event)
    if found.get("gtid"):
        return str(found["gtid"])
    return ", ".join(f"{name}={value}" for name, value in found.items() if value is not None)


SUMMARY_SIZE = 120
COLUMNS = (
    Column("file", 16),
    Column("position", 10, right=True),
    Column("size", 8, right=True),
    Column("type", 26),
    Column("time (UTC)", 19),
    Column("server_id", 10, right=True),
    Column("next", 10, right=True),
    Column("fields"),
)


def json_line(event: BinlogEvent) -> str:
    """Return an event as a JSON object, without a line end."""
    header = event.header
    record = {
        "file": event.file,
        "position": event.position,
        "size": header.event_size,
        "type": event_type_name(header.type_code),
        "type_code": header.type_code,
        "timestamp": header.timestamp,
        "server_id": header.server_id,
        "next_position": header.next_position,
        "flags": header.flags,
        "checksum": None if event.checksum is None else f"{event.checksum:08x}",
    }
    if event.inner_index is not None:
        record["inner_index"] = event.inner_index
    try:
        record["fields"] = event_fields(event)
    except BinlogDecodeError as error:
        raise located(error, event) from None
    return json.dumps(record, ensure_ascii=False)


def plain_line(event: BinlogEvent) -> str:
    """Return an event for people, without a line end."""
    header = event.header
    inner = "" if event.inner_index is None else f"/{event.inner_index}"
    cells = (
        event.file,
        f"{event.position}{inner}",
        header.event_size,
        event_type_name(header.type_code),
        clock(header.timestamp),
        header.server_id,
        header.next_position,
        plain_fields(event),
    )
    texts = [column.pad(printable(str(cell))) for column, cell in zip(COLUMNS, cells, strict=True)]
    return "  ".join(texts).rstrip()


NARROW_COLUMNS = (Column("position", 10, right=True), Column("type", 26), Column("fields"))
_NARROW = 140
"""Columns of a terminal below which each line has only the most important cells."""


def terminal_columns(width: int) -> tuple[Column, ...]:
    """Return the columns that a terminal has room for."""
    return NARROW_COLUMNS if width < _NARROW else COLUMNS


def terminal_line(event: BinlogEvent, width: int) -> str:
    """Return an event for a terminal of so many columns, without a line end."""
    if width >= _NARROW:
        return cropped(plain_line(event), width)
    inner = "" if event.inner_index is None else f"/{event.inner_index}"
    kind = event_type_name(event.header.type_code)
    cells = (f"{event.position}{inner}", kind, plain_fields(event))
    texts = [column.pad(cell) for column, cell in zip(NARROW_COLUMNS, cells, strict=True)]
    return cropped(printable("  ".join(texts).rstrip()), width)


def plain_fields(event: BinlogEvent) -> str:
    """Return an event's own fields for people, short."""
    text = " ".join(summary(event).split())
    return text if len(text) <= SUMMARY_SIZE else text[: SUMMARY_SIZE - 1] + "…"


class FieldTexts:
    """The fields of event bodies as text.

    Args:
        json: as a JSON object, else for people.
    """

    def __init__(self, *, json: bool) -> None:
        self._json = json

    def decoded(self, body: bytes, code: int, layout: BinlogFormat) -> BinlogEvent:
        """Return an event with a body that decodes without the events before it."""
        context = EventContext(layout, code, 0, DecodeOptions())
        decoded = EVENT_CLASSES[code].decode(ByteReader(body), context)
        return BinlogEvent(EventHeader(0, code, 0, 0, 0, 0), decoded)

    def text_of(self, event: BinlogEvent) -> str:
        """Return the fields of an event."""
        if self._json:
            return json.dumps(event_fields(event), ensure_ascii=False)
        return printable(plain_fields(event))

    def text(self, body: bytes, code: int, layout: BinlogFormat) -> str:
        """Return the fields of a body that decodes without the events before it."""
        return self.text_of(self.decoded(body, code, layout))
