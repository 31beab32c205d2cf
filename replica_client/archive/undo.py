"""SQL that undoes changes, or makes them again."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import groupby
from typing import Final, Literal, NamedTuple

from replica_client.archive.archive import Archive, FoundChange
from replica_client.archive.logged_statements import StatementSpool, logged_definitions
from replica_client.archive.question import ChangeTest, Question
from replica_client.archive.row_checks import MOST_ROWS, RowWrite, grouped, statement
from replica_client.archive.sql_values import condition_sql, value_sql, with_bytes
from replica_client.archive.statement_texts import StatementTexts
from replica_client.errors import DataLossError
from replica_client.protocol.binlog.values.json_diff import JsonDiffs
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.rows.special_values import ABSENT, WHY_ABSENT
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.model import HASH_NAME
from replica_client.schema.names import SPEAKS_UTF8, mysql_name, mysql_table
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

CHECK: Final = "SET @replica_client = IF(ROW_COUNT() = {}, 0, (SELECT 1 UNION SELECT 2))"
"""Follows each statement; fails (error 1242) unless it changed all its rows: a row differs from then.

``mysql`` stops at an error, and the server rolls back the open transaction. (MySQL 5.6 and MariaDB
ignore errors in DO.)
"""

_BEGIN, _WRITE, _COMMIT = range(3)


class LaterChange(NamedTuple):
    """The last change of a row after those that are undone.

    Attributes:
        change: the change.
        changes: how many changes there are.
    """

    change: FoundChange
    changes: int


class Reversal:
    """The statements that undo or redo the changes of a question; made by :func:`make_statements`.

    Attributes:
        transactions: number of transactions.
        changes: number of changes.
        tables: the tables that are written.
        start: where the first transaction begins.
    """

    def __init__(self, archive: Archive, question: Question, direction: Direction) -> None:
        self._archive, self._question, self._direction = archive, question, direction
        self._spool = StatementSpool()
        self._is_open = False
        self.transactions = self.changes = 0
        self.tables: set[TableName] = set()
        self.start: Position | None = None

    def __enter__(self) -> Reversal:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def add_part(
        self, transaction: Transaction, writes: Iterator[RowWrite | None], *, is_last: bool
    ) -> None:
        """Add the writes of a part of a transaction, if it has any.

        Args:
            transaction: the transaction.
            writes: a write for each change; None for one that leaves its row as it is.
            is_last: whether the transaction ends with this part.
        """
        title = _title(transaction)
        for write in writes:
            if not self._is_open:
                self._is_open = True
                self.transactions += 1
                self.start = self.start or transaction.start
                self._spool.add(_BEGIN, title)
            self.changes += 1
            if write is not None:
                self.tables.add(write.name)
                self._spool.add(_WRITE, write.to_text())
        if is_last and self._is_open:
            self._is_open = False
            self._spool.add(_COMMIT, title)

    def writes(self) -> Iterator[RowWrite]:
        """Yield the writes, in the order of the script."""
        return (RowWrite.of_text(text) for kind, text in self._records() if kind == _WRITE)

    def later_changes(
        self, rows: Container[tuple[TableName, str]]
    ) -> dict[tuple[TableName, str], LaterChange]:
        """Return the changes of rows after those of the question, as far as the archive has them.

        Args:
            rows: the rows, by table and the condition on their key.

        Raises:
            BinlogDecodeError: a file is damaged.
        """
        patterns = tuple(exact_pattern(*name) for name in sorted(self.tables))
        asked = Question(patterns, since=self.start or "earliest")
        test, texts = ChangeTest(self._question), StatementTexts(self._archive.files)
        found: dict[tuple[TableName, str], LaterChange] = {}
        for transaction in self._archive.transactions([asked]):
            if not asked.takes_transaction(transaction):
                continue
            is_asked = self._question.takes_transaction(transaction)
            for event in transaction.rows:
                shape, name = event.shape, (event.shape.database, event.shape.table)
                if not _has_key(shape):
                    continue
                decoder = RowImageDecoder(with_bytes(shape), self._archive.files.decode)
                plain = RowsOfEvent(event.event, shape, decoder, event.event_index, 0, event.gtid)
                for change, raw in zip(event, plain, strict=True):
                    if is_asked and test.takes(change):
                        continue
                    for row in {_key(shape, one, []) for one in (raw.before, raw.after) if one}:
                        if (name, row) in rows:
                            changes = found[name, row].changes if (name, row) in found else 0
                            one = FoundChange(change, transaction, texts.of(transaction, change))
                            found[name, row] = LaterChange(one, changes + 1)
        return found

    def _records(self) -> Iterator[tuple[int, str]]:
        return self._spool.backward() if self._direction == "undo" else self._spool.forward()

    def lines(self, rows: int = MOST_ROWS) -> Iterator[str]:
        """Yield the lines of the script.

        They are the session's settings, then each transaction between START TRANSACTION and COMMIT.

        Args:
            rows: rows of one statement at most.
        """
        yield from (f"{one};" for one in SESSION)
        for is_write, records in groupby(self._records(), lambda one: one[0] == _WRITE):
            if is_write:
                for group in grouped((RowWrite.of_text(text) for _, text in records), rows):
                    yield f"{statement(group)};"
                    yield f"{CHECK.format(len(group))};"
                continue
            for kind, text in records:
                if (kind == _BEGIN) == (self._direction == "redo"):
                    yield f"-- {text}"
                    yield "START TRANSACTION;"
                else:
                    yield "COMMIT;"


def make_statements(
    archive: Archive,
    question: Question,
    direction: Direction,
    *,
    whole_rows: bool = False,
) -> Reversal:
    """Build SQL from changes; all of them are checked before the first statement is available.

    Args:
        archive: the archive.
        question: selects the changes.
        direction: ``undo`` reverts them, the last one first; ``redo`` makes them again.
        whole_rows: undo an UPDATE only where all columns of the row are as it left them. Otherwise,
            in a table with a primary key, its changed columns have to be, and other columns keep
            later values. ``redo`` always checks whole rows.

    Raises:
        DataLossError: the SQL would not be exact; the message says why and where.
        BinlogDecodeError: a file is damaged.
    """
    found = Reversal(archive, question, direction)
    try:
        by_column = direction == "undo" and not whole_rows
        writer = _Writer(archive, question, direction, by_column=by_column)
        for transaction in archive.transactions([question], AssemblyOptions(_selected(question))):
            if question.takes_transaction(transaction):
                writes = writer.writes(transaction)
                found.add_part(transaction, writes, is_last=transaction.complete)
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
        by_column: bool,
    ) -> None:
        self._archive, self._direction = archive, direction
        self._by_column = by_column
        self._test = ChangeTest(question)
        self._decoders: dict[TableShape, RowImageDecoder] = {}
        self._logged = logged_definitions(archive)
        self._first: dict[TableName, Position] = {}
        self._last: dict[TableName, Position] = {}

    def writes(self, transaction: Transaction) -> Iterator[RowWrite | None]:
        """Yield the writes of a transaction's selected changes, in the order of the binlog."""
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
                yield self._write(rows.shape, plain)

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
                f"{where}: foreign keys of {self._children()} change rows without logging them (CASCADE, SET NULL), "
                f"so that {self._direction} would not be whole"
            )

    def _children(self) -> str:
        return ", ".join(sorted(map(".".join, self._logged.children)))

    def _is_computed(self, table: TableName, column: ColumnShape) -> bool:
        """Return whether the source computes a column, so that statements do not name it."""
        if column.definition is not None:
            return column.computed
        return column.name in self._logged.generated.get(table, ()) or column.name.startswith(
            HASH_NAME
        )

    def _write(self, shape: TableShape, change: Change) -> RowWrite | None:
        before, after = change.before, change.after
        if self._direction == "undo":
            before, after = after, before
        name = (change.database, change.table)
        own = [at for at, one in enumerate(shape.columns) if not self._is_computed(name, one)]
        key = "" if before is None else _key(shape, before, own)
        free = "" if after is None or not shape.primary_key else _key(shape, after, own)
        compared = written = own
        if before is not None and after is not None:
            changed = [
                at
                for at in own
                if value_sql(shape.columns[at], before[at])
                != value_sql(shape.columns[at], after[at])
            ]
            if not changed:
                return None
            if self._by_column and _has_key(shape):
                compared = written = changed
        if before is None or not _has_key(shape):
            compared = []  # then the key is the whole row
        return RowWrite(
            "insert" if before is None else "delete" if after is None else "update",
            mysql_table(*name),
            () if after is None else tuple(mysql_name(shape.columns[at].name) for at in written),
            ()
            if after is None
            else tuple(value_sql(shape.columns[at], after[at]) for at in written),
            key,
            tuple(shape.columns[at].name for at in compared),
            tuple(condition_sql(shape.columns[at], before[at], is_key=False) for at in compared)
            if before is not None
            else (),
            "" if free == key else free,
            before is not None and (not _has_key(shape) or free not in ("", key)),
            name,
        )

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


def _values(shape: TableShape, row: Row, own: list[int]) -> str:
    return " AND ".join(condition_sql(shape.columns[at], row[at], is_key=False) for at in own)
