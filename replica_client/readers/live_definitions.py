"""Current definitions of a live source's tables, listed some thousand at a time.

Listing tens of thousands of tables takes a server minutes, and some servers send the first row only
when they have the last one. Listing in parts lets each answer arrive in time and bounds memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from replica_client.readers.live.live_defaults import with_whole_defaults
from replica_client.readers.live.live_labels import with_true_labels
from replica_client.rows.selection import Selection
from replica_client.schema import information_schema as queries
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.information_schema import Where
from replica_client.schema.model import TableModel
from replica_client.transport.connection import SourceConnection, suppress_unknown_variable

_AT_ONCE: Final = 5000
"""Tables of a part: servers without a data dictionary search a directory for each table."""
_TRIES: Final = 4
_LOG = logging.getLogger("replica_client")


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
