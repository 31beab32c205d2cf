"""The two sides of a verification: lake and source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from replica_client.errors import ConfigError
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.merge import Merge
from replica_client.lake.parquet_files import parquet_file
from replica_client.lake.unmerged import rows_of
from replica_client.lake.verify.row_groups import (
    Checksum,
    Checksums,
    Grouping,
    differing,
    grouping_of,
    has_integer_key,
)
from replica_client.lake.verify.texts import RowTexts, shown_text, sql_text
from replica_client.schema.model import TableModel
from replica_client.schema.names import mysql_name, mysql_table
from replica_client.storage.location import Location
from replica_client.stream.snapshot import Locking, Window, begin_between
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connect_options import parse_url
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


# A table of a source against a Parquet file of its rows, for ``as-of --prove``.
#
# The texts of one side are made by the server, those of the other from the file by the rules of
# :mod:`~replica_client.lake.verify.texts`, which the writer of the file does not use.


SHOWN: Final = 10


@dataclass(frozen=True)
class SourceChecksums:
    """The checksums that a source made of a table.

    Attributes:
        grouping: the columns that were compared, and the groups of rows.
        checksums: the checksums by group.
        window: the positions between which the table was read.
    """

    grouping: Grouping
    checksums: Checksums
    window: Window


async def read_checksums(
    url: str, name: tuple[str, str], without: Sequence[str], locking: Locking
) -> SourceChecksums:
    """Read the checksums of a table.

    Args:
        url: URL of the server.
        name: database and name of the table.
        without: columns to leave out.
        locking: see :data:`~replica_client.stream.snapshot.watermarks.Locking`.

    Raises:
        ConfigError: there is no such table.
        ReplicaClientError: the server refuses, or cannot be reached.
    """
    async with await SourceConnection.open(parse_url(url)) as connection:
        model = (await read_definitions(connection, name)).get(name)
        if model is None:
            raise ConfigError(f"there is no table {'.'.join(name)}")
        kept = _without(model, without)
        return SourceChecksums(*await source_checksums(connection, kept, locking))


def _without(model: TableModel, names: Sequence[str]) -> TableModel:
    return replace(model, columns=tuple(one for one in model.columns if one.name not in names))


def differing_groups(path: Path, source: SourceChecksums) -> list[int]:
    """Return the groups in which the rows of a file and of the source differ."""
    return differing(source.grouping.lake_checksums(_rows_of_file(path)), source.checksums)


async def differing_rows(
    path: Path, url: str, source: SourceChecksums, groups: Sequence[int], locking: Locking
) -> tuple[list[str], Window]:
    """Return the first rows that only one side has, as text, and when the source was read.

    A server may format FLOAT and DOUBLE in another way: there may be none in groups that differ.
    """
    grouping, wanted = source.grouping, frozenset(groups)
    async with await SourceConnection.open(parse_url(url)) as connection:
        texts, window = await source_rows(connection, grouping, groups, locking)
    theirs = Counter(texts)
    mine = Counter(
        row for row, group, _ in grouping.checked(_rows_of_file(path)) if group in wanted
    )
    found = [f"only in the source: {_shown(grouping, row)}" for row in (theirs - mine).elements()]
    found += [f"only in the archive: {_shown(grouping, row)}" for row in (mine - theirs).elements()]
    return found[:SHOWN], window


def _shown(grouping: Grouping, texts: RowTexts) -> dict[str, str | None]:
    names = [column.name for column in grouping.columns]
    return dict(zip(names, map(shown_text, texts), strict=True))


def _rows_of_file(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            yield from batch.to_pylist()
