"""Tables of a live source for tools that keep copies of tables: a first copy, then changes, with a state to resume.

A run makes the missing copies and yields the changes since the run before, up to the end of the
binlog. Its state is a JSON object that the tool saves together with the rows: a run that is not
saved is repeated.

A table that a statement changed as a whole (ALTER, TRUNCATE, RENAME) is copied again in the next
run: the binlog does not show the effect of an ALTER on existing rows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from decimal import Decimal
from typing import Any

from replica_client.errors import ConfigError, DataLossError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.json_values import plain_text
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaChange
from replica_client.schema.model import TableModel
from replica_client.stream.live.connect import connect
from replica_client.stream.live.follow import FollowedSource
from replica_client.stream.position.stores.base import (
    MemoryPositionStore,
    checkpoint_json,
    checkpoint_of_json,
)
from replica_client.stream.snapshot import (
    DEFAULT_CHUNK_ROWS,
    Locking,
    begin_between,
    key_ranges,
    low_watermark,
    reading,
)
from replica_client.stream.snapshot.watermarks import cascaded_tables, read_definitions
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.loss_watch import changes_of
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.connect_options import parse_hosts
from replica_client.stream.transport.connection import SourceConnection

TableName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Rows of a copy, which replaces the target's rows of the table; the first part of a table may be empty."""

    table: TableModel
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row as it is now, or the one that is gone."""

    table: TableModel
    values: dict[str, Any]
    deleted: bool


class TableSync:
    """Runs of a synchronisation.

    Args:
        url: of the source.
        tables: patterns of the wanted tables; None takes all but the server's own.
        exclude: patterns of unwanted ones.
        state: of the run before; empty for the first one. It is changed when :meth:`run` has given everything.
        locking: see :data:`~replica_client.stream.snapshot.Locking`.
        chunk_rows: rows that are copied at once.
    """

    def __init__(
        self,
        url: str,
        tables: Sequence[str] | str | None,
        exclude: Sequence[str] | str | None,
        state: dict[str, Any],
        *,
        locking: Locking = "never",
        chunk_rows: int = DEFAULT_CHUNK_ROWS,
    ) -> None:
        self._url = url
        self._selection = Selection(tables, exclude)
        self._state = state
        self._locking = locking
        self._chunk_rows = chunk_rows
        self._models: dict[TableName, TableModel] = {}

    def run(self) -> Iterator[CopiedRows | ChangedRow]:
        """Give the copies that are missing, then the changes.

        Raises:
            ConfigError: a table that cannot be kept equal; says why.
            DataLossError: a change that cannot be delivered as rows.
            ReplicaClientError: the source cannot be read.
        """
        copied = {tuple(name) for name in self._state.get("copied", ())}
        again = {tuple(name) for name in self._state.get("again", ())}
        with asyncio.Runner() as runner:
            connection = runner.run(SourceConnection.open(parse_hosts(self._url)[0]))
            try:
                self._models = runner.run(self._wanted(connection))
                missing = [n for n in self._models if n not in copied or n in again]
                stop = runner.run(self._mark(connection)) if missing else None
                unstable = set()
                for name in missing:
                    model = self._models[name]
                    yield CopiedRows(model, [])
                    copy = self._copy(connection, model)
                    try:
                        while (rows := runner.run(anext(copy, None))) is not None:
                            yield CopiedRows(model, rows)
                    finally:
                        runner.run(copy.aclose())
                    now = runner.run(read_definitions(connection, name)).get(name)
                    if now != model:
                        unstable.add(name)
            finally:
                runner.run(connection.close())
        followed = (copied & set(self._models)) - again
        changed: set[TableName] = set()
        if "checkpoint" in self._state:
            checkpoint = yield from self._changes(
                self._state["checkpoint"], followed, changed, stop
            )
        else:
            assert stop is not None
            checkpoint = checkpoint_json(stop, {})
        self._state["checkpoint"] = checkpoint
        self._state["copied"] = sorted(map(list, followed | set(missing)))
        self._state["again"] = sorted(map(list, changed | unstable))

    async def _wanted(self, connection: SourceConnection) -> dict[TableName, TableModel]:
        """Return the definitions of the selected tables.

        Raises:
            ConfigError: no table is selected, or one cannot be kept equal.
        """
        selection = self._selection.for_server(connection.server.casefolds_names)
        found = await read_definitions(connection)
        wanted = {name: model for name, model in found.items() if selection.wants(*name)}
        if not wanted:
            raise ConfigError("the source has no selected table; check the patterns of tables")
        for name, model in wanted.items():
            if model.untracked:
                raise ConfigError(f"{'.'.join(name)}: {model.untracked}")
            if not model.primary_key:
                raise ConfigError(
                    f"{'.'.join(name)} has no primary key, so that no change finds its row; give it one, or"
                    " exclude it"
                )
        for name in await cascaded_tables(connection, wanted):
            raise ConfigError(
                f"{'.'.join(name)}: foreign keys change its rows without a word in the binlog (CASCADE, SET NULL);"
                " exclude it, or do the cascade with statements"
            )
        return wanted

    async def _mark(self, connection: SourceConnection) -> Position:
        """Return a position before which everything is visible now."""
        if self._locking == "brief" and not connection.server.is_mariadb:
            window = await begin_between(connection, self._locking)
            await connection.query("ROLLBACK")
            return window.low
        return await low_watermark(connection)

    async def _copy(
        self, connection: SourceConnection, model: TableModel
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        async for part in key_ranges(connection, model, self._chunk_rows):
            async with reading(connection, model, part, locking=self._locking) as chunk:
                async for rows in chunk.rows():
                    yield [_values(row, model, "a copy") for row in rows]

    def _changes(
        self,
        checkpoint: dict[str, Any],
        followed: set[TableName],
        changed: set[TableName],
        stop: Position | None,
    ) -> Generator[ChangedRow, None, dict[str, Any]]:
        """Yield the changes after a checkpoint, and return the next checkpoint.

        Tables that a statement changed are added to ``changed``, to be copied again.
        """
        saved = checkpoint_of_json(json.loads(json.dumps(checkpoint)))
        store = MemoryPositionStore()
        store.save(saved.position, saved.state)
        assembly = AssemblyOptions(self._selection, full_rows=True)
        stream = FollowedSource(
            connect(
                self._url, stop_at_end=True, assembly=assembly, position_store=store, attempts=20
            )
        )
        with stream:
            reached: Transaction | None = None
            for transaction in stream.transactions():
                if stop is not None and transaction.start >= stop:
                    break
                for item in changes_of(transaction, notices=True):
                    if isinstance(item, Change):
                        name = (item.database, item.table)
                        if name in followed and name not in changed:
                            yield from _rows_of(item, self._models[name])
                    elif isinstance(item, SchemaChange):
                        changed |= _touched(item) & followed
                reached = transaction
            if stop is None:
                stream.acknowledge(stream.position)
            elif reached is not None:
                stream.acknowledge(reached.position)
            stream.flush()
        found = store.load_checkpoint()
        assert found is not None
        return checkpoint_json(found.position, found.state)


def _touched(change: SchemaChange) -> set[TableName]:
    """Return the tables that a statement changed."""
    return {(change.database, change.table), change.name_after}


def _rows_of(change: Change, model: TableModel) -> Iterator[ChangedRow]:
    """Yield the effects of a change on a table with a primary key."""
    where = f"file {change.file}, position {change.offset}"
    key = [name for name, _ in model.primary_key]
    before = None if change.before is None else _values(change.before, model, where)
    after = None if change.after is None else _values(change.after, model, where)
    if before is not None and (after is None or any(before[k] != after[k] for k in key)):
        yield ChangedRow(model, {name: before[name] for name in key}, True)
    if after is not None:
        yield ChangedRow(model, after, False)


def _values(row: Row, model: TableModel, where: str) -> dict[str, Any]:
    try:
        return {
            column.name: python_value(row[column.name])
            for column in model.columns
            if not column.hidden and column.name in row.columns
        }
    except ValueError as error:
        raise DataLossError(
            f"{model.database}.{model.name}, {where}: {error}; mend the row in the source, or exclude the table"
        ) from None


def python_value(value: Any) -> Any:
    """Return a column's value as Python's own types.

    TIME is MySQL's text, a JSON document its text, GEOMETRY its WKB, ENUM and SET their text.

    Raises:
        ValueError: a zero or partial date, which no date type has.
    """
    if value is None or isinstance(value, (int, float, bytes)):
        return value
    if isinstance(value, JsonDocument):
        return value.text
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Time):
        return plain_text(value.to_python())
    if isinstance(value, (Date, DateTime, Timestamp)):
        return value.to_python()
    if hasattr(value, "wkb"):
        return value.wkb
    if isinstance(value, (list, tuple)):
        return list(value)
    return value if isinstance(value, Decimal) else str(value)
