"""A table of binlog files as it was at a moment: the option ``asOf``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import MapType, StringType, StructField, StructType

from replica_client.archive.archive import Archive, open_archive
from replica_client.archive.as_of.reconstruction import planned_state
from replica_client.lake.source_options import SourceOptions
from replica_client.position.position import Position
from replica_client.readers.surface import options_of
from replica_client.rows.selection import exact_pattern
from replica_client.spark.source.envelope import BatchColumns
from replica_client.spark.source.typed import plan_table
from replica_client.spark.source.typed_batches import converted
from replica_client.spark.source.worker_process import settle

_LOSSLESS = StructField("_lossless", MapType(StringType(), StringType(), False), True)


@dataclass(frozen=True)
class PlannedState:
    """A planned read of a table at a moment; it travels to the executor.

    Attributes:
        position: the moment.
        columns: the wanted columns of the table there.
        without: the other columns; their missing values are ignored.
    """

    position: Position
    columns: StructType
    without: tuple[str, ...]

    @classmethod
    def of(cls, options: SourceOptions) -> PlannedState:
        """Find the moment that the options name, and the table's columns then.

        Raises:
            ConfigError: the moment is none of the files.
            DataLossError: the definition of the table is not in them.
        """
        assert options.as_of is not None
        position, shape = planned_state(_archive(options), _table(options), options.as_of)
        fields = plan_table(shape, options).fields
        columns = [StructField(name, kind) for name, kind in fields]
        wanted = {name for name, _ in fields}
        without = [
            column.name
            for at, column in enumerate(shape.columns)
            if column.name not in wanted and at not in shape.primary_key
        ]
        return cls(position, StructType([*columns, _LOSSLESS]), tuple(without))


class AsOfReader(DataSourceReader):
    """Reads a table as it was, in one partition: each change goes on from the one before.

    Args:
        options: of the query.
        planned: moment and columns.
    """

    def __init__(self, options: SourceOptions, planned: PlannedState) -> None:
        self._options, self._planned = options, planned

    def partitions(self) -> Sequence[InputPartition]:
        """Return the only partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows, unordered."""
        options, schema = self._options, BatchColumns(self._planned.columns).arrow_schema
        with options_of("spark"):
            state = _archive(options).as_of(
                _table(options),
                self._planned.position,
                copy=options.copy,
                copy_at=options.copy_at,
                without=self._planned.without,
            )
            for batch in state.batches():
                arrays = [converted(batch.column(field.name), field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        settle()


def _archive(options: SourceOptions) -> Archive:
    return open_archive(
        list(options.locations),
        options=options.decode,
        lower_case_table_names=options.letter_case,
        index_directory=options.index_directory,
    )


def _table(options: SourceOptions) -> str:
    assert options.table is not None
    return exact_pattern(*options.table)
