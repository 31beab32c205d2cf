"""Record batches of one table each, built from row changes of any tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeAlias

from replica_client.errors import ConfigError, install_command
from replica_client.options import check_argument
from replica_client.protocol.codec.turns import Turn

try:
    import pyarrow as pa
except ModuleNotFoundError as error:
    raise ConfigError(
        f"Arrow batches need pyarrow ({error}): {install_command('arrow')}"
    ) from error

from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.batches import BatchBuilder, BatchSizes
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row_change import Change
from replica_client.schema.shape import TableShape

RecordBatch: TypeAlias = pa.RecordBatch

_MAX_BUILDERS = 4096


class BatchAssembler:
    """One batch builder per table and shape, to which row changes are distributed.

    Args:
        max_rows: maximum rows of a batch.
        options: how values were decoded.
        make_builder: creates the builder of a table at its first rows; the result of its ``finish``
            is the batch.
        sizes: of batches, shared with other assemblers; see
            :class:`~replica_client.rows.batches.BatchBuilder`.
        turn: likewise.

    Attributes:
        ready: batches that are full but not yet taken.
        generation: changes when builders returned by :meth:`builder` are dropped.
    """

    def __init__(
        self,
        max_rows: int,
        options: DecodeOptions,
        make_builder: Callable[..., BatchBuilder] = BatchBuilder,
        sizes: BatchSizes | None = None,
        turn: Turn | None = None,
    ) -> None:
        check_argument("max_rows", max_rows)
        if max_rows < 2:
            raise ConfigError("max_rows must be at least 2: an update has two rows")
        self._max_rows = max_rows
        self._options = options
        self._make_builder = make_builder
        if sizes is not None:
            self._make_builder = partial(make_builder, sizes=sizes, turn=turn)
        self._makes_at_once = make_builder is BatchBuilder
        self._builders: dict[int, BatchBuilder] = {}
        self._current: dict[tuple[str, str], BatchBuilder] = {}
        self.ready: list[RecordBatch] = []
        self.generation = 0

    @property
    def waiting(self) -> int:
        """Rows in the builders."""
        return sum(map(len, self._builders.values()))

    @property
    def tables(self) -> int:
        """Number of builders that have rows."""
        return sum(1 for builder in self._builders.values() if len(builder))

    def add(
        self,
        rows_of_events: Iterable[RowsOfEvent],
        commit_version: str,
        commit_timestamp_us: int,
    ) -> Iterator[RecordBatch]:
        """Add a transaction's changes; yield the batches that became full.

        Args:
            rows_of_events: its rows.
            commit_version: sorts in the order of transactions.
            commit_timestamp_us: of its commit.
        """
        for rows in rows_of_events:
            builder = self.builder(rows.shape, rows.decoder)
            yield from self.take_ready()
            yield from builder.append_rows(rows, commit_version, commit_timestamp_us)

    def add_change(
        self, rows: RowsOfEvent, change: Change, commit_version: str, commit_timestamp_us: int
    ) -> Iterator[RecordBatch]:
        """Add one change of a transaction; yield full batches. Arguments as of :meth:`add`."""
        builder = self.builder(rows.shape, rows.decoder)
        yield from self.take_ready()
        if not builder.try_append(change, commit_version, commit_timestamp_us):
            yield builder.finish()
            builder.append(change, commit_version, commit_timestamp_us)

    def take_ready(self) -> list[RecordBatch]:
        """Return the batches of :attr:`ready` and clear it."""
        ready = self.ready[:]
        self.ready.clear()
        return ready

    def builder(self, shape: TableShape, decoder: RowImageDecoder) -> BatchBuilder:
        """Return the builder of a decoder's rows, created once.

        If the table had another builder before, the rows of that one go into a batch of
        :attr:`ready`, so that the rows of a table stay in order.
        """
        builder = self.made_builder(shape, decoder)
        if builder is None:
            builder = self._make(shape, decoder)
        name = (shape.database, shape.table)
        current = self._current.get(name)
        if current is not builder:
            if current is not None and len(current):
                self.ready.append(current.finish())
            self._current[name] = builder
        return builder

    def made_builder(self, shape: TableShape, decoder: RowImageDecoder) -> BatchBuilder | None:
        """Return a decoder's builder before rows come for it, without making other rows ready.

        Return None if there is no builder, and only :meth:`builder` may create one.
        """
        builder = self._builders.get(id(decoder))
        if builder is None and self._makes_at_once:
            builder = self._make(shape, decoder)
        return builder

    def _make(self, shape: TableShape, decoder: RowImageDecoder) -> BatchBuilder:
        builder = self._make_builder(shape, None, self._options, decoder, self._max_rows)
        # The builder keeps the decoder alive, so that no other object gets its id.
        self._builders[id(decoder)] = builder
        return builder

    def flush(self) -> Iterator[RecordBatch]:
        """Yield the remaining rows of every builder as batches.

        Empty builders of altered tables are dropped, or all empty ones if there are many builders.
        """
        many = len(self._builders) > _MAX_BUILDERS
        outdated = [
            key
            for key, found in self._builders.items()
            if not len(found) and (many or self._is_outdated(found))
        ]
        for key in outdated:
            del self._builders[key]
        self.generation += bool(outdated)
        if many:
            self._current = {}
        yield from self.take_ready()
        for builder in self._builders.values():
            if len(builder):
                yield builder.finish()

    def _is_outdated(self, builder: BatchBuilder) -> bool:
        """Return whether the builder's table has another builder by now."""
        shape = builder.shape
        return self._current.get((shape.database, shape.table), builder) is not builder
