r"""Defaults of BINARY and VARBINARY columns that a live source lists incompletely.

MySQL's ``information_schema`` cuts such a default before its first zero byte: it lists ``0x00FF``
as ``0x``, and ``'a\0b'`` as ``0x61`` (seen on 9.7). SHOW CREATE TABLE has the whole default.
MariaDB lists it completely.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import ServerError
from replica_client.schema.ddl.column_clause import read_column
from replica_client.schema.ddl.lexer import Cursor, LexerError, NotUnderstoodError, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.information_schema import text_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.transport.connection import SourceConnection
from replica_client.wire.server_errors import GONE_ERRORS, PRIVILEGE_ERRORS

_KINDS: Final = ("binary", "varbinary")


async def with_whole_defaults(connection: SourceConnection, table: TableModel) -> TableModel:
    """Complete the defaults of a listed table from SHOW CREATE TABLE.

    Doubtful defaults that SHOW CREATE TABLE does not show become None.
    """
    if connection.server.flavor != ServerFlavor.MYSQL:
        return table
    if not any(map(_is_doubtful, table.columns)):
        return table
    database, name = (one.replace("`", "``") for one in (table.database, table.name))
    try:
        ((_, text, *_),) = await connection.query(f"SHOW CREATE TABLE `{database}`.`{name}`")
        shown = _shown_columns(text_of(text))
    except ServerError as error:
        if error.errno not in PRIVILEGE_ERRORS | GONE_ERRORS:
            raise
        shown = {}
    columns = [
        replace(column, default=shown.get(column.name)) if _is_doubtful(column) else column
        for column in table.columns
    ]
    return replace(table, columns=tuple(columns))


def _is_doubtful(column: ColumnModel) -> bool:
    """Return whether a zero byte may follow what was listed."""
    if column.kind not in _KINDS or column.default is None:
        return False
    return len(column.default.removeprefix("0x")) // 2 < (column.length or 0)


def _shown_columns(statement: str) -> dict[str, str | None]:
    """Return the defaults of a table's binary columns by name, as hexadecimal digits."""
    context, found = StatementContext(), {}
    for line in statement.splitlines():
        if not line.startswith("  `"):
            continue
        try:
            column = read_column(Cursor(tokenize(line.strip().removesuffix(","), context)), context)
            model = column.model(None)
        except (LexerError, NotUnderstoodError):
            continue
        default = model.default
        if default is not None and default[:2].lower() != "0x":
            default = "0x" + default.encode().hex()
        found[model.name] = default
    return found
