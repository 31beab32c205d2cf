"""The statement of a QUERY event, and the tables that it may change."""

from __future__ import annotations

from typing import Final, NamedTuple

from replica_client.protocol.binlog.context import BinlogFormat
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import Meaning, TableName, tables_touched
from replica_client.stream.transactions.query_text import read_query

PLAIN_CONTROL: Final = (b"BEGIN", b"COMMIT", b"ROLLBACK")
"""Texts of statements that change no table."""


class ReadStatement(NamedTuple):
    """A parsed statement.

    Attributes:
        text: its text.
        context: its session.
        meaning: its effect.
    """

    text: str
    context: StatementContext
    meaning: Meaning

    @classmethod
    def of(cls, event: BinlogEvent, layout: BinlogFormat) -> ReadStatement:
        """Return the statement of a QUERY event."""
        read = read_query(event, layout)
        return cls(read.text, read.context, read.meaning)

    @property
    def touched(self) -> tuple[tuple[TableName, ...], tuple[str, ...], bool]:
        """The tables and databases that the statement may change, and whether it may change any."""
        return tables_touched(self.meaning)
