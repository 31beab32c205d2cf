"""``replica-client annotate``: the bytes of an event beside the meaning of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from replica_client.cli.annotation.annotator import AnnotatedBytes
from replica_client.cli.annotation.rows_body import row_text_of
from replica_client.cli.annotation.whole_event import annotate_event
from replica_client.cli.file_check import files_of, raw_events
from replica_client.cli.flags import Json, KeyFile, Limit, decode_options
from replica_client.cli.output import Column, Lines
from replica_client.errors import BinlogDecodeError, BinlogFormatError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.control import UnknownEvent
from replica_client.protocol.constants.event_types import event_type_name
from replica_client.storage.location import Location

BYTES_PER_LINE = 8
COLUMNS = (
    Column("offset", 10, right=True),
    Column("bytes", 3 * BYTES_PER_LINE - 1),
    Column("part", 12),
    Column("field", 28),
    Column("value", 34),
    Column("unit"),
)


def annotate(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A binlog file.")],
    position: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=4,
            help="Begin with the event at this position, and show one, or as many as --limit says.",
        ),
    ] = None,
    limit: Limit = None,
    key_file: KeyFile = None,
    json: Json = False,
) -> None:
    """Print what each byte of an event means: offset, bytes, field, value and unit.

    The annotated bytes of an event cover each of its bytes once. The events inside a compressed transaction
    follow it, with offsets inside its decompressed bytes, and a rows event in fragments its last fragment.
    """
    file = files_of([path])[0]
    wanted = limit if limit is not None or position is None else 1
    lines = Lines(COLUMNS)
    decoder = BinlogDecoder(decode_options(key_file, verify_checksum=False), file.name)
    for event, annotated_bytes in _annotated(decoder, file, position or 4, wanted):
        if json:
            _print_json(lines, event, annotated_bytes)
        else:
            _print_table(lines, event, annotated_bytes)
    lines.flush()


def _annotated(
    decoder: BinlogDecoder, path: Location, position: int, count: int | None
) -> Iterator[tuple[BinlogEvent, list[AnnotatedBytes]]]:
    done = 0
    for at, raw in raw_events(path, decoder):
        plain = decoder.decrypted(raw, at)
        event = _decoded(decoder, raw, plain, at)
        if at < position:
            continue
        if not done and at != position:
            raise BinlogFormatError(
                f"no event begins there, one begins at {at}; replica-client events lists them",
                file=path.name,
                position=position,
            )
        yield event, annotate_event(plain, event, decoder, row_text_of(event, decoder))
        yield from _inside(decoder, event)
        done += 1
        if done == count:
            return
    if not done:
        raise BinlogFormatError(
            "the file ends before that; replica-client events lists its events",
            file=path.name,
            position=position,
        )


def _decoded(decoder: BinlogDecoder, raw: bytes, plain: bytes, position: int) -> BinlogEvent:
    """Annotate an event; the bytes of one that the decoder refuses stay undivided."""
    try:
        return decoder.decode(raw, position)
    except BinlogDecodeError:
        header = decoder.peek_header(plain)
        format_ = decoder.format
        body = plain[format_.header_size : len(plain) - format_.checksum_size]
        checksum = int.from_bytes(plain[-4:], "little") if format_.checksum_size else None
        return BinlogEvent(header, UnknownEvent(body), "", position, checksum)


def _inside(
    decoder: BinlogDecoder, event: BinlogEvent
) -> Iterator[tuple[BinlogEvent, list[AnnotatedBytes]]]:
    base = 0
    pieces = decoder.inner_bytes(event)
    for inner, raw in zip(decoder.inner_events(event), pieces, strict=True):
        yield inner, annotate_event(raw, inner, decoder, row_text_of(inner, decoder), base)
        base += len(raw)


def _print_table(lines: Lines, event: BinlogEvent, annotated_bytes: list[AnnotatedBytes]) -> None:
    code = event.header.type_code
    where = f"position {event.position}"
    if event.inner_index is not None:
        where += f", inside the event before: event {event.inner_index}, offsets of its plain bytes"
    lines.line(f"== {event_type_name(code)} ({code}), {where}, {event.header.event_size} bytes")
    lines.heading()
    for field_bytes in annotated_bytes:
        for start in range(0, len(field_bytes.data), BYTES_PER_LINE):
            cells = ["", field_bytes.data[start : start + BYTES_PER_LINE].hex(" "), "", "", "", ""]
            cells[0] = str(field_bytes.offset + start)
            if not start:
                cells[2:] = [
                    field_bytes.section,
                    field_bytes.field,
                    field_bytes.value,
                    field_bytes.unit,
                ]
            lines.row(cells)
    lines.line("")


def _print_json(lines: Lines, event: BinlogEvent, annotated_bytes: list[AnnotatedBytes]) -> None:
    for field_bytes in annotated_bytes:
        record: dict[str, Any] = {
            "position": event.position,
            "inner_index": event.inner_index,
            "type": event_type_name(event.header.type_code),
            "offset": field_bytes.offset,
            "size": len(field_bytes.data),
            "hex": field_bytes.data.hex(),
            "section": field_bytes.section,
            "field": field_bytes.field,
            "value": field_bytes.value,
            "unit": field_bytes.unit,
        }
        if event.inner_index is None:
            del record["inner_index"]
        lines.json(record)
