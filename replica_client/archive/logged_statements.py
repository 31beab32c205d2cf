"""Statements in an archive: definitions, texts and affected tables."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import field
from struct import Struct
from typing import Any, Final

from replica_client.archive.archive import RECORDED, Archive
from replica_client.archive.file_list import ReadStatement
from replica_client.archive.question import Question
from replica_client.protocol.binlog.event import MAGIC_SIZE
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.statements import cascading_references
from replica_client.schema.ddl.steps import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    CreateTable,
    TableName,
    TruncateTable,
)
from replica_client.schema.history import SchemaChange, SchemaHistory
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.schema_tracking import SchemaTracker
from replica_client.stream.transactions.transaction import Transaction


@dataclass(slots=True)
class LoggedDefinitions:
    """The facts that statements state about tables.

    Attributes:
        generated: names of generated columns.
        cascaded: tables of a foreign key that changes rows without logging them.
        children: those among them whose rows it changes.
        changes: changes of tables by statements, in order.
    """

    generated: dict[TableName, frozenset[str]] = field(default_factory=dict)
    cascaded: set[TableName] = field(default_factory=set)
    children: set[TableName] = field(default_factory=set)
    changes: list[SchemaChange] = field(default_factory=list)


def logged_definitions(archive: Archive) -> LoggedDefinitions:
    """Return what the statements of an archive state about tables."""
    found = LoggedDefinitions()
    history = SchemaHistory()
    tracker = SchemaTracker(history, Selection(), "positional", "positional", reports=False)
    for file in archive.files:
        for event, decoder in file.index.facts.statements(file.listed.name, archive.files.decode):
            _read_definition(ReadStatement.of(event, decoder.format), found)
            found.changes += tracker.run(event, decoder.format, 0)
    return found


def _read_definition(statement: ReadStatement, found: LoggedDefinitions) -> None:
    match statement.meaning:
        case CreateTable(table=table, columns=columns):
            pass
        case AlterTable(table=table, steps=steps):
            columns = tuple(
                one.column for one in steps if isinstance(one, AddColumn | ChangeColumn)
            )
        case _:
            return
    if not statement.context.logs_cascades:
        parents = cascading_references(statement.text, statement.context, table[0])
        if parents:
            found.cascaded |= {table, *parents}
            found.children.add(table)
    made = {column.name for column in columns if column.generated}
    if made:
        found.generated[table] = found.generated.get(table, frozenset()) | made


@dataclass(frozen=True, slots=True)
class FoundStatement:
    """A statement that changed tables or databases, with its transaction.

    Attributes:
        transaction: its transaction.
        position: position of its event.
        database: the default database of its session.
        text: its text.
        tables: the tables and databases that it names, as text.
        thread_id: number of the source's connection.
        user: the account that ran it, where the source logs it; otherwise empty.
    """

    transaction: Transaction
    position: int
    database: str
    text: str
    tables: tuple[str, ...]
    thread_id: int
    user: str

    def as_dict(self) -> dict[str, Any]:
        """Return the statement as a dictionary, for JSON."""
        return {
            "file": self.transaction.start.file,
            "position": self.position,
            "gtid": self.transaction.gtid,
            "commit_time": self.transaction.commit_time.isoformat(),
            "thread_id": self.thread_id,
            "user": self.user,
            "kind": "ddl",
            "database": self.database,
            "tables": self.tables,
            "statement": self.text,
        }


def find_statements(archive: Archive, question: Question) -> Iterator[FoundStatement]:
    """Yield the statements that changed a question's tables, in the order of the binlog.

    A statement that drops or changes the database of a table is among them, and one that cannot be
    understood may be.

    Args:
        archive: the archive.
        question: its tables, times, positions, GTIDs and thread.

    Raises:
        BinlogDecodeError: a file is damaged.
    """
    question.check_positions(archive.files.sizes)
    selection = Selection(question.patterns)
    # No rows: only the GTID, the times and the thread of the transactions.
    assembly = AssemblyOptions(Selection(()), record_losses=RECORDED)
    for file in archive.files:
        name, starts = file.listed.name, [block.start for block in file.index.blocks]
        for event, decoder in file.index.facts.statements(name, archive.files.decode):
            read = ReadStatement.of(event, decoder.format)
            tables, databases, is_any = _named(read)
            if question.patterns is not None and not (
                is_any
                or any(selection.wants(*one) for one in tables)
                or any(selection.wants_database(one) for one in databases)
            ):
                continue
            at = bisect_right(starts, event.position)
            start = Position(name, starts[at - 1] if at else MAGIC_SIZE)
            stop = Position(name, event.position + 1)
            for transaction in archive.between(start, stop, assembly):
                if transaction.position.offset <= event.position:
                    continue
                if question.takes_transaction(transaction):
                    status = event.body.status
                    user, host = (
                        (getattr(status, one, None) or b"").decode("utf-8", "replace")
                        for one in ("invoker_user", "invoker_host")
                    )
                    yield FoundStatement(
                        transaction,
                        event.position,
                        read.context.database,
                        read.text,
                        (*(".".join(one) for one in tables), *databases),
                        event.body.thread_id,
                        f"{user}@{host}" if user else "",
                    )
                break


def _named(read: ReadStatement) -> tuple[tuple[TableName, ...], tuple[str, ...], bool]:
    if isinstance(read.meaning, TruncateTable):
        return (read.meaning.table,), (), False
    return read.touched


_END: Final = Struct("<QB")
_WINDOW: Final = 1 << 20


class StatementSpool:
    """Records in a temporary file without a name, so that no other process can open it.

    Reading backward keeps one window of the file in memory.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._size = 0

    def add(self, kind: int, text: str) -> None:
        """Add a record.

        Args:
            kind: 0 to 255.
            text: the record's text.

        Raises:
            OSError: the disk is full.
        """
        data = text.encode()
        self._file.write(_END.pack(len(data), kind) + data + _END.pack(len(data), kind))
        self._size += len(data) + 2 * _END.size

    def forward(self) -> Iterator[tuple[int, str]]:
        """Yield the records, the first one first."""
        self._file.seek(0)
        while head := self._file.read(_END.size):
            size, kind = _END.unpack(head)
            text = self._file.read(size).decode()
            self._file.read(_END.size)
            yield kind, text

    def backward(self) -> Iterator[tuple[int, str]]:
        """Yield the records, the last one first."""
        end = self._size
        window, start = b"", end
        while end:
            need = _END.size
            while True:
                if end - need < start:
                    start = max(0, end - max(need, _WINDOW))
                    self._file.seek(start)
                    window = self._file.read(end - start)
                size, kind = _END.unpack_from(window, end - start - _END.size)
                need = size + 2 * _END.size
                if end - need >= start:
                    break
            at = end - start - need + _END.size
            yield kind, window[at : at + size].decode()
            end -= need

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
