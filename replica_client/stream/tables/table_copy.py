"""The copy of a table that existed before the stream's changes of it: its window and progress.

Changes before a copy are in it already and are skipped. Changes inside its window may be in it or
not: rows are inserted and deleted whether they exist or not, and later changes in the stream
correct them. After the window a row that should exist and does not is an error, as usual.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Self

from replica_client.errors import PositionFormatError, SchemaError, SinkError
from replica_client.protocol.position import Position
from replica_client.schema.history import LogPosition
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
