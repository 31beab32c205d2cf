"""The source's checksums and rows, read in one consistent state."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.lake.verify.row_groups import (
    Checksum,
    Checksums,
    Grouping,
    grouping_of,
    has_integer_key,
)
from replica_client.lake.verify.texts import RowTexts, sql_text
from replica_client.schema.model import TableModel
from replica_client.schema.quoting import mysql_name, mysql_table
from replica_client.snapshot import Locking, Window, begin_between
from replica_client.transport.connection import SourceConnection


async def source_checksums(
    connection: SourceConnection, table: TableModel, locking: Locking
) -> tuple[Grouping, Checksums, Window]:
    """Read the checksums of a table's groups, and the positions between which they were read."""
    window = await begin_between(connection, locking)
    least = greatest = None
    if has_integer_key(table):
        name = mysql_name(table.primary_key[0][0])
        where = mysql_table(table.database, table.name)
        rows = await connection.query(f"SELECT MIN({name}), MAX({name}) FROM {where}", columns=2)
        least, greatest = (None if value is None else int(value) for value in rows[0])
    grouping = grouping_of(table, least, greatest)
    found: Checksums = {}
    async for some in connection.stream(grouping.sql_checksums()):
        for group, count, total, mixed in some:
            found[int(group)] = Checksum(int(count), int(total), int(mixed))
    await connection.query("ROLLBACK")
    return grouping, found, window


async def source_rows(
    connection: SourceConnection, grouping: Grouping, groups: Sequence[int], locking: Locking
) -> tuple[list[RowTexts], Window]:
    """Read the texts of the rows of groups, which the server formats."""
    window = await begin_between(connection, locking)
    table = grouping.table
    texts = ", ".join(sql_text(column) for column in grouping.columns)
    sql = (
        f"SELECT {texts} FROM {mysql_table(table.database, table.name)} "
        f"WHERE {grouping.sql_where(groups)}"
    )
    found = []
    async for some in connection.stream(sql):
        found += [grouping.server_row(row) for row in some]
    await connection.query("ROLLBACK")
    return found, window
