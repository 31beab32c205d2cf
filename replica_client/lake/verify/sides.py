"""The two sides of a verification: lake and source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from replica_client.lake.lake_table import LakeTable
from replica_client.lake.merge import Merge
from replica_client.lake.parquet_files import parquet_file
from replica_client.lake.unmerged import rows_of
from replica_client.lake.verify.row_groups import (
    Checksum,
    Checksums,
    Grouping,
    grouping_of,
    has_integer_key,
)
from replica_client.lake.verify.texts import RowTexts, sql_text
from replica_client.schema.model import TableModel
from replica_client.schema.names import mysql_name, mysql_table
from replica_client.storage.location import Location
from replica_client.stream.snapshot import Locking, Window, begin_between
from replica_client.stream.transport.connection import SourceConnection

_ROWS_AT_ONCE: Final = 20_000
_DELETED: Final = "_deleted"


@dataclass(frozen=True)
class FileTask:
    """A file of a state table to read.

    Attributes:
        path: the file's location.
        size: the file's size.
        grouping: the table's grouping.
        groups: groups whose rows are wanted; None: checksums are wanted.
        unit: a merge of waiting changes to read instead of the path.
        has_deleted: whether the file has marked rows that the source deleted.
    """

    path: Location
    size: int
    grouping: Grouping
    groups: frozenset[int] | None = None
    unit: Merge | None = None
    has_deleted: bool = False


Mapper = Callable[[Callable[[FileTask], Any], Sequence[FileTask]], list[Any]]
"""Runs a function on each task, in this process or on executors."""


def map_here(function: Callable[[FileTask], Any], tasks: Sequence[FileTask]) -> list[Any]:
    """Run a function on each task in this process."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, tasks))


def file_checksums(task: FileTask) -> Checksums:
    """Return the checksums of a file's rows."""
    return task.grouping.lake_checksums(_rows(task))


def file_rows(task: FileTask) -> list[RowTexts]:
    """Return the texts of a file's rows that are in the wanted groups."""
    wanted = task.groups or frozenset()
    return [texts for texts, group, _ in task.grouping.checked(_rows(task)) if group in wanted]


def _rows(task: FileTask) -> Iterator[dict[str, Any]]:
    if task.unit is not None:
        # The lake's own code merges waiting changes; the values are then read like those of files.
        for rows in rows_of(task.path, LakeTable(task.grouping.table), task.unit):
            yield from rows.to_pylist()
        return
    names = [column.name for column in task.grouping.columns]
    with parquet_file(task.path) as file:
        missing = dict.fromkeys(set(names) - set(file.schema_arrow.names))
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            for row in batch.to_pylist():
                if not (task.has_deleted and row.get(_DELETED)):
                    yield {**missing, **row}


def together(parts: Sequence[Checksums]) -> Checksums:
    """Return the checksums of a table from those of its files."""
    found: Checksums = {}
    for part in parts:
        for group, checksum in part.items():
            found.setdefault(group, Checksum()).merge(checksum)
    return found


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
