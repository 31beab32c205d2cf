"""What a QUERY event says, and which tables it may change."""

from __future__ import annotations

from typing import Final, NamedTuple

from replica_client.binlog.context import BinlogFormat
from replica_client.binlog.event import BinlogEvent
from replica_client.readers.schema_tracking import statement_text
from replica_client.schema.catalog import tables_touched
from replica_client.schema.ddl.changes import Meaning, TableName
from replica_client.schema.ddl.context import StatementContext
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.server_version import parse_server_version

PLAIN_CONTROL: Final = (b"BEGIN", b"COMMIT", b"ROLLBACK")
"""Texts of statements that change no table."""


class ReadStatement(NamedTuple):
    """A statement that was read.

    Attributes:
        text: of the statement.
        context: of its session.
        meaning: what it does.
    """

    text: str
    context: StatementContext
    meaning: Meaning

    @classmethod
    def of(cls, event: BinlogEvent, layout: BinlogFormat) -> ReadStatement:
        """That of a QUERY event."""
        body = event.body
        version = parse_server_version(layout.server_version)
        context = StatementContext.of_query(body, layout.flavor, version)
        text = statement_text(body.query, body.status.character_set_client)
        return cls(text, context, read_statement(text, context))

    @property
    def touched(self) -> tuple[tuple[TableName, ...], tuple[str, ...], bool]:
        """The tables and databases that it may change, and whether it may be any."""
        return tables_touched(self.meaning)
