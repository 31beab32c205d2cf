"""The definitions of a source's tables as they are now."""

from __future__ import annotations

import contextlib

from replica_client.errors import ServerError
from replica_client.schema import information_schema as queries
from replica_client.schema.model import TableModel
from replica_client.transport.connection import SourceConnection

TableName = tuple[str, str]


async def read_definitions(
    connection: SourceConnection, table: TableName | None = None
) -> dict[TableName, TableModel]:
    """What ``information_schema`` shows: of all tables, or of one.

    Raises:
        ServerError: the source does not tell.
        SchemaError: a column's type is not understood.
    """
    server = connection.server
    with contextlib.suppress(ServerError):  # of a server without such keys
        await connection.query(queries.SHOW_HIDDEN)
    one, args = table is not None, table or ()
    columns = await connection.query(queries.columns_query(server.flavor, one_table=one), args)
    keys = await connection.query(queries.keys_query(one_table=one), args)
    tables = await connection.query(queries.tables_query(one_table=one), args)
    models = queries.read_tables(tables, columns, keys, server.flavor, server.version)
    return {(model.database, model.name): model for model in models}
