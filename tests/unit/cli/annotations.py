"""What every annotated event must fulfil: its bytes covered once, its values those of the decoder."""

from dataclasses import fields
from typing import Any

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events.query import QueryEvent
from replica_client.binlog.events.rows import RowsEvent
from replica_client.cli.annotation.event import annotate_event
from replica_client.cli.annotation.row_texts import row_text_of
from replica_client.cli.annotation.spans import Span


def annotated(data: bytes, event: BinlogEvent, decoder: BinlogDecoder) -> list[Span]:
    return annotate_event(data, event, decoder, row_text_of(event, decoder))


def uncovered(data: bytes, spans: list[Span]) -> str | None:
    """What is wrong with the coverage of the bytes, or None."""
    at = 0
    for span in spans:
        if span.offset != at:
            return f"{span.field} begins at {span.offset}, the span before ends at {at}"
        if not span.data or data[at : at + len(span.data)] != span.data:
            return f"{span.field} at {at} has other bytes"
        at += len(span.data)
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


def compared(event: BinlogEvent, spans: list[Span]) -> tuple[int, list[str]]:
    """How many fields of the decoder have a span of their name, and those whose values differ."""
    count, different = 0, []
    expected = [("header", name, getattr(event.header, name)) for name in HEADER]
    expected += [("body", name, value) for name, value in _expected(event).items()]
    for part, name, value in expected:
        found = [
            s for s in spans if s.field == name and (s.section == "header") == (part != "body")
        ]
        if len(found) != 1 or not isinstance(value, (int, bytes, str)):
            continue
        count += 1
        if not _same(found[0].raw, value):
            different.append(f"{name}: {found[0].raw!r} is not {value!r}")
    return count, different
