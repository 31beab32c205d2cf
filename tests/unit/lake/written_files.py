"""Change files of given values, without a binlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from replica_client.lake.change_files import ChangeFile, ChangeFileBuilder, ChangeFileWriter
from replica_client.lake.partial_images import completed
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.storage.location import Location


def written_file(
    log: Location,
    columns: Sequence[ColumnShape],
    kinds: Sequence[str],
    values: Mapping[str, Sequence[Any]],
    part: int,
    lossless: Sequence[Any] | None = None,
    absent: Sequence[Sequence[str] | None] | None = None,
) -> ChangeFile:
    """Changes of the values of each column; written as a task writes them."""
    builder = ChangeFileBuilder(TableShape("d", "t", tuple(columns)))
    count = len(kinds)
    heads = {
        "_change_type": pa.array(kinds).dictionary_encode(),
        "_commit_timestamp": pa.array([1] * count, pa.int64()),
        "_commit_version": pa.array([f"f:{part:05}"] * count).dictionary_encode(),
        "_gtid": pa.array([""] * count).dictionary_encode(),
        "_file": pa.array(["f"] * count).dictionary_encode(),
        "_offset": pa.array([4] * count, pa.int64()),
        "_event_index": pa.array([0] * count, pa.int64()),
        "_row_index": pa.array(range(count), pa.int64()),
        "_absent": pa.array(absent or [None] * count, builder.schema.field("_absent").type),
        "_lossless": pa.array(lossless or [None] * count, builder.schema.field("_lossless").type),
        **{name: pa.array(given) for name, given in values.items()},
    }
    arrays = [heads[one.name].cast(one.type) for one in builder.schema]
    metadata = builder.finish().schema.metadata
    batch = pa.RecordBatch.from_arrays(arrays, schema=builder.schema)
    batch = completed(batch, builder.shape)
    writer = ChangeFileWriter(log, part)
    writer.add(batch.replace_schema_metadata(metadata))
    [file] = writer.finish()
    return file
