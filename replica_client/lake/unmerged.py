"""Change files that are not yet merged into their table, and the rows of table and files together.

A merge rewrites each data file in whose range of keys a row changed, so that random changes of a
big table rewrite all of it. Changes may wait instead, and be merged at once; until then readers
merge them as they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from replica_client.errors import SinkError, StorageError
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.data_files import FULL_DATA_FILE_SIZE, DataFile
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.merge import Merge, net_by_key, plan_merges
from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.lake.rewrite import without_keys
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.location import Location, reason_of


@dataclass(frozen=True, slots=True)
class Unmerged:
    """The waiting change files of a table.

    Attributes:
        log: directory of the change log.
        pipeline: the pipeline under which the table counts its steps.
        files: the files, each with its step, in the order of the binlog.
    """

    log: Location
    pipeline: str
    files: tuple[tuple[int, ChangeFile], ...]

    def behind(self, step: int | None) -> list[ChangeFile]:
        """Return the files that a table with a step does not have yet."""
        return [file for number, file in self.files if step is None or number > step]


def parts_of(
    directory: Location,
    table: LakeTable,
    data_files: Sequence[DataFile],
    log: Location,
    changes: Sequence[ChangeFile],
) -> list[DataFile | Merge]:
    """Return the parts of a table's rows: data files, and merges of files with changes."""
    if not changes:
        return list(data_files)
    units = plan_merges(directory, table, data_files, log, changes, FULL_DATA_FILE_SIZE)
    concerned = {path for unit in units for path in unit.paths}
    return [*(file for file in data_files if file.path not in concerned), *units]


def rows_of(directory: Location, table: LakeTable, part: DataFile | Merge) -> Iterator[pa.Table]:
    """Yield the rows of a part, in the table's types.

    Raises:
        SinkError: a file cannot be read.
        SchemaMismatchError: changes do not fit the table.
    """
    try:
        if isinstance(part, DataFile):
            yield _read(directory, table, part.path)
            return
        net = net_by_key(part, table)
        for path in part.paths:
            rows = _read(directory, table, path)
            yield rows if net is None else without_keys(rows, net.keys, table.key)
        if net is not None:
            yield net.rows.cast(table.schema)
    except (OSError, StorageError, pa.ArrowInvalid) as error:
        raise SinkError(
            f"{directory}: {reason_of(error, directory)}; a run has merged or removed it meanwhile: open the lake again"
        ) from None


def _read(directory: Location, table: LakeTable, path: str) -> pa.Table:
    return in_schema(read_parquet(directory / path), table.schema, None)


def to_json(files: Sequence[tuple[int, ChangeFile]]) -> list[Any]:
    """Return waiting change files as JSON values for the catalog."""
    return [[step, asdict(file)] for step, file in files]


def from_json(value: Sequence[Any]) -> tuple[tuple[int, ChangeFile], ...]:
    """Return the change files from the JSON values of :func:`to_json`."""
    return tuple((int(step), ChangeFile(**one)) for step, one in value)
