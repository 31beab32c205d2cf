"""Statements in an archive: definitions, texts and affected tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import field
from struct import Struct
from typing import Final

from replica_client.archive.archive import Archive
from replica_client.archive.file_list import ReadStatement
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.statements import cascading_references
from replica_client.schema.ddl.steps import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    CreateTable,
    TableName,
)
from replica_client.schema.history import SchemaChange, SchemaHistory
from replica_client.stream.transactions.schema_tracking import SchemaTracker


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
