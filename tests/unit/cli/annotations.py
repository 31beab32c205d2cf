"""What every annotated event must fulfil: its bytes covered once, its values those of the decoder."""

from dataclasses import fields
from typing import Any

from replica_client.cli.annotation.annotator import AnnotatedBytes
from replica_client.cli.annotation.rows_body import row_text_of
from replica_client.cli.annotation.whole_event import annotate_event
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.protocol.binlog.events.rows import RowsEvent


def annotated(data: bytes, event: BinlogEvent, decoder: BinlogDecoder) -> list[AnnotatedBytes]:
    return annotate_event(data, event, decoder, row_text_of(event, decoder))


def uncovered(data: bytes, annotated_bytes: list[AnnotatedBytes]) -> str | None:
    """What is wrong with the coverage of the bytes, or None."""
    at = 0
    for field_bytes in annotated_bytes:
        if field_bytes.offset != at:
            return (
                f"{field_bytes.field} begins at {field_bytes.offset}, the span before ends at {at}"
            )
        if not field_bytes.data or data[at : at + len(field_bytes.data)] != field_bytes.data:
            return f"{field_bytes.field} at {at} has other bytes"
        at += len(field_bytes.data)
    return None if at == len(data) else f"spans end at {at}, the event at {len(data)}"


def _same(raw: Any, value: Any) -> bool:
    if isinstance(value, str):
        return bool(raw == value.encode("utf-8", "surrogateescape"))
    return bool(raw == value)


def _expected(event: BinlogEvent) -> dict[str, Any]:
    body = event.body
    values = {field.name: getattr(body, field.name) for field in fields(body)}
    if isinstance(body, QueryEvent):
        values |= body.status.present()
        for name in ("status_vars", "updated_databases", "updated_databases_count"):
            values.pop(name, None)
    if isinstance(body, RowsEvent):
        for name in ("kind", "type_code", "rows", "extra_info"):
            values.pop(name)
    return values


HEADER = ("timestamp", "server_id", "event_size", "next_position", "flags")


def compared(event: BinlogEvent, annotated_bytes: list[AnnotatedBytes]) -> tuple[int, list[str]]:
    """How many fields of the decoder have annotated bytes of their name, and those whose values differ."""
    count, different = 0, []
    expected = [("header", name, getattr(event.header, name)) for name in HEADER]
    expected += [("body", name, value) for name, value in _expected(event).items()]
    for part, name, value in expected:
        found = [
            s
            for s in annotated_bytes
            if s.field == name and (s.section == "header") == (part != "body")
        ]
        if len(found) != 1 or not isinstance(value, (int, bytes, str)):
            continue
        count += 1
        if not _same(found[0].raw, value):
            different.append(f"{name}: {found[0].raw!r} is not {value!r}")
    return count, different
