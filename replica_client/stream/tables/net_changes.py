"""Net changes of a table's rows, and the copy of a table that existed before the stream's changes of it.

Changes before a copy are in it already and are skipped. Changes inside its window may be in it or
not: rows are inserted and deleted whether they exist or not, and later changes in the stream
correct them. After the window a row that should exist and does not is an error, as usual.

A table with a primary key has at most one row to remove and one to add per key. One without has a
number for each different row: how many more or fewer of it there must be. Either way the order of
changes needs no keeping: everything is committed at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import copysign
from typing import Any, Final, Generic, Self, TypeVar

from replica_client.errors import PositionFormatError, SchemaError, SinkError
from replica_client.protocol.position import Position
from replica_client.rows.special_values import ABSENT, WHY_ABSENT
from replica_client.schema.history import LogPosition
from replica_client.schema.kinds import REALS
from replica_client.schema.model import TableModel

TableName = tuple[str, str]


class CopyNeededError(SinkError):
    """The rows of tables are not known to a sink; a copy of them would help.

    Attributes:
        tables: which ones.
    """

    def __init__(self, message: str, tables: Collection[TableName]) -> None:
        super().__init__(message)
        self.tables = frozenset(tables)


class TableRefusedError(SinkError):
    """Raised when an operation on tables can never succeed, whatever happens to other tables.

    Attributes:
        tables: the tables.
    """

    def __init__(self, message: str, tables: Collection[TableName]) -> None:
        super().__init__(message)
        self.tables = frozenset(tables)


class Standing(Enum):
    """The relation of a stream position to the window of a copy."""

    BEFORE = "before"
    INSIDE = "inside"
    BEHIND = "behind"


@dataclass(frozen=True)
class TableCopy:
    """The copy of a table.

    Attributes:
        database: of the table.
        table: its name.
        source: the server that the positions are of.
        begin: the copy holds all changes before it; None: it has not begun.
        definition: the table; None where the source has none of that name.
        low: rows before it are in the copy.
        high: rows after it are not.
        until: before it the table had this definition since ``begin``; None: the copy is not done.
        done: the range that was copied last, as JSON.
        rows: how many were copied.
    """

    database: str
    table: str
    source: str = ""
    begin: Position | None = None
    definition: TableModel | None = None
    low: Position | None = None
    high: Position | None = None
    until: Position | None = None
    done: list[Any] | None = None
    rows: int = 0

    @property
    def name(self) -> TableName:
        """Database and name."""
        return self.database, self.table

    def rows_at(self, file: str, position: int) -> Standing:
        """Return the relation of a transaction's rows to the copy, by the position where it begins."""
        if self.until is None:
            return Standing.BEFORE  # it will be copied
        log_position = LogPosition.of(file, position)
        if log_position < self._positions[1]:
            return Standing.BEFORE
        return Standing.INSIDE if log_position < self._positions[2] else Standing.BEHIND

    def statement_at(self, file: str, position: int) -> Standing:
        """Return the relation of a statement that changes the table to the copy."""
        if self.until is None:
            return Standing.BEFORE
        log_position = LogPosition.of(file, position)
        if log_position < self._positions[0]:
            return Standing.BEFORE
        return Standing.INSIDE if log_position < self._positions[3] else Standing.BEHIND

    def is_passed(self, position: Position) -> bool:
        """Return whether everything from a position on lies after the window."""
        if self.until is None or not position.file:
            return False
        return LogPosition.of(position.file, position.offset) >= self._positions[3]

    @cached_property
    def _positions(self) -> tuple[LogPosition, LogPosition, LogPosition, LogPosition]:
        begin, low, high, until = (
            LogPosition.of(one.file, one.offset)
            for one in (self.begin, self.low, self.high, self.until)
            if one is not None
        )
        return begin, low, high, until

    def to_json(self) -> dict[str, Any]:
        """Return the copy as JSON; the table's name is left to the caller."""
        return {
            "source": self.source,
            **{name: _text(getattr(self, name)) for name in ("begin", "low", "high", "until")},
            "definition": None if self.definition is None else self.definition.to_json(),
            "done": self.done,
            "rows": self.rows,
        }

    @classmethod
    def from_json(cls, database: str, table: str, value: Mapping[str, Any]) -> Self:
        """Return the copy that :meth:`to_json` encoded.

        Raises:
            SinkError: the value encodes no copy.
        """
        try:
            model = value["definition"]
            return cls(
                database,
                table,
                str(value["source"]),
                _position(value["begin"]),
                None if model is None else TableModel.from_json(database, table, model),
                _position(value["low"]),
                _position(value["high"]),
                _position(value["until"]),
                value["done"],
                int(value["rows"]),
            )
        except (KeyError, TypeError, ValueError, SchemaError, PositionFormatError) as error:
            raise SinkError(
                f"the note about the copy of {database}.{table} is not of this release: {error}"
            ) from error


def _text(position: Position | None) -> str | None:
    return None if position is None else f"{position.file}:{position.offset}"


def _position(text: str | None) -> Position | None:
    return None if text is None else Position.parse(text)


Values = tuple[Any, ...]
"""A row, or a key, as the mirror stores it."""

_NEGATIVE_ZERO: Final = object()

Key = TypeVar("Key")
Row = TypeVar("Row")


class DivergedError(SinkError):
    """Raised when a table of the mirror differs from the source's table before a change.

    Attributes:
        table_name: database and table; None where they are not known.
    """

    def __init__(self, table: str, what: str, table_name: tuple[str, str] | None = None) -> None:
        self.table_name = table_name
        super().__init__(
            f"{table}: {what}: the mirror is not what the source's table was (it was changed by others, "
            "did not begin with the source's rows, or foreign keys cascaded, which the binlog does not record); "
            "copy the table again (replica-client snapshot CONFIG --sink SINK --table TABLE), or set missing_rows = "
            "'ignore'"
        )


class NetByKey(Generic[Key, Row]):
    """Net changes of a table with a primary key.

    Args:
        name: of the table, for messages.
        strict: a row that is added twice, or removed twice, is an error; otherwise rows may be there
            before or not, whatever was done to them.

    Attributes:
        removed: keys of existing rows to remove.
        added: rows to add afterwards, by key.
    """

    def __init__(self, name: str, *, strict: bool) -> None:
        self._name, self._strict = name, strict
        self.removed: dict[Key, None] = {}
        self.added: dict[Key, Row] = {}

    def insert(self, key: Key, row: Row) -> None:
        """Add a row.

        Raises:
            DivergedError: strict, and the row was added before.
        """
        if self._strict and key in self.added:
            raise DivergedError(self._name, "a row is added that is there")
        self.added[key] = row

    def delete(self, key: Key) -> None:
        """Remove a row.

        Raises:
            DivergedError: strict, and the row was removed before.
        """
        if not self._strict:
            # It may have been there before it was added.
            self.added.pop(key, None)
            self.removed[key] = None
        elif key in self.added:
            del self.added[key]
        elif key in self.removed:
            raise DivergedError(self._name, "a row is removed that is not there")
        else:
            self.removed[key] = None

    def touched(self) -> list[Key]:
        """Return the keys of all rows that are removed or added."""
        return list({**self.removed, **dict.fromkeys(self.added)})


class NetCounts(dict[Row, int]):
    """Net changes of a table without key: by how many each different row becomes more; fewer: below 0."""

    def insert(self, row: Row) -> None:
        """Add a row."""
        self[row] = self.get(row, 0) + 1

    def delete(self, row: Row) -> None:
        """Remove a row."""
        self[row] = self.get(row, 0) - 1

    def fewer(self) -> Iterator[tuple[Row, int]]:
        """Return the rows that become fewer, and by how many."""
        return ((row, -count) for row, count in self.items() if count < 0)

    def more(self) -> Iterator[Row]:
        """Yield the rows to add, each as often as it becomes more."""
        for row, count in self.items():
            for _ in range(count):
                yield row


class SignedCounts(NetCounts[Values]):
    """Net changes of a table without key in which ``-0.0`` differs from ``0.0``, unlike in Python.

    Args:
        reals: indexes of the columns of floating-point numbers.
    """

    def __init__(self, reals: Sequence[int]) -> None:
        super().__init__()
        self._reals = reals

    def insert(self, row: Values) -> None:
        """Count a row that was added."""
        super().insert(self._marked(row))

    def delete(self, row: Values) -> None:
        """Count a row that was removed."""
        super().delete(self._marked(row))

    def fewer(self) -> Iterator[tuple[Values, int]]:
        """Yield the rows to remove, each with how often."""
        return ((_unmarked(row), count) for row, count in super().fewer())

    def more(self) -> Iterator[Values]:
        """Yield the rows to add."""
        return map(_unmarked, super().more())

    def _marked(self, row: Values) -> Values:
        marked = [at for at in self._reals if row[at] == 0 and copysign(1, row[at]) < 0]
        if not marked:
            return row
        return tuple(_NEGATIVE_ZERO if at in marked else value for at, value in enumerate(row))


def _unmarked(row: Values) -> Values:
    if not any(value is _NEGATIVE_ZERO for value in row):
        return row
    return tuple(-0.0 if value is _NEGATIVE_ZERO else value for value in row)


class NetChanges:
    """The changes of one table that are not applied yet.

    Args:
        model: the table as the mirror has it.
        strict: see :class:`NetByKey`.

    Attributes:
        model: as given.
        strict: as given.
        by_key: of a table with a primary key.
        counts: of a table without.
        patches: updates that tell only some columns: key, column indexes, values; in order, after
            the others.
        size: how many changes were taken.
    """

    def __init__(self, model: TableModel, *, strict: bool) -> None:
        self.model = model
        names = model.column_names
        self._key = tuple(names.index(name) for name, _ in model.primary_key)
        self.strict = strict
        self.by_key: NetByKey[Values, Values] = NetByKey(self.name, strict=strict)
        reals = [at for at, one in enumerate(model.columns) if one.kind in REALS]
        self.counts: NetCounts[Values] = SignedCounts(reals) if reals else NetCounts()
        self.patches: list[tuple[Values, tuple[int, ...], Values]] = []
        self._patched: set[Values] = set()
        self.size = 0

    @property
    def name(self) -> str:
        """The table's name, for messages."""
        return f"{self.model.database}.{self.model.name}"

    @property
    def table(self) -> tuple[str, str]:
        """Database and name."""
        return self.model.database, self.model.name

    @property
    def keyed(self) -> bool:
        """Whether the table has a primary key."""
        return bool(self._key)

    @property
    def key(self) -> tuple[int, ...]:
        """Indexes of the key's columns."""
        return self._key

    def key_of(self, row: Values) -> Values:
        """Return the key of a row.

        Raises:
            SinkError: the row image lacks a column of the key.
        """
        key = tuple(row[at] for at in self._key)
        if ABSENT in key:
            raise SinkError(
                f"{self.name}: a row image has no primary key; set binlog_row_image=FULL"
            )
        return key

    def needs_flush(self, before: Values | None, after: Values | None) -> bool:
        """Return whether pending changes must be applied before this change can be taken."""
        if not self._patched or not self._key:
            return False
        if before is not None and self.key_of(before) in self._patched and after is None:
            return True
        if after is None:
            return False
        if before is None:
            return self.key_of(after) in self._patched
        return ABSENT not in after and self.key_of(before) in self._patched

    def insert(self, row: Values) -> None:
        """Add a row.

        Raises:
            SinkError: a column is missing.
        """
        self.size += 1
        self._complete(row)
        if not self._key:
            self.counts.insert(row)
            return
        self.by_key.insert(self.key_of(row), row)

    def delete(self, row: Values) -> None:
        """Remove a row.

        Raises:
            SinkError: a column is missing.
        """
        self.size += 1
        if not self._key:
            self._complete(row)
            self.counts.delete(row)
            return
        self.by_key.delete(self.key_of(row))

    def update(self, before: Values, after: Values) -> bool:
        """Change a row, and return whether all changes must be applied before the next one is taken.

        Raises:
            SinkError: a column that is needed is missing.
        """
        if ABSENT in after:
            known = self.by_key.added.get(self.key_of(before), before) if self._key else before
            if ABSENT in known:
                return self._patch(before, after)
            after = tuple(
                old if new is ABSENT else new for old, new in zip(known, after, strict=True)
            )
        self.delete(before)
        self.insert(after)
        self.size -= 1
        return False

    def _patch(self, before: Values, after: Values) -> bool:
        if not self._key:
            self._complete(before)
        self.size += 1
        key = self.key_of(before)
        present = tuple(at for at, value in enumerate(after) if value is not ABSENT)
        self.patches.append((key, present, tuple(after[at] for at in present)))
        self._patched.add(key)
        return any(
            at in present and after[at] != value for at, value in zip(self._key, key, strict=True)
        )

    def _complete(self, row: Values) -> None:
        if tuple.__contains__(row, ABSENT):  # `in` asks a Row for a name
            raise SinkError(
                f"{self.name}: a row image lacks columns whose values are needed: {WHY_ABSENT}; set "
                "binlog_row_image=FULL on the source, or leave such a column out (drop in the sink's transforms)"
            )

    def patch_groups(self) -> Iterator[tuple[tuple[int, ...], list[tuple[Values, Values]]]]:
        """Patches that follow one another and set the same columns: columns, then values and key."""
        group: list[tuple[Values, Values]] = []
        columns: tuple[int, ...] = ()
        for key, present, values in self.patches:
            if present != columns and group:
                yield columns, group
                group = []
            columns = present
            group.append((values, key))
        if group:
            yield columns, group


def same_names(model: TableModel, names: Sequence[str]) -> bool:
    """Return whether a table has these columns, in order."""
    return tuple(name.lower() for name in model.column_names) == tuple(
        name.lower() for name in names
    )
