"""The rows of an event after its table's transforms, again as row images, so that all readers work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from replica_client.errors import DataLossError
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.rows import RowsEvent, RowsKind
from replica_client.protocol.binlog.values.strings import encode_string
from replica_client.protocol.constants.event_types import EventType
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder, is_partial
from replica_client.rows.image_splice import DROP, KEEP, ImageSplicer
from replica_client.rows.special_values import ABSENT
from replica_client.stream.transforms.column_rules import DELETED, PRESENT, is_text, length_size
from replica_client.stream.transforms.table_plan import DROPPED, TablePlan

_Encoder = Callable[[Any], bytes | None]
_MAX_COLUMNS: Final = 250
"""Number of columns up to which a rows event stores it in one byte."""
_CODES: Final[dict[tuple[bool, RowsKind], EventType]] = {
    (False, "insert"): EventType.WRITE_ROWS_EVENT_V1,
    (False, "update"): EventType.UPDATE_ROWS_EVENT_V1,
    (False, "delete"): EventType.DELETE_ROWS_EVENT_V1,
    (True, "insert"): EventType.WRITE_ROWS_EVENT,
    (True, "update"): EventType.UPDATE_ROWS_EVENT,
    (True, "delete"): EventType.DELETE_ROWS_EVENT,
}


class TransformedImages:
    """Transformer of the events of one row decoder.

    It does not keep that decoder: a table that changes every few seconds would fill the memory.

    Args:
        plan: of the table.
        rows: an event of the table.
    """

    def __init__(self, plan: TablePlan, rows: RowsOfEvent) -> None:
        self._plan = plan
        shape, options = rows.shape, rows.decoder.options
        given = frozenset(rows.decoder.column_names)
        self._shape, rules = plan.shape(shape)
        names: list[str] = []
        encoders: list[_Encoder] = []
        sources: list[int] = []
        new_columns = iter(self._shape.columns)
        wanted: list[str] = list(plan.added_names)
        if plan.shard is not None:
            next(new_columns)
        for column, rule in zip(shape.columns, rules, strict=True):
            if rule is DROPPED:
                sources.append(DROP)
                continue
            new = next(new_columns)
            if column.name in given:
                wanted.append(new.name)
            if rule is None:
                sources.append(KEEP)
                continue
            sources.append(len(encoders))
            if rule.make is None:
                text = rule.constant if is_text(column) else None
                size, collation = length_size(new), new.collation_id
                made = None if text is None else encode_string(text, size, collation)
                encoders.append(_constant(made))
            else:
                encoders.append(_encoder(rule.make, length_size(new), new.collation_id or 0))
            names.append(column.name if rule.reads_values else "")
        self._encoders, self._names = encoders, names
        # With a decoder of its own.
        plain = RowImageDecoder(shape, options, columns=())
        first = () if plan.shard is None else (plan.shard.image,)
        marks = plan.marker is not None
        self._splicer = ImageSplicer(plain, sources, first, (PRESENT,) if marks else ())
        self._deleting = ImageSplicer(plain, sources, first, (DELETED,)) if marks else None
        asked = {name.lower() for name in plan.asked_columns()}
        read = {name for name in names if name}
        read |= {column.name for column in shape.columns if column.name.lower() in asked}
        self._reader = RowImageDecoder(shape, options, columns=read)
        self._decoder = RowImageDecoder(self._shape, options, columns=wanted)
        at = {name: index for index, name in enumerate(self._reader.column_names)}
        self._indexes = [at.get(name, -1) for name in names]
        self._filters = bool(plan.filters)
        self._is_narrow = len(self._shape.columns) <= _MAX_COLUMNS
        self._constants: list[Any] | None = None
        if not read and not plan.filters:
            self._constants = [encode(None) for encode in encoders]

    def of(self, rows: RowsOfEvent) -> Iterator[RowsOfEvent]:
        """Yield the transformed event as one or several; their rows keep their indexes.

        Raises:
            BinlogDecodeError: a row cannot be decoded.
            DataLossError: an image lacks values that are needed.
        """
        event = rows.event
        body = event.body
        if is_partial(body):
            raise DataLossError(
                f"{event.file}:{event.position}: {rows.shape.database}.{rows.shape.table} is changed by parts of JSON "
                "documents, which transforms do not take; SET GLOBAL binlog_row_value_options='' on the source"
            )
        images = rows.decoder.images_of(body)
        before, after = body.columns_before, body.columns_after
        if body.kind == "insert" or after is None:
            after = before
        maker = _EventMaker(rows, self._shape, self._decoder, self._splicer, before, after)
        if not maker.has_columns:
            return
        deleting = self._deleting
        if self._constants is not None and (deleting is None or body.kind != "delete"):
            yield maker.whole(images, before, after, self._constants)
            return
        filters, first = self._plan.filters, rows.first_row
        pairs = self._reader.iter_rows(body.kind, before, body.columns_after, images)
        kind = body.kind
        at = index = 0
        size = len(images)
        while at < size:
            old, new = next(pairs)
            start, begun = at, len(maker.out)
            if kind != "insert":
                at = self._splicer.image(images, at, before, self._made(old), maker.out)
            middle = len(maker.out)
            if kind != "delete":
                at = self._splicer.image(images, at, after, self._made(new), maker.out)
            took = kind
            if index < first:
                took = ""
            elif filters:
                took = self._kind(kind, old, new)
            if took == "delete" and deleting is not None:
                if before != after:
                    raise DataLossError(
                        f"{event.file}:{event.position}: a row of {rows.shape.database}.{rows.shape.table} ceases to "
                        "be given, and its images are not whole; set binlog_row_image=FULL on the source"
                    )
                del maker.out[middle:]
                deleting.image(images, start, before, self._made(old), maker.out)
                took = "update"
            maker.take(index, took, begun, middle)
            index += 1
            if maker.ready is not None:
                yield maker.ready
                maker.ready = None
        last = maker.end()
        if last is not None:
            yield last

    def quickly(self, rows: RowsOfEvent) -> Sequence[RowsOfEvent] | None:
        """Return what :meth:`of` yields, without decoding the event; None if that is impossible."""
        images = rows.undecoded_images
        if images is None or not self._is_narrow:
            return None
        kind, (old, new) = rows.kind, rows.column_bitmaps
        splicer = self._splicer
        if not splicer.keeps_any(old) or (new is not None and not splicer.keeps_any(new)):
            return None
        if self._filters:
            pairs = self._reader.iter_rows(kind, old, new, images)
            kinds = {self._kind(kind, before, after) for before, after in pairs}  # type: ignore[arg-type]
            if kinds != {kind}:
                return () if kinds == {""} else None
        if kind == "delete" and self._deleting is not None:
            return None
        if self._constants is not None or not self._encoders:
            before, after = (None, old) if kind == "insert" else (old, new)
            made = splicer.images(images, before, after, self._constants or [])
        else:
            made = self._spliced(images, kind, old, new)
        bitmap = None if new is None else splicer.bitmap(new)
        shape, decoder = self._shape, self._decoder
        return (rows.with_images(shape, decoder, splicer.bitmap(old), bitmap, made),)

    def _spliced(self, images: bytes, kind: str, old: bytes, new: bytes | None) -> bytes:
        """Return all images with new values, row by row."""
        out, at, image = bytearray(), 0, self._splicer.image
        for before, after in self._reader.iter_rows(kind, old, new, images):
            if before is not None:
                at = image(images, at, old, self._made(before), out)
            if after is not None:
                at = image(images, at, old if new is None else new, self._made(after), out)
        return bytes(out)

    def _made(self, row: Any) -> list[bytes | None]:
        return [
            encode(row[at] if at >= 0 else None)
            for encode, at in zip(self._encoders, self._indexes, strict=True)
        ]

    def _kind(self, kind: RowsKind, old: Any, new: Any) -> str:
        """Return what a change is to the rows that meet the conditions; ``""``: nothing."""
        had = old is not None and self._plan.gives(old)
        if kind == "update":
            has = self._plan.gives(new)
            if had and has:
                return "update"
            return "insert" if has else "delete" if had else ""
        if kind == "insert":
            return "insert" if self._plan.gives(new) else ""
        return "delete" if had else ""


class _EventMaker:
    """Builder of events from images of consecutive rows of one kind."""

    def __init__(
        self,
        rows: RowsOfEvent,
        shape: Any,
        decoder: RowImageDecoder,
        splicer: ImageSplicer,
        before: bytes,
        after: bytes,
    ) -> None:
        self._rows, self._shape, self._decoder, self._splicer = rows, shape, decoder, splicer
        self._before, self._after = splicer.bitmap(before), splicer.bitmap(after)
        self._old = before, after
        kind = rows.event.body.kind
        # An image without any column left is worthless.
        self.has_columns = splicer.keeps_any(after if kind == "update" else before)
        if self.has_columns and not splicer.keeps_any(before):
            raise DataLossError(
                f"{rows.event.file}:{rows.event.position}: of {rows.shape.database}.{rows.shape.table} a row image has "
                "only columns that are hidden; set binlog_row_image=FULL on the source"
            )
        self._kind = ""
        self._first = 0
        self.out = bytearray()
        self.ready: RowsOfEvent | None = None

    def take(self, index: int, kind: str, begun: int, middle: int) -> None:
        """Take a row's images, which begin at ``begun`` and ``middle`` in :attr:`out`."""
        out = self.out
        if kind != self._kind:
            images = out[begun:]
            split = middle - begun
            del out[begun:]
            self.ready = self.end()
            self._kind, self._first = kind, index
            out.clear()
            if not kind:
                return
            out += self._passed_over(kind, index)
            if kind != "insert":
                out += images[:split]
            if kind != "delete":
                out += images[split:]
            return
        own = self._rows.event.body.kind
        if not kind:
            del out[begun:]
        elif kind == "insert" and own == "update":
            del out[begun:middle]
        elif kind == "delete" and own == "update":
            del out[middle:]

    def whole(self, images: bytes, before: bytes, after: bytes, values: list[Any]) -> RowsOfEvent:
        """Return the event with the same new values in all of its rows."""
        kind = self._rows.event.body.kind
        made = self._splicer.images(
            images,
            None if kind == "insert" else before,
            None if kind == "delete" else after,
            values,
        )
        return self._event(kind, made, self._rows.first_row)

    def end(self) -> RowsOfEvent | None:
        """Return the event of the images taken so far; None without any."""
        return self._event(self._kind, bytes(self.out), self._first) if self._kind else None

    def _event(self, kind: Any, images: bytes, first_row: int) -> RowsOfEvent:
        event = self._rows.event
        body = event.body
        code = _CODES[body.version == 2, kind]
        new = RowsEvent(
            kind,
            code,
            body.table_id,
            body.flags,
            body.extra_info,
            len(self._shape.columns),
            self._after if kind == "insert" else self._before,
            self._after if kind == "update" else None,
            images,
            b"" if body.version == 0 else body.extra_post_header,
        )
        header = event.header
        if header.type_code != code:
            header = replace(header, type_code=code)
        return RowsOfEvent(
            BinlogEvent(header, new, event.file, event.position, None, event.inner_index),
            self._shape,
            self._decoder,
            self._rows.event_index,
            first_row,
            self._rows.gtid,
        )

    def _passed_over(self, kind: str, count: int) -> bytes:
        """Return images for rows that are not delivered, so that the others keep their indexes."""
        before, after = map(self._splicer.nulls, self._old)
        one = (b"" if kind == "insert" else before) + (b"" if kind == "delete" else after)
        return one * count


def _constant(made: bytes | None) -> _Encoder:
    return lambda value: made


def _encoder(make: Callable[[Any], str], size: int, collation: int) -> _Encoder:
    def encode(value: Any) -> bytes | None:
        if value is None or value is ABSENT:
            return None
        return encode_string(make(value), size, collation)

    return encode
