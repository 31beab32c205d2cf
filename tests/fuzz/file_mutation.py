"""Whole binlogs, changed: events dropped, doubled, put elsewhere; table maps of other shapes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.event import BinlogFormat, EventContext
from replica_client.protocol.binlog.events import EVENT_CLASSES, RowsEvent, TableMapEvent
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.column_types import ColumnType
from tests.fuzz.harness import Sample, mutated, sealed
from tests.fuzz.scenes import Scene

_INTERESTING = (0, 1, 2, 4, 8, 9, 10, 13, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_TYPES = tuple(int(code) for code in ColumnType)
_ROWS = tuple(code for code, kind in EVENT_CLASSES.items() if issubclass(kind, RowsEvent))
_METADATA = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x10, 0x1F, 0x41, 0xFF, 0x100, 0x20A, 0x3FF, 0xFFFF)
_STRING_TYPES = (0xF7, 0xF8, 0xFE, 0xCE, 0xDE, 0xEE, 0xF6)
_MOST_COLUMNS = 300

Events = list[bytes]


def _header_of(layout: BinlogFormat, event: bytes) -> int:
    return min(layout.header_size, len(event))


def _body(layout: BinlogFormat, event: bytes) -> Any | None:
    """The event's body decoded, or None."""
    end = len(event) - layout.checksum_size
    context = EventContext(layout, event[4], 0)
    with suppress(ReplicaClientError, ValueError):
        return EVENT_CLASSES[event[4]].decode(
            ByteReader(event, _header_of(layout, event), end), context
        )
    return None


def _event(layout: BinlogFormat, like: bytes, body: Any) -> bytes | None:
    """An event with the header of another and this body, or None where it cannot be written."""
    try:
        data = body.encode(EventContext(layout, like[4], 0))
    except (ReplicaClientError, ValueError, OverflowError):
        return None
    head = like[: _header_of(layout, like)]
    return sealed(layout, head + data + bytes(layout.checksum_size))


def _metadata_value(code: int, rng: random.Random) -> int:
    if code in (ColumnType.MYSQL_TYPE_STRING, ColumnType.MYSQL_TYPE_VAR_STRING):
        return rng.choice(_STRING_TYPES) | rng.choice((0, 1, 2, 3, 8, 20, 255)) << 8
    if code == ColumnType.MYSQL_TYPE_NEWDECIMAL:
        return rng.randrange(1, 80) | rng.choice((0, 1, 4, 9, 30, 40)) << 8
    if code == ColumnType.MYSQL_TYPE_BIT:
        return rng.randrange(9) | rng.choice((0, 1, 7, 8, 9)) << 8
    return rng.choice(_METADATA)


def _reshaped(table: TableMapEvent, rng: random.Random) -> TableMapEvent:
    """A table map of as many columns, or some more or less, with other types."""
    types, metadata = bytearray(table.column_types), list(table.column_metadata)
    if not types:
        types, metadata = bytearray(b"\x03"), [0]
    choice = rng.random()
    if choice < 0.1:
        at = rng.randrange(len(types))
        types.insert(at, rng.choice(_TYPES))
        metadata.insert(at, 0)
    elif choice < 0.2:
        at = rng.randrange(len(types))
        del types[at], metadata[at]
    elif choice < 0.23:
        count = rng.choice((8, 9, 16, 64, _MOST_COLUMNS))
        types = bytearray(rng.choice(_TYPES) for _ in range(count))
        metadata = [0] * count
    for _ in range(rng.choice((1, 1, 2, 4, len(types)))):
        if not types:
            break
        at = rng.randrange(len(types))
        if rng.random() < 0.7:
            types[at] = rng.choice(_TYPES)
        metadata[at] = _metadata_value(types[at], rng)
    sizes = [2 if code in _TWO_BYTES else 1 if code in _ONE_BYTE else 0 for code in types]
    fitted = tuple(
        value & ((1 << 8 * size) - 1) for value, size in zip(metadata, sizes, strict=True)
    )
    optional = table.optional_metadata
    if rng.random() < 0.5:
        optional = b""
    elif optional and rng.random() < 0.3:
        changed = bytearray(optional)
        changed[rng.randrange(len(changed))] = rng.choice(_INTERESTING)
        optional = bytes(changed)
    nulls = bytes((len(types) + 7) >> 3)
    return replace(
        table,
        column_types=bytes(types),
        column_metadata=fitted,
        null_bitmap=nulls,
        optional_metadata=optional,
    )


_T = ColumnType
_ONE_BYTE = frozenset(
    (
        *(_T.MYSQL_TYPE_FLOAT, _T.MYSQL_TYPE_DOUBLE, _T.MYSQL_TYPE_TIMESTAMP2),
        *(_T.MYSQL_TYPE_DATETIME2, _T.MYSQL_TYPE_TIME2, _T.MYSQL_TYPE_BLOB_COMPRESSED),
        *(_T.MYSQL_TYPE_VECTOR, _T.MYSQL_TYPE_JSON, _T.MYSQL_TYPE_TINY_BLOB),
        *(_T.MYSQL_TYPE_MEDIUM_BLOB, _T.MYSQL_TYPE_LONG_BLOB, _T.MYSQL_TYPE_BLOB),
        *(_T.MYSQL_TYPE_GEOMETRY, _T.MYSQL_TYPE_TYPED_ARRAY),
    )
)
_TWO_BYTES = frozenset(
    (
        *(_T.MYSQL_TYPE_VARCHAR, _T.MYSQL_TYPE_BIT, _T.MYSQL_TYPE_VARCHAR_COMPRESSED),
        *(_T.MYSQL_TYPE_NEWDECIMAL, _T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET),
        *(_T.MYSQL_TYPE_VAR_STRING, _T.MYSQL_TYPE_STRING),
    )
)


def _reshape(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    """Another shape for a table; its rows come to as many columns, mostly."""
    tables = [at for at, event in enumerate(events) if event[4:5] == b"\x13"]
    if not tables:
        return
    at = rng.choice(tables)
    table = _body(scene.layout, events[at])
    if not isinstance(table, TableMapEvent):
        return
    changed = _reshaped(table, rng)
    made = _event(scene.layout, events[at], changed)
    if made is None:
        return
    events[at] = made
    if len(changed.column_types) == len(table.column_types) or rng.random() < 0.2:
        return
    _fit_rows(events, scene.layout, table.table_id, len(changed.column_types), rng)


def _fit_rows(
    events: Events, layout: BinlogFormat, table_id: int, count: int, rng: random.Random
) -> None:
    size = (count + 7) >> 3
    for at, event in enumerate(events):
        if len(event) < 5 or event[4] not in _ROWS:
            continue
        body = _body(layout, event)
        if body is None or (body.table_id != table_id and rng.random() < 0.8):
            continue
        before = _bitmap(size, rng)
        after = None if body.columns_after is None else _bitmap(size, rng)
        made = _event(
            layout,
            event,
            replace(
                body,
                table_id=table_id,
                column_count=count,
                columns_before=before,
                columns_after=after,
            ),
        )
        if made is not None:
            events[at] = made


def _bitmap(size: int, rng: random.Random) -> bytes:
    return b"\xff" * size if rng.random() < 0.6 else rng.randbytes(size)


def _foreign_table(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    """A table map from elsewhere under the id of a table that is here."""
    own = [at for at, event in enumerate(events) if event[4:5] == b"\x13"]
    foreign = [event for event in other.events if event[4:5] == b"\x13"]
    if not own or not foreign:
        return
    at = rng.choice(own)
    table, found = _body(scene.layout, events[at]), _body(other.layout, rng.choice(foreign))
    if not isinstance(table, TableMapEvent) or not isinstance(found, TableMapEvent):
        return
    found = replace(found, table_id=table.table_id, extra_post_header=table.extra_post_header)
    made = _event(scene.layout, events[at], found)
    if made is not None:
        events[at] = made
        _fit_rows(events, scene.layout, table.table_id, found.column_count, rng)


def _change_rows(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    """Other bytes in the row images, and now and then in the bitmaps."""
    rows = [at for at, event in enumerate(events) if len(event) > 4 and event[4] in _ROWS]
    if not rows:
        return
    at = rng.choice(rows)
    body = _body(scene.layout, events[at])
    if body is None:
        return
    data = bytearray(body.rows)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        if data:
            position = rng.randrange(len(data))
            kind = rng.random()
            if kind < 0.5:
                data[position] = rng.choice(_INTERESTING)
            elif kind < 0.7:
                data[position] ^= 1 << rng.randrange(8)
            elif kind < 0.8:
                data[position:position] = rng.randbytes(rng.choice((1, 2, 4, 30)))
            elif kind < 0.9:
                del data[position : position + rng.choice((1, 2, 4, 30))]
            else:
                data = data[:position] + data[position : position + 64] * rng.choice((2, 3, 40))
    body = replace(body, rows=bytes(data))
    if rng.random() < 0.2:
        size = len(body.columns_before)
        after = None if body.columns_after is None else _bitmap(size, rng)
        body = replace(body, columns_before=_bitmap(size, rng), columns_after=after)
    made = _event(scene.layout, events[at], body)
    if made is not None:
        events[at] = made


def _retype_rows(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    """Another kind of rows event over the same bytes."""
    rows = [at for at, event in enumerate(events) if len(event) > 4 and event[4] in _ROWS]
    if rows:
        at = rng.choice(rows)
        code = bytes((rng.choice(_ROWS),))
        events[at] = sealed(scene.layout, events[at][:4] + code + events[at][5:])


def _change_event(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    """Any bytes of any event."""
    first = 0 if rng.random() < 0.1 else min(1, len(events) - 1)
    at = rng.randrange(first, len(events))
    pick = Sample(scene.layout, events[at])
    events[at] = mutated(pick, Sample(other.layout, rng.choice(other.events)), rng).event


def _drop(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    if len(events) > 1:
        del events[rng.randrange(0 if rng.random() < 0.05 else 1, len(events))]


def _double(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    at = rng.randrange(len(events))
    events[at:at] = [events[at]] * rng.choice((1, 1, 2, 30))


def _swap(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    at, there = rng.randrange(len(events)), rng.randrange(len(events))
    events[at], events[there] = events[there], events[at]


def _insert(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    """Events of another file in the midst of this one's."""
    first = rng.randrange(len(other.events))
    part = other.events[first : first + rng.randrange(1, 5)]
    at = rng.randrange(len(events) + 1)
    events[at:at] = part


def _end(events: Events, scene: Scene, other: Scene, rng: random.Random) -> None:
    """An XID event, so that what came before is delivered."""
    head = bytes(4) + b"\x10" + b"\1\0\0\0" + bytes(8) + b"\0\0"
    size = scene.layout.header_size
    head += bytes(max(0, size - len(head)))
    events.append(sealed(scene.layout, head[:size] + bytes(8 + scene.layout.checksum_size)))


_CHANGES: tuple[Callable[[Events, Scene, Scene, random.Random], None], ...] = (
    *(_reshape,) * 5,
    *(_foreign_table,) * 3,
    *(_change_rows,) * 5,
    *(_retype_rows,) * 2,
    *(_change_event,) * 4,
    *(_drop, _double, _swap, _insert),
)


def mutated_file(scene: Scene, other: Scene, rng: random.Random) -> bytes:
    """A binlog made from one scene, with parts of another."""
    events = list(scene.events)
    if rng.random() < 0.9:
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            rng.choice(_CHANGES)(events, scene, other, rng)
            if not events:
                break
    if rng.random() < 0.4:
        _end(events, scene, other, rng)
    data = bytearray(scene.begin + b"".join(events))
    if rng.random() < 0.15:
        for _ in range(rng.choice((1, 2, 5))):
            data[rng.randrange(len(data))] = rng.choice(_INTERESTING)
    if rng.random() < 0.07:
        del data[rng.randrange(len(data)) :]
    if rng.random() < 0.05:
        foreign = other.begin + b"".join(other.events)
        at = rng.randrange(len(foreign))
        data[rng.randrange(len(data) + 1) :] = foreign[at:]
    return bytes(data)
