"""The ``mysql-binlog`` data source."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from replica_client.errors import ConfigError
from replica_client.lake.source.live_plan import Planner, make_planner
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.readers import (
    AsOfReader,
    BinlogBatchReader,
    BinlogStreamReader,
    FilteringBatchReader,
    PlannedState,
)
from replica_client.lake.spark.source.shapes import (
    ENVELOPE_SCHEMA,
    VARIANT_ENVELOPE_SCHEMA,
    TypedTable,
    plan_table,
)

FORMAT = "mysql-binlog"


class BinlogDataSource(DataSource):
    """Row changes of binlog files or of a live MySQL or MariaDB, as a batch or a stream.

    Args:
        options: see :mod:`replica_client.lake.source_options`.

    Raises:
        ConfigError: an option is unknown or wrong.
    """

    def __init__(self, options: dict[str, str]) -> None:
        # Spark's own copy of the options is not kept: the URL may hold a password.
        self.options = {}
        self._source = SourceOptions.parse(options)
        self._table: TypedTable | None = None
        self._state: PlannedState | None = None

    @classmethod
    def name(cls) -> str:
        """``mysql-binlog``."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema: the envelope, or the columns of the table that was named, changed or at a moment."""
        state = self._as_of()
        if state is not None:
            return state.columns
        table = self._typed()
        if table is not None:
            return table.schema()
        return VARIANT_ENVELOPE_SCHEMA if self._source.variant else ENVELOPE_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for ``spark.read``."""
        self._check(schema)
        state = self._as_of()
        if state is not None:
            return AsOfReader(self._source, state)
        if self._source.max_bytes is not None or self._source.max_rows is not None:
            raise ConfigError(
                "maxBytesPerTrigger and maxRowsPerTrigger are for streams (readStream)"
            )
        reader = FilteringBatchReader if self._source.pushes_filters else BinlogBatchReader
        return reader(self._source, self._typed())

    def streamReader(self, schema: StructType) -> BinlogStreamReader:
        """Return the reader for ``spark.readStream``."""
        if self._source.as_of is not None:
            raise ConfigError("asOf is for batches (spark.read); a stream has changes")
        self._check(schema)
        if self._source.ending is not None:
            raise ConfigError("endingPosition is for batches (spark.read); a stream has no end")
        source = self._source
        if "on_unknown_table" not in source.reading and not source.live:
            # Names must be the same in all micro-batches, also when old files are gone.
            source = replace(source, reading={**source.reading, "on_unknown_table": "error"})
        return BinlogStreamReader(source, self._typed())

    def _typed(self) -> TypedTable | None:
        if self._source.table is not None and self._table is None:
            planner = make_planner(self._source)
            try:
                self._table = typed_table(planner, self._source)
            finally:
                planner.close()
        return self._table

    def _as_of(self) -> PlannedState | None:
        if self._source.as_of is not None and self._state is None:
            self._state = PlannedState.of(self._source)
        return self._state

    def _check(self, schema: StructType) -> None:
        own = self.schema()
        if [(f.name, f.dataType) for f in schema] != [(f.name, f.dataType) for f in own]:
            raise ConfigError(
                f"the schema of {FORMAT} is its own; leave out schema(…), or give: {own.simpleString()}"
            )


def typed_table(planner: Planner, options: SourceOptions) -> TypedTable | None:
    """Return the plan of a typed query; None for the envelope.

    Raises:
        UnknownTableError: the source does not have the table.
    """
    if options.table is None:
        return None
    shape, position = planner.shape(*options.table)
    return plan_table(shape, options, position)
