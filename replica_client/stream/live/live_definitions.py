r"""Current definitions of a live source's tables: columns, defaults, labels.

MySQL's ``information_schema`` cuts such a default before its first zero byte: it lists ``0x00FF``
as ``0x``, and ``'a\0b'`` as ``0x61`` (seen on 9.7). SHOW CREATE TABLE has the whole default.
MariaDB lists it completely.

``information_schema`` and SHOW CREATE TABLE use utf8mb3: each character outside the Basic
Multilingual Plane appears as ``?``, like a real ``?`` (seen on MySQL 5.6 and 9.7, MariaDB 10.11 and
11.8). Such labels are found in other ways: a MariaDB variable of the column's type can be set to
any of its values, and rows of the table contain them. Labels that stay in doubt are marked
(``unknown_labels``).

Listing tens of thousands of tables takes a server minutes, and some servers send the first row only
when they have the last one. Listing in parts lets each answer arrive in time and bounds memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from replica_client.errors import ServerError
from replica_client.protocol.codec.charsets import UndecodableTextError, decode_text
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.wire.server_errors import GONE_ERRORS, PRIVILEGE_ERRORS
from replica_client.rows.selection import Selection
from replica_client.schema import information_schema as queries
from replica_client.schema.character_sets import representative_id
from replica_client.schema.ddl.column_clause import read_column
from replica_client.schema.ddl.lexer import Cursor, LexerError, NotUnderstoodError, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.information_schema import Where, text_of
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.stream.transport.connection import SourceConnection, suppress_unknown_variable

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


_SAMPLE: Final = 10_000
_HAS_VARIABLES: Final = (10, 3, 0)
"""MariaDB versions with ``DECLARE x TYPE OF``."""


async def with_true_labels(connection: SourceConnection, table: TableModel) -> TableModel:
    """Complete the labels of a listed table from variables or rows."""
    if not any(column.doubtful_labels for column in table.columns):
        return table
    # A strict mode refuses variables of a type whose labels look alike in utf8mb3.
    await connection.query("SET @replica_client_mode = @@SESSION.sql_mode, SESSION sql_mode = ''")
    try:
        columns = [
            await _true_column(connection, table, column) if column.doubtful_labels else column
            for column in table.columns
        ]
    finally:
        await connection.query("SET SESSION sql_mode = @replica_client_mode")
    return replace(table, columns=tuple(columns))


async def _true_column(
    connection: SourceConnection, table: TableModel, column: ColumnModel
) -> ColumnModel:
    doubtful = column.doubtful_labels
    found: dict[int, str] = {}
    has_variables = connection.server.is_mariadb and connection.server.version >= _HAS_VARIABLES
    # The account may lack the right to select.
    for ask in (_of_variables, _of_rows) if has_variables else (_of_rows,):
        try:
            found.update(await ask(connection, table, column, doubtful))
        except ServerError as error:
            if error.errno not in PRIVILEGE_ERRORS | GONE_ERRORS:
                raise
        if found.keys() >= set(doubtful):
            break
    labels = list(column.labels or ())
    unknown = []
    for index in doubtful:
        label = found.get(index)
        if label is not None and _listed(label) == labels[index - 1]:
            labels[index - 1] = label
        else:
            unknown.append(index)
    return replace(column, labels=tuple(labels), unknown_labels=tuple(unknown))


def _listed(label: str) -> str:
    return "".join("?" if ord(character) > 0xFFFF else character for character in label)


async def _of_variables(
    connection: SourceConnection, table: TableModel, column: ColumnModel, wanted: Sequence[int]
) -> dict[int, str]:
    """Return labels from MariaDB variables of the column's type."""
    kind = f"{_quoted(table.database)}.{_quoted(table.name)}.{_quoted(column.name)}"
    declared = " ".join(
        f"DECLARE x{index} TYPE OF {kind} DEFAULT {_number(column, index)};" for index in wanted
    )
    selected = ", ".join(f"HEX(x{index})" for index in wanted)
    rows = await connection.query(f"BEGIN NOT ATOMIC {declared} SELECT {selected}; END")
    return _texts(column, zip(wanted, rows[0], strict=True))


async def _of_rows(
    connection: SourceConnection, table: TableModel, column: ColumnModel, wanted: Sequence[int]
) -> dict[int, str]:
    """Return labels from the first rows of the table."""
    name = _quoted(column.name)
    rows = await connection.query(
        f"SELECT DISTINCT x + 0, HEX(x) FROM (SELECT {name} AS x FROM {_quoted(table.database)}."
        f"{_quoted(table.name)} WHERE {name} IS NOT NULL LIMIT {_SAMPLE}) AS y"
    )
    if column.kind == "enum":
        return _texts(column, ((int(float(number)), value) for number, value in rows))
    found: dict[int, str] = {}
    for number, value in rows:
        bits = int(float(number))
        used = [at for at in range(1, 65) if bits >> (at - 1) & 1]
        # The labels of a SET have no commas.
        texts = _texts(column, [(0, value)]).get(0, "").split(",")
        if len(texts) == len(used):
            found.update(zip(used, texts, strict=True))
    return found


def _texts(column: ColumnModel, values: Iterable[tuple[int, Any]]) -> dict[int, str]:
    """Decode values that are hexadecimal digits in the column's character set; skip invalid ones."""
    found: dict[int, str] = {}
    for index, value in values:
        digits = value.decode("ascii") if isinstance(value, bytes) else str(value)
        try:
            found[index] = decode_text(
                bytes.fromhex(digits), representative_id(column.charset or "utf8mb4")
            )
        except (UndecodableTextError, ValueError):
            continue
    return found


def _number(column: ColumnModel, index: int) -> int:
    return index if column.kind == "enum" else 1 << (index - 1)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


_AT_ONCE: Final = 5000
"""Tables of a part: servers without a data dictionary search a directory for each table."""
_TRIES: Final = 4
_LOG = logging.getLogger("replica_client.stream")


async def read_definitions(
    connection: SourceConnection,
    table: TableName | None = None,
    selection: Selection | None = None,
    silent: set[TableName] | None = None,
) -> list[TableModel]:
    """Read the definitions of tables from ``information_schema``.

    Args:
        connection: to the source.
        table: the only table to read; None: there may be more.
        selection: the wanted tables; None: all.
        silent: receives the tables that are listed without columns, which stay unknown.

    Raises:
        ServerError: the source refuses a query.
        SchemaError: a column's type is not understood.
    """
    server = connection.server
    with suppress_unknown_variable():  # servers without generated invisible keys
        await connection.query(queries.SHOW_HIDDEN)
    silent = set() if silent is None else silent
    if table is not None:
        return await _part(connection, silent, queries.where_table(table))
    wanted: Selection | None = None
    where: Where | None = None
    if selection is not None and not selection.selects_all:
        wanted = selection.for_server(server.casefolds_names)
        # Where letter case is ignored, only we compare names with the patterns.
        if server.casefolds_names is False:
            where = queries.where_patterns(selection.like_patterns())
    rows = await connection.query(*queries.names_query(where), lists_all=True)
    listed = list(map(_name_of, rows))
    names = [name for name in listed if wanted is None or wanted.wants(*name)]
    if not names:
        return []
    if len(listed) <= _AT_ONCE:
        return await _part(connection, silent, where, set(names))
    models: list[TableModel] = []
    for database, group in groupby(sorted(names), lambda name: name[0]):
        members = list(group)
        for start in range(0, len(members), _AT_ONCE):
            part = members[start : start + _AT_ONCE]
            where = queries.where_tables(database, [name for _, name in part])
            models += await _part(connection, silent, where, set(part))
    return models


def _name_of(row: Sequence[Any]) -> TableName:
    return queries.text_of(row[0]), queries.text_of(row[1])


async def _part(
    connection: SourceConnection,
    silent: set[TableName],
    where: Where | None,
    wanted: set[TableName] | None = None,
) -> list[TableModel]:
    server = connection.server
    for attempt in range(_TRIES):
        await asyncio.sleep(0.1 * attempt)
        columns, keys, tables = [
            await connection.query(*query, lists_all=True)
            for query in (
                queries.columns_query(server.flavor, where),
                queries.keys_query(where),
                queries.tables_query(where),
            )
        ]
        if wanted is not None:
            columns, keys, tables = [
                [row for row in rows if _name_of(row) in wanted] for rows in (columns, keys, tables)
            ]
        # Servers list a table without columns that they cannot open, or that a statement is
        # changing.
        lacking = set(map(_name_of, tables)) - set(map(_name_of, columns))
        if not lacking:
            break
    for name in sorted(lacking):
        _LOG.warning("the source lists %s.%s without its columns: nothing is known of it", *name)
    silent |= lacking
    models = queries.read_tables(tables, columns, keys, server.flavor, server.version)
    return [
        await with_true_labels(connection, await with_whole_defaults(connection, model))
        for model in models
    ]
