"""Histories from statements, for tests."""

from __future__ import annotations

from replica_client.constants.flavor import ServerFlavor
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel, describe

MYSQL = StatementContext("d", ServerFlavor.MYSQL, (9, 7, 0), server_charset="utf8mb4")
MARIADB = StatementContext("d", ServerFlavor.MARIADB, (11, 8, 2), server_charset="latin1")


def history_of(*statements: str, context: StatementContext = MYSQL) -> SchemaHistory:
    """The history that statements make in an empty database ``d``."""
    history = SchemaHistory()
    for number, text in enumerate(("CREATE DATABASE d", *statements)):
        history.run(text, context, "binlog.000001", 100 + 10 * number)
    return history


def columns(history: SchemaHistory, table: str = "t", database: str = "d") -> str:
    """The columns of a table as short text."""
    state = history.table((database, table))
    assert isinstance(state, TableModel), state
    return ", ".join(f"{column.name} {describe(column)}" for column in state.columns)


def after(*statements: str, context: StatementContext = MYSQL, table: str = "t") -> str:
    """The columns of a table after statements."""
    return columns(history_of(*statements, context=context), table)
