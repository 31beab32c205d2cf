"""A table of a source against a Parquet file of its rows, for ``as-of --prove``.

The texts of one side are made by the server, those of the other from the file by the rules of
:mod:`~replica_client.lake.verify.texts`, which the writer of the file does not use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from replica_client.errors import ConfigError
from replica_client.lake.verify.row_groups import Checksums, Grouping, differing
from replica_client.lake.verify.sides import source_checksums, source_rows
from replica_client.lake.verify.texts import RowTexts, shown_text
from replica_client.schema.model import TableModel
from replica_client.stream.snapshot import Locking, Window
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.url import parse_url

SHOWN: Final = 10
_ROWS_AT_ONCE: Final = 20_000


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
    return differing(source.grouping.lake_checksums(_rows(path)), source.checksums)


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
    mine = Counter(row for row, group, _ in grouping.checked(_rows(path)) if group in wanted)
    found = [f"only in the source: {_shown(grouping, row)}" for row in (theirs - mine).elements()]
    found += [f"only in the archive: {_shown(grouping, row)}" for row in (mine - theirs).elements()]
    return found[:SHOWN], window


def _shown(grouping: Grouping, texts: RowTexts) -> dict[str, str | None]:
    names = [column.name for column in grouping.columns]
    return dict(zip(names, map(shown_text, texts), strict=True))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            yield from batch.to_pylist()
