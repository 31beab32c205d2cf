"""SQL that takes changes back, or makes them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from replica_client.archive.archive import Archive
from replica_client.archive.logged_definitions import logged_definitions
from replica_client.archive.question import ChangeTest, Question
from replica_client.archive.sql_values import condition_sql, value_sql, with_bytes
from replica_client.archive.statement_spool import StatementSpool
from replica_client.errors import DataLossError
from replica_client.position.position import Position
from replica_client.readers.assembler import AssemblyOptions
from replica_client.readers.transaction import Transaction
from replica_client.rows.absent import ABSENT
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.quoting import mysql_name, mysql_names, mysql_table
from replica_client.schema.shape import TableShape

Direction = Literal["undo", "redo"]

SESSION: Final = (
    "SET NAMES utf8mb4",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
    "SET SESSION foreign_key_checks = 0",
)
"""What the statements want of their session."""

CHECK: Final = "SET @replica_client = IF(ROW_COUNT() = 1, 0, (SELECT 1 UNION SELECT 2))"
"""Stands behind each change, and is an error (1242) unless that changed one row: the table is not as it was then.

``mysql`` ends at an error, and the server takes back the transaction that is open. (MySQL 5.6 and MariaDB pass over
errors in DO.)
"""

_BEGIN, _CHANGE, _COMMIT, _SAME = range(4)


class Reversal:
    """The statements of a question's changes; made by :func:`make_statements`.

    Attributes:
        transactions: how many transactions.
        changes: how many changes.
    """

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._spool = StatementSpool()
        self.transactions = self.changes = 0

    def __enter__(self) -> Reversal:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def add_transaction(self, title: str, changes: Iterator[tuple[str, bool]]) -> None:
        """Keep what a transaction, or a part of one, makes; nothing where that is nothing.

        Args:
            title: of the transaction.
            changes: statements, and whether each changes a row; one that writes what is there is not checked.
        """
        begun = False
        for sql, changes_row in changes:
            if not begun:
                begun = True
                self.transactions += 1
                self._spool.add(_BEGIN, title)
            self.changes += 1
            self._spool.add(_CHANGE if changes_row else _SAME, sql)
        if begun:
            self._spool.add(_COMMIT, title)

    def lines(self) -> Iterator[str]:
        """The script, line by line: the session's settings, then each transaction between its BEGIN and COMMIT."""
        yield from (f"{one};" for one in SESSION)
        backward = self._direction == "undo"
        first = _COMMIT if backward else _BEGIN
        for kind, text in self._spool.backward() if backward else self._spool.forward():
            if kind in (_CHANGE, _SAME):
                yield f"{text};"
                if kind == _CHANGE:
                    yield f"{CHECK};"
            elif kind == first:
                yield f"-- {text}"
                yield "START TRANSACTION;"
            else:
                yield "COMMIT;"


def make_statements(archive: Archive, question: Question, direction: Direction) -> Reversal:
    """Make SQL of changes. All of them are looked at before anything is given.

    Args:
        archive: where they are.
        question: which changes.
        direction: ``undo`` takes them back, the last one first; ``redo`` makes them again.

    Raises:
        DataLossError: it cannot be exact; says why and where.
        BinlogDecodeError: a fault in a file.
    """
    found = Reversal(direction)
    try:
        writer = _Writer(archive, question, direction)
        for transaction in archive.transactions([question], AssemblyOptions(_selected(question))):
            if question.takes_transaction(transaction):
                found.add_transaction(_title(transaction), writer.statements(transaction))
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
    """Writes changes as SQL, and refuses those for which that is not exact."""

    def __init__(self, archive: Archive, question: Question, direction: Direction) -> None:
        self._archive, self._direction = archive, direction
        self._test = ChangeTest(question)
        self._decoders: dict[TableShape, RowImageDecoder] = {}
        self._logged = logged_definitions(archive)
        self._first: dict[TableName, Position] = {}
        self._last: dict[TableName, Position] = {}

    def statements(self, transaction: Transaction) -> Iterator[tuple[str, bool]]:
        """The statements of a transaction's wanted changes, in the order of the binlog; whether each changes a row."""
        for rows in transaction.rows:
            raw = iter(self._with_bytes(rows))
            for change in rows:
                plain = next(raw)
                if self._test.takes(change):
                    self._check(change)
                    yield self._statement(rows.shape, plain)

    def _with_bytes(self, rows: RowsOfEvent) -> RowsOfEvent:
        decoder = self._decoders.get(rows.shape)
        if decoder is None:
            decoder = RowImageDecoder(with_bytes(rows.shape), self._archive.files.decode)
            self._decoders[rows.shape] = decoder
        return RowsOfEvent(
            rows.event, rows.shape, decoder, rows.event_index, rows.first_row, rows.gtid
        )

    def _check(self, change: Change) -> None:
        name = (change.database, change.table)
        where = f"file {change.file}, position {change.position}: {'.'.join(name)}"
        here = Position(change.file, change.position)
        self._first.setdefault(name, here)
        self._last[name] = here
        if not change.shape.names_resolved:
            raise DataLossError(
                f"{where}: the names of its columns are not known; give the schema (--schema), or set "
                "binlog_row_metadata=FULL on the source"
            )
        for row in (change.before, change.after):
            if row is not None and any(
                value is ABSENT
                or (isinstance(value, tuple) and value and not isinstance(value[0], float))
                for value in row
            ):
                raise DataLossError(
                    f"{where}: a row image lacks columns (binlog_row_image is not FULL, or partial JSON updates), so "
                    f"that {self._direction} would not be exact"
                )
        if name in self._logged.cascaded:
            raise DataLossError(
                f"{where}: foreign keys change rows of it without a word in the binlog (CASCADE, SET NULL), so that "
                f"{self._direction} would not be whole"
            )

    def _statement(self, shape: TableShape, change: Change) -> tuple[str, bool]:
        before, after = change.before, change.after
        if self._direction == "undo":
            before, after = after, before
        table = mysql_table(change.database, change.table)
        generated = self._logged.generated.get((change.database, change.table), frozenset())
        hidden = {column.name for column in shape.columns if column.name.startswith("DB_ROW_HASH_")}
        own = [
            (at, column)
            for at, column in enumerate(shape.columns)
            if column.name not in generated and column.name not in hidden
        ]
        if before is None:
            assert after is not None
            names = mysql_names(column.name for _, column in own)
            values = ", ".join(value_sql(column, after[at]) for at, column in own)
            return f"INSERT INTO {table} ({names}) VALUES ({values})", True  # noqa: S608 - as below
        where = _where(shape, before, [at for at, _ in own])
        if after is None:
            return f"DELETE FROM {table} WHERE {where} LIMIT 1", True  # noqa: S608 - names and values are quoted
        values_after = [value_sql(column, after[at]) for at, column in own]
        changes_row = values_after != [value_sql(column, before[at]) for at, column in own]
        sets = ", ".join(
            f"{mysql_name(column.name)} = {value}"
            for (_, column), value in zip(own, values_after, strict=True)
        )
        return f"UPDATE {table} SET {sets} WHERE {where} LIMIT 1", changes_row  # noqa: S608 - as above

    def check_definitions(self) -> None:
        """Refuse tables whose definition changed between their changes, or behind those that are taken back.

        Raises:
            DataLossError: one did.
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


def _where(shape: TableShape, row: Row, own: list[int]) -> str:
    key = shape.primary_key
    if key and all(not shape.columns[at].primary_key_prefix for at in key):
        return " AND ".join(condition_sql(shape.columns[at], row[at], is_key=True) for at in key)
    return " AND ".join(condition_sql(shape.columns[at], row[at], is_key=False) for at in own)
