"""The rows of a large rows event as JSON, written together by compiled code."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pyarrow as pa

from replica_client.errors import BinlogDecodeError
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder, is_partial
from replica_client.rows.json_images import json_images, json_null_members
from replica_client.schema.shape import TableShape

_ROW_INDEX = 7
_MAX_BUILDERS = 256


class CompiledImages:
    """Makes JSON texts of rows, the same as :func:`~replica_client.rows.json_values.row_to_json`."""

    def __init__(self) -> None:
        self._builders: dict[int, tuple[RowImageDecoder, BatchBuilder]] = {}

    @staticmethod
    def can_take(rows: RowsOfEvent) -> bool:
        """Whether it has texts for these rows: not for parts of JSON documents."""
        return not is_partial(rows.event.body)

    def texts(self, rows: RowsOfEvent) -> Generator[tuple[int, str, str, str], None, None]:
        """Index, texts before and after, and member ``json_null`` of each row not delivered before.

        Raises:
            BinlogDecodeError: a row cannot be decoded; those before it were given.
        """
        builder = self._builder(rows)
        try:
            for batch in builder.append_rows(rows, "", 0):
                yield from _texts(batch, rows.shape)
        except BinlogDecodeError:
            if len(builder):
                yield from _texts(builder.finish(), rows.shape)
            raise
        except GeneratorExit:
            self._builders.clear()  # what nobody wants any more must not come with the next rows
            raise
        if len(builder):
            yield from _texts(builder.finish(), rows.shape)

    def _builder(self, rows: RowsOfEvent) -> BatchBuilder:
        found = self._builders.get(id(rows.decoder))
        if found is None:
            if len(self._builders) >= _MAX_BUILDERS:
                self._builders.clear()
            decoder = rows.decoder
            made = BatchBuilder(rows.shape, None, decoder.options, decoder)
            # The decoder is kept with it, so that its id stays its own.
            found = self._builders[id(decoder)] = (decoder, made)
        return found[1]


def _texts(batch: pa.RecordBatch, shape: TableShape) -> Iterator[tuple[int, str, str, str]]:
    images = json_images(batch, shape)
    members = json_null_members(batch, shape, images.rows)
    indexes = batch.column(_ROW_INDEX)
    if images.rows is not None:
        indexes = indexes.take(images.rows)
    texts = zip(
        indexes.to_pylist(), images.before.to_pylist(), images.after.to_pylist(), strict=True
    )
    for at, (index, before, after) in enumerate(texts):
        yield index, before or "null", after or "null", members.get(at, "")
