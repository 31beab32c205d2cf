"""Change files that are not yet merged into their table, and the rows of table and files together.

A merge rewrites each data file in whose range of keys a row changed, so that random changes of a
big table rewrite all of it. Changes may wait instead, and be merged at once; until then readers
merge them as they read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from replica_client.errors import ConfigError, SinkError, StorageError
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.data_files import FULL_DATA_FILE_SIZE, DataFile
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.merge import Merge, net_by_key, plan_merges
from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.lake.rewrite import without_keys
from replica_client.options import size_of
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.location import Location, reason_of

if TYPE_CHECKING:
    from replica_client.lake.change_files import ChangeFile


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


_TIME: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(second|minute|hour)s?\s*")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600}
_SHARE: Final = 8
_LONGEST: Final = 3600.0
_MOST_FILES: Final = 200


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """The condition for merging changes: one of two limits, or 200 change files.

    Attributes:
        size: bytes of change files at which they are merged; None: an eighth of the table's own
            bytes.
        seconds: seconds after which they are merged; None: no limit.
    """

    size: int | None = 0
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> MergePolicy:
        """Return the policy from a text.

        The text is ``always``, ``adaptive``, a time such as ``10 minutes``, or a size such as
        ``256m``.

        Raises:
            ConfigError: the text is none of these.
        """
        if text == "always":
            return cls()
        if text == "adaptive":
            return cls(None, _LONGEST)
        if (found := _TIME.fullmatch(text)) is not None:
            return cls(1 << 62, float(found[1]) * _SECONDS[found[2]])
        size = size_of(text)
        if size is None:
            raise ConfigError(
                f'{text!r}; give "always", "adaptive", a time such as "10 minutes", or a size such as "256m"'
            )
        return cls(size)

    def is_due(self, waiting: Sequence[ChangeFile], table_size: int, since: float) -> bool:
        """Return whether the waiting change files should be merged now.

        Args:
            waiting: all waiting files.
            table_size: bytes of the table's data files.
            since: when the first of them was written, in seconds since 1970.
        """
        if len(waiting) >= _MOST_FILES:
            return True  # the catalog lists all of them, and readers open each one
        if self.seconds is not None and time.time() - since >= self.seconds:
            return True
        limit = table_size // _SHARE if self.size is None else self.size
        return sum(file.size for file in waiting) >= limit


ALWAYS: Final = MergePolicy()
"""Merges at each step: no changes wait."""
