"""Conversion of transactions to steps of a mirror: rows by table, and schema changes, in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from replica_client.errors import PoisonChangeError, SinkError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.special_values import ABSENT
from replica_client.schema.ddl.statements import makes_cascade
from replica_client.schema.history import SchemaChange
from replica_client.schema.model import TEXT_KINDS, ColumnModel, TableModel
from replica_client.schema.shape import is_hash
from replica_client.sinks.column_models import column_model, table_model
from replica_client.sinks.formats.message import delivered_columns, numbered_rows
from replica_client.sinks.mirror.stored_names import check_same_columns, is_followed
from replica_client.stream.position.losses import Loss
from replica_client.stream.position.stores.ownership import ForeignOwnerError
from replica_client.stream.tables.net_changes import (
    CopyNeededError,
    DivergedError,
    NetChanges,
    Standing,
    TableCopy,
    TableName,
    TableRefusedError,
    Values,
    same_names,
)
from replica_client.stream.transactions.transaction import Transaction

ValueEncoder = Callable[[Any], Any]
"""Converts a value, neither None nor absent, to the form that the mirror stores."""
# Events of MySQL have another type, unless log_bin_use_v1_row_events is set.
_MARIADB_UPDATES: Final = frozenset(
    (EventType.UPDATE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1)
)

_DEFINES: Final = ("create_table", "alter_table")
UNLOGGED_CASCADE: Final = (
    "foreign keys change its rows without a word in the binlog (CASCADE, SET NULL), so "
    "that a mirror of it would not stay equal; exclude it, or do the cascade with statements"
)
_MAX_CHANGES = 50_000
_MAX_SIZE = 32 << 20


@dataclass(frozen=True, slots=True)
class NewTable:
    """The step that creates a table which the mirror lacks."""

    model: TableModel


@dataclass(frozen=True, slots=True)
class ApplyRows:
    """The step that applies net changes."""

    changes: NetChanges


@dataclass(frozen=True, slots=True)
class ApplySchema:
    """The step that applies a schema change, after all rows before it.

    Attributes:
        change: the schema change.
        timestamp: its time in seconds since 1970.
        number: its number among the changes of its statement, from 0.
    """

    change: SchemaChange
    timestamp: int
    number: int


Step = NewTable | ApplyRows | ApplySchema


class Collector:
    """Collects net changes by table.

    Do each step before you request the next one: the collector reads the result from :attr:`tables`.

    Args:
        tables: the mirror's tables, updated by the code that does the steps.
        encoder_of: returns the encoder of a column's values; None: they are stored as they are.
        strict: see :class:`NetChanges`.
        create: whether a table without CREATE TABLE or snapshot is empty; else its rows are an error.
        copies: initial copies that the stream has not passed; the code that does the steps updates them.
    """

    def __init__(
        self,
        tables: dict[TableName, TableModel],
        encoder_of: Callable[[ColumnModel], ValueEncoder | None],
        *,
        strict: bool,
        create: bool,
        copies: Mapping[TableName, TableCopy],
    ) -> None:
        self.tables = tables
        self._encoder_of = encoder_of
        self._strict = strict
        self._create = create
        self._copies = copies
        self._pending: dict[TableName, NetChanges] = {}
        self._encoders: dict[
            int, tuple[RowImageDecoder, TableModel, list[ValueEncoder | None]]
        ] = {}
        self._count = self._size = 0

    def take(self, transaction: Transaction) -> Iterator[Step]:
        """Yield the steps that a transaction, or a part of it, requires now.

        Raises:
            SinkError: a change cannot be mirrored.
            BinlogDecodeError: a row cannot be decoded.
        """
        numbers: dict[int, int] = {}
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                with _of_table((item.shape.database, item.shape.table)):
                    yield from self._rows(item, transaction.start)
            elif isinstance(item, SchemaChange):
                yield from self.flush()
                self._encoders.clear()
                for change in self._not_copied(item):
                    with _of_table(change.name_after):
                        check_tracked(change.after)
                        self._check_cascade(change)
                    number = numbers.get(item.event_index, 0)
                    numbers[item.event_index] = number + 1
                    known = self.tables.get((change.database, change.table))
                    if change.merged and is_followed(known, change):
                        continue
                    yield ApplySchema(change, transaction.timestamp, number)
            else:
                position = Position(item.file, item.position)
                self._lost(item, transaction.start if transaction.xa_commit else position)

    def _check_cascade(self, change: SchemaChange) -> None:
        """Check that a foreign key does not change mirrored rows without row events."""
        if not self._strict or change.context is None or change.kind not in _DEFINES:
            return
        if change.context.logs_cascades:
            return
        if makes_cascade(change.statement, change.context):
            where = f"{change.file} position {change.position}: {change.database}.{change.table}"
            raise SinkError(f"{where}: {UNLOGGED_CASCADE}")

    def flush(self) -> Iterator[Step]:
        """Yield all collected changes."""
        pending, self._pending = self._pending, {}
        self._count = self._size = 0
        for changes in pending.values():
            yield ApplyRows(changes)

    def clear(self) -> None:
        """Forget all collected changes."""
        self._pending = {}
        self._encoders = {}
        self._count = self._size = 0

    def _rows(self, rows: RowsOfEvent, start: Position) -> Iterator[Step]:
        name = (rows.shape.database, rows.shape.table)
        _check_images(rows)
        standing = Standing.BEHIND
        if name in self._copies:
            # Not by the rows' own position: rows of an XA transaction stand before its commit.
            standing = self._copies[name].rows_at(start.file, start.offset)
        if standing is Standing.BEFORE:
            return
        inside = standing is Standing.INSIDE
        # The mirror keeps deleted rows, which may be inserted again.
        again = rows.shape.keeps_deleted and bool(rows.shape.primary_key)
        strict = self._strict and not inside and not again
        known = self._encoders.get(id(rows.decoder))
        if known is None or known[1] is not self.tables.get(name):
            self._check(rows)
            if name not in self.tables:
                if not self._create:
                    raise unknown_table(*name)
                yield NewTable(table_model(rows.shape, delivered_columns(rows)))
            encoders = [self._encoder_of(column_model(one)) for one in delivered_columns(rows)]
            # Keep a reference to the decoder, so that its id is not reused.
            known = self._encoders[id(rows.decoder)] = (rows.decoder, self.tables[name], encoders)
        model, encoders = known[1], known[2]
        if inside and not model.primary_key:
            raise changed_while_copied(*name)
        if name in self._pending and self._pending[name].strict != strict:
            yield from self._flush_table(name)
        changes = self._changes(name, model, strict)
        for row_index, old, new in numbered_rows(rows):
            try:
                before = None if old is None else _encoded(old, encoders)
                after = None if new is None else _encoded(new, encoders)
            except SinkError as error:
                event = rows.event
                raise PoisonChangeError(
                    f"{event.file} position {event.position}: {'.'.join(name)}: {error}",
                    event_index=rows.event_index,
                    row_index=row_index,
                    file=event.file,
                    position=event.position,
                    table_name=name,
                ) from error
            if changes.needs_flush(before, after):
                yield from self._flush_table(name)
                changes = self._changes(name, model, strict)
            if before is None:
                assert after is not None
                changes.insert(after)
            elif after is None:
                changes.delete(before)
            elif changes.update(before, after):
                if inside:
                    # The key changed and the image is partial: the copy may hold the old row, too.
                    raise changed_while_copied(*name)
                yield from self._flush_table(name)
                changes = self._changes(name, model, strict)
            self._count += 1
        self._size += rows.event_size
        if self._count >= _MAX_CHANGES or self._size >= _MAX_SIZE:
            yield from self.flush()

    def _not_copied(self, change: SchemaChange) -> Iterator[SchemaChange]:
        """Yield the parts of a schema change that the tables' copies do not contain.

        Raises:
            CopyNeededError: a table was changed while it was copied.
        """
        if not self._copies:
            yield change
            return
        name, new = (change.database, change.table), None
        if change.after is not None or change.new_name is not None:
            new = change.name_after
        if not change.table:
            names = {one for one in (*self.tables, *self._copies) if one[0] == change.database}
        else:
            names = {name} if new is None else {name, new}
        standings = {
            one: self._copies[one].statement_at(change.file, change.position)
            for one in names
            if one in self._copies
        }
        if Standing.INSIDE in standings.values():
            raise changed_while_copied(*name, names)
        before = {one for one, standing in standings.items() if standing is Standing.BEFORE}
        if not before:
            yield change
        elif not change.table:
            if change.kind == "drop_database":
                for one in sorted(names - before):
                    yield replace(change, kind="drop_table", table=one[1])
        elif new is not None and new != name and new not in before:
            # Its rows come from a table whose copy already contains later changes.
            raise changed_while_copied(*new)
        elif new != name and name not in before:
            # The copy of the renamed table is complete already.
            yield replace(change, kind="drop_table", after=None, new_name=None)

    def _lost(self, loss: Loss, position: Position) -> None:
        """Request copies of the tables that lack lost changes.

        A table whose copy contains the changes needs none.

        Raises:
            CopyNeededError: tables lack the lost changes.
        """
        if loss.kind == "incomplete_row":
            return  # it is delivered
        names = {(loss.database, loss.table)} if loss.table else {*self.tables, *self._copies}
        lacking = {
            name
            for name in names
            if name not in self._copies
            or self._copies[name].statement_at(position.file, position.offset)
            is not Standing.BEFORE
        }
        if lacking:
            raise CopyNeededError(
                f"{loss.file} position {loss.position}: changes were lost ({loss.kind}) that "
                f"{len(lacking)} tables of the mirror lack: a copy of them is needed (snapshot = true)",
                lacking,
            )

    def _changes(self, name: TableName, model: TableModel, strict: bool) -> NetChanges:
        changes = self._pending.get(name)
        if changes is None:
            changes = self._pending[name] = NetChanges(model, strict=strict)
        return changes

    def _flush_table(self, name: TableName) -> Iterator[Step]:
        changes = self._pending.pop(name, None)
        if changes is not None:
            yield ApplyRows(changes)

    def _check(self, rows: RowsOfEvent) -> None:
        shape = rows.shape
        text = f"{shape.database}.{shape.table}"
        if not shape.names_resolved:
            raise SinkError(
                f"{text}: its column names are not known; set binlog_row_metadata=FULL on the source, or "
                "begin where the schema history knows the table"
            )
        columns = delivered_columns(rows)
        if len(columns) != sum(not is_hash(column) for column in shape.columns):
            raise SinkError(f"{text}: a mirror needs all columns; remove the option columns")
        model = self.tables.get((shape.database, shape.table))
        check_tracked(table_model(shape, columns) if model is None else model)
        names = tuple(column.name for column in columns)
        if model is not None and shape.merged:
            check_same_columns(model, columns)
        if model is not None and not same_names(model, names):
            raise SinkError(
                f"{text}: the source's columns are {', '.join(names)}, the mirror's "
                f"{', '.join(model.column_names)}: drop the table from the mirror and start over"
            )
        for column, known in zip(columns, model.columns if model else (), strict=False):
            if known.kind in TEXT_KINDS and known.labels is None and column.collation_id is None:
                raise SinkError(
                    f"{text}: the character set of {column.name} is not known; begin where the schema "
                    "history knows it, or set binlog_row_metadata on the source"
                )


def check_tracked(model: TableModel | None) -> None:
    """Check that row events show all changes of a table's rows.

    Raises:
        SinkError: they do not; the message says why.
    """
    if model is not None and model.untracked:
        raise SinkError(f"{model.database}.{model.name}: {model.untracked}")


@contextmanager
def of_tables(
    names: Collection[TableName], concerns_all: Callable[[BaseException | None], bool]
) -> Iterator[None]:
    """Add the tables to an error raised in the block, unless it may pass or concerns all tables.

    Args:
        names: tables that the block is about; empty for all tables.
        concerns_all: returns whether an error of the database, such as a missing right, would hit
            every table.
    """
    try:
        yield
    except DivergedError as error:
        if error.table_name is None:
            error.table_name = next(iter(names), None)
        raise
    except (CopyNeededError, TableRefusedError, PoisonChangeError, ForeignOwnerError):
        raise
    except SinkError as error:
        if error.retriable or not names or concerns_all(error.__cause__):
            raise
        text = ", ".join(sorted(".".join(name) for name in names))
        raise TableRefusedError(f"{text}: {error}", names) from error


@contextmanager
def _of_table(name: TableName) -> Iterator[None]:
    """Add the table to an error raised in the block, so that other tables can go on."""
    try:
        yield
    except DivergedError as error:
        error.table_name = error.table_name or name
        raise
    except (CopyNeededError, TableRefusedError, PoisonChangeError):
        raise
    except SinkError as error:
        if error.retriable or not name[1]:
            raise
        raise TableRefusedError(str(error), {name}) from error


def _check_images(rows: RowsOfEvent) -> None:
    """Check that MariaDB's update images show the new value of every column.

    If binlog_row_image is not FULL, MariaDB logs a REPLACE as an UPDATE without the columns that
    got their defaults, which looks the same as an UPDATE that did not change them. MariaDB 11.8.9
    leaves generated columns out of every UPDATE, changed or not.
    """
    if rows.type_code not in _MARIADB_UPDATES:
        return
    before, after = rows.column_bitmaps
    if after is None:
        return
    stated = int.from_bytes(before, "little") | int.from_bytes(after, "little")
    columns = rows.shape.columns
    every = (1 << len(columns)) - 1
    if stated & every == every:
        return
    lacking = [
        column for at, column in enumerate(columns) if not stated >> at & 1 and not is_hash(column)
    ]
    if not lacking:
        return
    where = f"{rows.event.file} position {rows.event.position}"
    table = f"{rows.shape.database}.{rows.shape.table}"
    names = ", ".join(column.name for column in lacking)
    what = f"{where}: an update of {table} leaves out {names}"
    if all(column.computed for column in lacking):
        raise SinkError(
            f"{what}: the source computes it, and MariaDB 11.8.9 and newer no longer log it: leave it out of the "
            "mirror (drop in the transforms of the sink), and begin with a new copy of the table"
        )
    raise SinkError(
        f"{what}, and on MariaDB these may have got their defaults (REPLACE), or are generated columns, which "
        "11.8.9 leaves out: set binlog_row_image=FULL on the source, in sessions too, leave generated columns out "
        "of the mirror (drop in the transforms of the sink), and begin with a new copy of the table"
    )


def unknown_table(database: str, table: str) -> CopyNeededError:
    """Return the error for a table whose earlier rows are unknown."""
    return CopyNeededError(
        f"{database}.{table}: the mirror knows nothing of the rows that this table had before; begin "
        "with a snapshot (snapshot = true), or before its CREATE TABLE, or take it for empty with "
        "unknown_tables = 'create'",
        {(database, table)},
    )


def gone_table(where: str, error: Exception, step: Step) -> CopyNeededError | None:
    """Return the error for tables that the mirror's server lost; None if the step has none."""
    names = tables_of(step)
    if not names:
        return None
    return CopyNeededError(
        f"mirror {where}: {error}; the mirror needs a new copy of it (snapshot = true)", names
    )


def refused_change(where: str, error: Exception, step: ApplySchema) -> CopyNeededError | None:
    """Return the error for tables of a refused schema change; None if the change has none."""
    names = tables_of(step)
    if not names:
        return None
    text = ", ".join(sorted(".".join(name) for name in names))
    statement = " ".join(step.change.statement.split())[:200]
    return CopyNeededError(
        f"{text}: mirror on {where} refused {statement!r}: {error}; the table needs a new copy (snapshot = true)",
        names,
    )


def tables_of(step: Step) -> set[TableName]:
    """Return the tables that a step touches."""
    if isinstance(step, ApplyRows):
        return {(step.changes.model.database, step.changes.model.name)}
    if isinstance(step, NewTable) or not step.change.table:
        return set()
    return {(step.change.database, step.change.table), step.change.name_after}


def changed_while_copied(
    database: str, table: str, tables: Iterable[TableName] = ()
) -> CopyNeededError:
    """Return the error for a change that the table's copy may contain or not."""
    return CopyNeededError(
        f"{database}.{table}: it was changed while it was copied, in a way that needs another copy",
        {(database, table), *tables},
    )


def _encoded(row: tuple[Any, ...], encoders: list[ValueEncoder | None]) -> tuple[Any, ...]:
    return tuple(
        [
            value if encode is None or value is None or value is ABSENT else encode(value)
            for value, encode in zip(row, encoders, strict=True)
        ]
    )


def copied_values(
    model: TableModel,
    rows: Iterable[Sequence[Any]],
    encoder_of: Callable[[ColumnModel], ValueEncoder | None],
) -> Iterator[Values]:
    """Yield rows of an initial copy in the form that the mirror stores."""
    encoders = [encoder_of(column) for column in model.columns]
    return (_encoded(tuple(row), encoders) for row in rows)
