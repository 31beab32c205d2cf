"""SQL that undoes changes, or makes them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from replica_client.archive.archive import Archive
from replica_client.archive.logged_statements import StatementSpool, logged_definitions
from replica_client.archive.question import ChangeTest, Question
from replica_client.archive.sql_values import ExpectedRow, condition_sql, value_sql, with_bytes
from replica_client.errors import DataLossError
from replica_client.protocol.binlog.values.json_diff import JsonDiffs
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.selection import Selection
from replica_client.rows.special_values import ABSENT, WHY_ABSENT
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.model import HASH_NAME
from replica_client.schema.names import SPEAKS_UTF8, mysql_name, mysql_names, mysql_table
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.transaction import Transaction

Direction = Literal["undo", "redo"]

SESSION: Final = (
    SPEAKS_UTF8,
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
    "SET SESSION foreign_key_checks = 0",
)
"""Session settings that the statements need."""

CHECK: Final = "SET @replica_client = IF(ROW_COUNT() = 1, 0, (SELECT 1 UNION SELECT 2))"
"""Follows each change; fails (error 1242) unless the change affected one row: the table differs from then.

``mysql`` stops at an error, and the server rolls back the open transaction. (MySQL 5.6 and MariaDB
ignore errors in DO.)
"""

_BEGIN, _CHANGE, _COMMIT, _SAME, _EXPECTED = range(5)


class WrittenChange(NamedTuple):
    """A change as SQL.

    Attributes:
        sql: the statement.
        changes_row: whether it changes a row; a statement that writes the existing values is not
            checked.
        expected: the rows that it expects, where that was requested.
    """

    sql: str
    changes_row: bool
    expected: ExpectedRow | None


class Reversal:
    """The statements that undo or redo the changes of a question; made by :func:`make_statements`.

    Attributes:
        transactions: number of transactions.
        changes: number of changes.
    """

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._spool = StatementSpool()
        self._is_open = False
        self.transactions = self.changes = 0

    def __enter__(self) -> Reversal:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def add_part(self, title: str, changes: Iterator[WrittenChange], *, is_last: bool) -> None:
        """Add the statements of a part of a transaction, if it has any.

        Args:
            title: title of the transaction.
            changes: the changes to write.
            is_last: whether the transaction ends with this part.
        """
        for change in changes:
            if not self._is_open:
                self._is_open = True
                self.transactions += 1
                self._spool.add(_BEGIN, title)
            self.changes += 1
            if change.expected is not None:
                self._spool.add(_EXPECTED, change.expected.to_text())
            self._spool.add(_CHANGE if change.changes_row else _SAME, change.sql)
        if is_last and self._is_open:
            self._is_open = False
            self._spool.add(_COMMIT, title)

    def expected(self) -> Iterator[ExpectedRow]:
        """Yield the rows that each statement expects, in the order of the script, if requested."""
        for kind, text in self._records():
            if kind == _EXPECTED:
                yield ExpectedRow.of_text(text)

    def _records(self) -> Iterator[tuple[int, str]]:
        return self._spool.backward() if self._direction == "undo" else self._spool.forward()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the script.

        They are the session's settings, then each transaction between START TRANSACTION and COMMIT.
        """
        yield from (f"{one};" for one in SESSION)
        backward = self._direction == "undo"
        first = _COMMIT if backward else _BEGIN
        for kind, text in self._records():
            if kind == _EXPECTED:
                continue
            if kind in (_CHANGE, _SAME):
                yield f"{text};"
                if kind == _CHANGE:
                    yield f"{CHECK};"
            elif kind == first:
                yield f"-- {text}"
                yield "START TRANSACTION;"
            else:
                yield "COMMIT;"


def make_statements(
    archive: Archive,
    question: Question,
    direction: Direction,
    *,
    expects: bool = False,
    whole_rows: bool = False,
) -> Reversal:
    """Build SQL from changes; all of them are checked before the first statement is available.

    Args:
        archive: the archive.
        question: selects the changes.
        direction: ``undo`` reverts them, the last one first; ``redo`` makes them again.
        expects: keep the rows that the statements expect, for :meth:`Reversal.expected`.
        whole_rows: undo an UPDATE only where all columns of the row are as it left them. Otherwise,
            in a table with a primary key, its changed columns have to be, and other columns keep
            later values. ``redo`` always checks whole rows.

    Raises:
        DataLossError: the SQL would not be exact; the message says why and where.
        BinlogDecodeError: a file is damaged.
    """
    found = Reversal(direction)
    try:
        by_column = direction == "undo" and not whole_rows
        writer = _Writer(archive, question, direction, expects=expects, by_column=by_column)
        for transaction in archive.transactions([question], AssemblyOptions(_selected(question))):
            if question.takes_transaction(transaction):
                changes = writer.statements(transaction)
                found.add_part(_title(transaction), changes, is_last=transaction.complete)
        writer.check_columns()
        writer.check_definitions()
    except BaseException:
        found._spool.close()
        raise
    return found


def _selected(question: Question) -> Selection:
    return Selection(question.patterns)


def _title(transaction: Transaction) -> str:
    gtid = f" {transaction.gtid}" if transaction.gtid else ""
    start = transaction.start
    return f"transaction{gtid} at {start.file}:{start.offset}".replace("\n", " ")


class _Writer:
    """A writer of changes as SQL that refuses changes for which the SQL would not be exact."""

    def __init__(
        self,
        archive: Archive,
        question: Question,
        direction: Direction,
        *,
        expects: bool,
        by_column: bool,
    ) -> None:
        self._archive, self._direction, self._expects = archive, direction, expects
        self._by_column = by_column
        self._test = ChangeTest(question)
        self._decoders: dict[TableShape, RowImageDecoder] = {}
        self._logged = logged_definitions(archive)
        self._first: dict[TableName, Position] = {}
        self._last: dict[TableName, Position] = {}

    def statements(self, transaction: Transaction) -> Iterator[WrittenChange]:
        """Yield the statements of a transaction's selected changes, in the order of the binlog."""
        for rows in transaction.rows:
            raw = self._test.changes_by(rows, self._decoder(rows.shape))
            for change in self._test.changes(rows):
                if not self._test.takes(change):
                    continue
                self._check(change)
                plain = next(raw, None)
                while plain is not None and plain.row_index < change.row_index:
                    plain = next(raw, None)
                if plain is None or plain.row_index != change.row_index:
                    # The prefilter on bytes judged this row differently than the one on values.
                    raw = iter(self._with_bytes(rows, change.row_index))
                    plain = next(raw)
                yield self._statement(rows.shape, plain)

    def _decoder(self, shape: TableShape) -> RowImageDecoder:
        """Return a decoder that returns the texts of a table's rows as bytes."""
        decoder = self._decoders.get(shape)
        if decoder is None:
            decoder = RowImageDecoder(with_bytes(shape), self._archive.files.decode)
            self._decoders[shape] = decoder
        return decoder

    def _with_bytes(self, rows: RowsOfEvent, first_row: int) -> RowsOfEvent:
        decoder = self._decoder(rows.shape)
        return RowsOfEvent(rows.event, rows.shape, decoder, rows.event_index, first_row, rows.gtid)

    def _check(self, change: Change) -> None:
        name = (change.database, change.table)
        where = f"file {change.file}, position {change.offset}: {'.'.join(name)}"
        here = Position(change.file, change.offset)
        self._first.setdefault(name, here)
        self._last[name] = here
        if not change.shape.names_resolved:
            raise DataLossError(
                f"{where}: the names of its columns are not known; give the schema (--schema), or set "
                "binlog_row_metadata=FULL on the source"
            )
        for row in (change.before, change.after):
            for column, value in zip(change.shape.columns, row or (), strict=row is not None):
                if value is ABSENT and not self._is_computed(name, column):
                    raise DataLossError(
                        f"{where}: a row image lacks {column.name}, so that {self._direction} would not be exact: "
                        f"{WHY_ABSENT} (then begin the archive with its CREATE TABLE, or give --schema)"
                    )
                if isinstance(value, JsonDiffs):
                    raise DataLossError(
                        f"{where}: {column.name} is a partial JSON update, so that {self._direction} would not be exact"
                    )
        if name in self._logged.cascaded:
            raise DataLossError(
                f"{where}: foreign keys change rows of it without a word in the binlog (CASCADE, SET NULL), so that "
                f"{self._direction} would not be whole"
            )

    def _is_computed(self, table: TableName, column: ColumnShape) -> bool:
        """Return whether the source computes a column, so that statements do not name it."""
        if column.definition is not None:
            return column.computed
        return column.name in self._logged.generated.get(table, ()) or column.name.startswith(
            HASH_NAME
        )

    def _statement(self, shape: TableShape, change: Change) -> WrittenChange:
        before, after = change.before, change.after
        if self._direction == "undo":
            before, after = after, before
        table = mysql_table(change.database, change.table)
        name = (change.database, change.table)
        own = [
            (at, column)
            for at, column in enumerate(shape.columns)
            if not self._is_computed(name, column)
        ]
        numbers = [at for at, _ in own]
        # Expect the whole row: only the first statement of a row is compared with the server.
        expected = _expected(table, shape, before, after, numbers) if self._expects else None
        if before is not None and after is not None and self._by_column and _has_key(shape):
            changed = [
                (at, column)
                for at, column in own
                if value_sql(column, before[at]) != value_sql(column, after[at])
            ]
            if changed:
                own, numbers = changed, [at for at, _ in changed]
        if before is None:
            assert after is not None
            names = mysql_names(column.name for _, column in own)
            values = ", ".join(value_sql(column, after[at]) for at, column in own)
            sql = f"INSERT INTO {table} ({names}) VALUES ({values})"  # noqa: S608 - as below
            return WrittenChange(sql, True, expected)
        where = _where(shape, before, numbers)
        if after is None:
            sql = f"DELETE FROM {table} WHERE {where} LIMIT 1"  # noqa: S608 - names and values are quoted
            return WrittenChange(sql, True, expected)
        values_after = [value_sql(column, after[at]) for at, column in own]
        changes_row = values_after != [value_sql(column, before[at]) for at, column in own]
        sets = ", ".join(
            f"{mysql_name(column.name)} = {value}"
            for (_, column), value in zip(own, values_after, strict=True)
        )
        sql = f"UPDATE {table} SET {sets} WHERE {where} LIMIT 1"  # noqa: S608 - as above
        return WrittenChange(sql, changes_row, expected)

    def check_columns(self) -> None:
        """Raise an error if none of the tables had a column of the question.

        Raises:
            ConfigError: the message names the column, and the nearest name.
        """
        self._test.check()

    def check_definitions(self) -> None:
        """Raise an error if a table's definition changed between or, for undo, after its changes.

        Raises:
            DataLossError: a definition changed.
        """
        for change in self._logged.changes:
            name = (change.database, change.table)
            here = Position(change.file, change.position)
            for each, first in self._first.items():
                if each != name and not (change.kind == "drop_database" and each[0] == name[0]):
                    continue
                if here > first and (self._direction == "undo" or here < self._last[each]):
                    text = " ".join(change.statement.split())[:120]
                    raise DataLossError(
                        f"{'.'.join(each)} was changed by a statement at {change.file}:{change.position}: {text}; "
                        f"{self._direction} one side of it at a time (--until, --since)"
                    )


def _has_key(shape: TableShape) -> bool:
    """Return whether a row is found by its primary key."""
    key = shape.primary_key
    return bool(key) and all(not shape.columns[at].primary_key_prefix for at in key)


def _key(shape: TableShape, row: Row, own: list[int]) -> str:
    key = shape.primary_key
    if _has_key(shape):
        return " AND ".join(condition_sql(shape.columns[at], row[at], is_key=True) for at in key)
    return _values(shape, row, own)


def _where(shape: TableShape, row: Row, own: list[int]) -> str:
    """Return a condition on the key and some columns, so that later changes of them are kept."""
    key, values = _key(shape, row, own), _values(shape, row, own)
    return values if key == values else f"{key} AND {values}"


def _values(shape: TableShape, row: Row, own: list[int]) -> str:
    return " AND ".join(condition_sql(shape.columns[at], row[at], is_key=False) for at in own)


def _expected(
    table: str, shape: TableShape, before: Row | None, after: Row | None, own: list[int]
) -> ExpectedRow:
    """Return the rows that a statement expects when it changes ``before`` to ``after``."""
    there = free = exact = None
    if before is not None:
        there, exact = _key(shape, before, own), _where(shape, before, own)
    if after is not None and shape.primary_key:
        free = _key(shape, after, own)
    return ExpectedRow(table, there, exact, None if free == there else free)
