"""The current definitions of a source's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from replica_client.errors import ServerError
from replica_client.protocol.wire.server_errors import GONE_ERRORS
from replica_client.schema.model import TableModel
from replica_client.schema.names import casefold_table, mysql_table
from replica_client.stream.live.live_definitions import read_definitions as definitions_of
from replica_client.stream.transport.connection import SourceConnection

TableName = tuple[str, str]

_CASCADES = re.compile(
    r"^\s*CONSTRAINT .* FOREIGN KEY .* ON (DELETE|UPDATE) (CASCADE|SET NULL|SET DEFAULT)",
    re.MULTILINE,
)


async def read_definitions(
    connection: SourceConnection, table: TableName | None = None
) -> dict[TableName, TableModel]:
    """Read the definitions of all tables, or of one, from ``information_schema``.

    Raises:
        ServerError: the source refuses.
        SchemaError: a column's type is not understood.
    """
    server = connection.server
    models = await definitions_of(connection, table)
    if (
        server.casefolds_names
    ):  # with lower_case_table_names=2 the server shows the names as they were created
        models = [one.renamed(*casefold_table((one.database, one.name))) for one in models]
    return {(model.database, model.name): model for model in models}


async def cascaded_tables(
    connection: SourceConnection, tables: Iterable[TableName]
) -> frozenset[TableName]:
    """Return the tables among ``tables`` whose rows foreign keys change without row events.

    InnoDB executes CASCADE and SET NULL on its own; MySQL 9.6 and newer do it in SQL, and log it,
    where ``innodb_native_foreign_keys`` is OFF. ``information_schema`` shows foreign keys only to
    users with more privileges than SELECT; SHOW CREATE TABLE shows them to all. A table that was
    dropped in the meantime is skipped.

    Raises:
        ServerError: the source refuses.
    """
    native = await connection.query("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    if native and str(native[0][1]).upper() == "OFF":
        return frozenset()
    found = set()
    for name in tables:
        try:
            rows = await connection.query(f"SHOW CREATE TABLE {mysql_table(*name)}", columns=2)
        except ServerError as error:
            if error.errno not in GONE_ERRORS:
                raise
            continue
        text = rows[0][1]
        shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        if _CASCADES.search(shown):
            found.add(name)
    return frozenset(found)
