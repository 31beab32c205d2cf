"""The shape of a table as a live source has it now."""

from __future__ import annotations

from typing import Any, Protocol

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import SchemaError
from replica_client.schema import information_schema as queries
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.model_shape import shape_of
from replica_client.schema.shape import TableShape


class Queryable(Protocol):
    """A source that runs SQL queries."""

    @property
    def is_mariadb(self) -> bool:
        """Whether the source is MariaDB."""

    def query(self, sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""


def shape_of_table(source: Queryable, database: str, table: str) -> TableShape | None:
    """Return the current shape of a table, or None when the source does not show the table.

    Raises:
        ServerError: the source does not answer such queries.
        SchemaError: a column type that is not known.
    """
    where = queries.where_table((database, table))
    tables = _ask(source, queries.tables_query(where))
    if not tables:
        return None
    flavor = ServerFlavor.MARIADB if source.is_mariadb else ServerFlavor.MYSQL
    columns = _ask(source, queries.columns_query(flavor, where))
    keys = _ask(source, queries.keys_query(where))
    try:
        models = queries.read_tables(tables, columns, keys, flavor, StatementContext().version)
        return shape_of(models[0], flavor) if models else None
    except SchemaError as error:
        raise SchemaError(
            f"{database}.{table}: {error}; read the envelope (tables instead of table)"
        ) from error


def _ask(source: Queryable, question: queries.Where) -> list[tuple[Any, ...]]:
    sql, arguments = question
    return source.query(sql, tuple(arguments))
