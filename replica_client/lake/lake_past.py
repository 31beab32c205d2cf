"""Tables of a lake as they were, made by undoing the changes after a moment on the current tables.

The images before changes are in the change files, so that older versions of the Delta tables are
not needed. A moment is one position of the binlog, so that tables read at it are consistent.
Changes that cannot be undone exactly are refused: a statement that created or changed the table, a
copy that was read after the moment, and files that were removed.
"""

from __future__ import annotations

import datetime
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from replica_client.errors import ConfigError, SinkError, StorageError
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.change_log_files import LOSS
from replica_client.lake.config import load_config
from replica_client.lake.data_files import data_files_of, delta_rows, open_delta
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import COPY_KEY, LakeTable, live_rows
from replica_client.lake.log_versions import (
    ROWS,
    ChangeLogVersions,
    LoggedVersion,
    first_untaken,
    is_inside,
)
from replica_client.lake.merge import Merge, undone
from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.lake.rewrite import net_rows, without_keys
from replica_client.lake.taken_copies import is_copy
from replica_client.lake.unmerged import Unmerged, from_json, parts_of, rows_of
from replica_client.rows.selection import Selection
from replica_client.storage.location import Location, reason_of
from replica_client.stream.transactions.arguments import micros_of, parse_start

_TRIES: Final = 5
_END: Final = "\U0010ffff"  # greater than every position
_OPPOSITE: Final = {"insert": "delete", "delete": "insert", "update": "update"}


@dataclass(frozen=True)
class LakeMoment:
    """A moment of a lake.

    Attributes:
        when: the moment as the user gave it.
        behind: changes with this ``_commit_version`` or a later one are after the moment.
    """

    when: str
    behind: str


class LakePast:
    """A reader of the tables of a lake as they were.

    Args:
        lake: its directory or URL.
        log: its change log.
    """

    def __init__(self, lake: Location, log: Location) -> None:
        self._lake = lake
        self._log = ChangeLogVersions(log)
        self._catalog = self._load()

    @property
    def _first_untaken(self) -> int:
        """The first version of the change log that the tables of the catalog do not have."""
        return first_untaken(self._catalog.step)

    def _load(self) -> LakeCatalog:
        catalog = LakeCatalog.load(self._lake)
        if catalog is None:
            raise ConfigError(f"{self._lake}: no lake with current tables; run the pipeline first")
        return catalog

    def tables(self) -> list[tuple[str, str]]:
        """Return the databases and names of the current tables."""
        entries = self._catalog.tables.values()
        return [entry.table for entry in entries if entry.status == "current"]

    def moment(self, when: str) -> LakeMoment:
        """Return a moment: after the transaction of a GTID, or before a time or ``FILE:OFFSET``.

        Raises:
            ConfigError: the lake does not have the moment; the message says why.
            SinkError: the change log cannot be read.
        """
        start = parse_start(when, "latest", "--at")
        if start == "latest":
            return LakeMoment(when, _END)
        if start == "earliest":
            raise ConfigError("--at earliest: give a GTID, a time or FILE:OFFSET")
        if isinstance(start, datetime.datetime):
            return LakeMoment(when, self._at_time(when, start))
        if start.file:
            return self._reached(LakeMoment(when, start.sort_key()))
        return LakeMoment(when, self._behind_gtid(when))

    def _taken(self) -> Iterator[LoggedVersion]:
        """Yield the versions that were applied to the tables, the newest first."""
        for number in range(self._first_untaken - 1, -1, -1):
            version = self._log.version(number)
            if not is_copy(version):
                yield version

    def _columns(self, version: LoggedVersion, names: list[str]) -> Iterator[pa.Table]:
        for file in version.files:
            try:
                yield read_parquet(self._log.directory / file.path, names)
            except (OSError, StorageError, pa.ArrowInvalid) as error:
                text = reason_of(error, self._log.directory)
                raise SinkError(
                    f"{self._log.directory / file.path}: {text}: the change log has forgotten what is needed"
                ) from None

    def _behind_gtid(self, when: str) -> str:
        wanted = when.strip()
        for version in self._taken():
            for found in self._columns(version, ["_gtid", "_commit_version"]):
                at = pc.index(found["_gtid"].cast(pa.string()), wanted.lower()).as_py()
                if at >= 0:
                    return str(found["_commit_version"].cast(pa.string())[at].as_py()) + "\0"
        raise ConfigError(
            f"--at {when}: the lake has taken no changes of this GTID; give one that changed a table of it, "
            "FILE:OFFSET, or a time"
        )

    def _at_time(self, when: str, moment: datetime.datetime) -> str:
        """Return the first transaction then or later; the log must have an earlier one, too."""
        wanted = pa.scalar(micros_of(moment), pa.int64())
        first, earlier = "", False
        for version in self._taken():
            for found in self._columns(version, ["_commit_timestamp", "_commit_version"]):
                times = found["_commit_timestamp"].cast(pa.int64())
                later = found["_commit_version"].filter(pc.greater_equal(times, wanted))
                if len(later):
                    least = pc.min(later.cast(pa.string())).as_py()
                    first = min(first or least, least)
                earlier |= len(later) < found.num_rows
        if not first:
            raise ConfigError(f"--at {when}: the lake has no change of then or later yet")
        if not earlier:
            raise ConfigError(f"--at {when}: the change log begins later")
        return first

    def _reached(self, moment: LakeMoment) -> LakeMoment:
        for version in self._taken():
            for file in version.files:
                if file.last and file.last >= moment.behind:
                    return moment
        raise ConfigError(f"--at {moment.when}: the lake has no change of there or later yet")

    def read(self, table: tuple[str, str], moment: LakeMoment) -> pa.Table:
        """Return the rows of a table at a moment, in the lake's types.

        Raises:
            ConfigError: the lake does not have them; the message says why.
            SinkError: a file cannot be read.
            DataLossError: the changes do not fit the table.
        """
        for _ in range(_TRIES):
            entry = self._entry(table)
            delta = open_delta(self._catalog.home(entry))
            pipelines = self._pipelines()
            steps = [delta.transaction_version(one) for one in pipelines]
            step = max((one for one in steps if one is not None), default=-1)
            if step <= self._catalog.step:
                shape = LakeTable(_model_of(entry))
                rows = self._rows(entry, shape, delta)
                if entry.soft_deletes and shape.source_key:
                    rows = live_rows(rows)
                return self._back(entry, shape, in_schema(rows, shape.schema, None), moment)
            self._catalog = self._load()  # a run wrote the table in the meantime
        raise ConfigError(f"{'.'.join(table)}: a run is writing it; try again")

    def _rows(self, entry: TableEntry, shape: LakeTable, delta: DeltaTable) -> pa.Table:
        home = self._catalog.home(entry)
        unmerged = Unmerged(self._log.directory, self._catalog.pipeline, from_json(entry.waiting))
        waiting = unmerged.behind(delta.transaction_version(unmerged.pipeline))
        if not waiting:
            return delta_rows(delta, home).to_table()
        parts = parts_of(home, shape, data_files_of(delta, shape), self._log.directory, waiting)
        return pa.concat_tables(rows for part in parts for rows in rows_of(home, shape, part))

    def _entry(self, table: tuple[str, str]) -> TableEntry:
        entry = self._catalog.tables.get(table)
        if entry is None or entry.status != "current":
            why = "there is none" if entry is None else f"it is {entry.status} ({entry.reason})"
            raise ConfigError(f"{'.'.join(table)}: not a current table of this lake: {why}")
        return entry

    def _pipelines(self) -> set[str]:
        """Return the applications whose commits show how far the tables are.

        Commits of ``retain`` and of vacuum have no transactions: the newest version that has some counts.
        """
        for version in self._taken():
            if version.transactions:
                return {self._catalog.pipeline, *version.transactions}
        return {self._catalog.pipeline}

    def _back(
        self, entry: TableEntry, shape: LakeTable, rows: pa.Table, moment: LakeMoment
    ) -> pa.Table:
        parts = list(self._parts(entry, moment))
        for part in reversed(parts):
            if isinstance(part, pa.Table):
                rows = _without_rows(shape, rows, part)
                continue
            work = Merge(
                self._catalog.home(entry), shape.model, (), self._log.directory, part,
                since=moment.behind,
            )  # fmt: skip
            net = undone(work, rows)
            if net is not None:
                kept = without_keys(rows, net.keys, shape.key)
                rows = pa.concat_tables([kept, net.rows.cast(shape.schema)])
        return rows

    def _parts(
        self, entry: TableEntry, moment: LakeMoment
    ) -> Iterator[pa.Table | tuple[ChangeFile, ...]]:
        """Yield the changes of a table after a moment, in order: envelope rows, or change files."""
        inside = is_inside(self._catalog.step)
        waiting: list[ChangeFile] = []
        for version in self._log.since(moment.behind, self._first_untaken + inside):
            if is_copy(version):
                self._check_copy(entry, version, moment)
                continue
            for files, rows in self._log.runs(version):
                mine = [one for one in files if (one.database, one.table) == entry.table]
                if rows is not None:
                    rows = rows.filter(pc.greater_equal(rows["_commit_version"], moment.behind))
                    self._check_statements(entry, rows, moment)
                    chosen = pc.and_(
                        pc.equal(rows["database"], entry.database),
                        pc.equal(rows["table"], entry.name),
                    )
                    rows = rows.filter(pc.and_(chosen, pc.is_in(rows["operation"], value_set=ROWS)))
                if inside and version.number == self._first_untaken and (mine or rows):
                    raise ConfigError(
                        f"{'.'.join(entry.table)}: a run ended in the midst of a batch; run the pipeline, then read"
                    )
                waiting += mine
                if rows is not None and rows.num_rows:
                    if waiting:
                        yield tuple(waiting)
                        waiting = []
                    yield rows
        if waiting:
            yield tuple(waiting)

    def _check_copy(self, entry: TableEntry, version: LoggedVersion, moment: LakeMoment) -> None:
        for file in version.files:
            found = self._log.rows([file], sort=False)
            stated = json.loads(found["after"][found.num_rows - 1].as_py())
            name = stated["database"], stated["table"]
            if name == entry.table and stated["high"] > moment.behind:
                raise ConfigError(
                    f"{'.'.join(entry.table)}: the lake copied it after {moment.when}, and has no earlier rows"
                )

    def _check_statements(self, entry: TableEntry, rows: pa.Table, moment: LakeMoment) -> None:
        """Raise an error if a statement after the moment may have changed the table."""
        others = rows.filter(pc.invert(pc.is_in(rows["operation"], value_set=ROWS)))
        for row in others.to_pylist():
            text = str(json.loads(row["after"] or "{}").get("statement", ""))
            names = (row["database"], row["table"])
            if (
                names == entry.table
                or row["operation"] == LOSS
                or (row["database"] == entry.database and not row["table"])
                or entry.name.casefold() in text.casefold()
            ):
                raise ConfigError(
                    f"{'.'.join(entry.table)}: {row['operation']} at {row['_file']}:{row['_offset']} is after "
                    f"{moment.when} ({text[:80]}), and cannot be undone; read the archive: replica-client as-of"
                )


def _model_of(entry: TableEntry) -> Any:
    assert entry.model is not None
    return entry.model


def _without_rows(shape: LakeTable, rows: pa.Table, part: pa.Table) -> pa.Table:
    """Undo rows of the envelope."""
    kinds = [_OPPOSITE[one] for one in reversed(part["operation"].to_pylist())]
    before, after = part["before"].to_pylist()[::-1], part["after"].to_pylist()[::-1]

    def copies(digests: Iterable[str]) -> Counter[str]:
        wanted = pa.array(sorted(set(digests)), pa.string())
        heads = pc.list_element(pc.split_pattern(rows[COPY_KEY], "#"), 0)
        return Counter(heads.filter(pc.is_in(heads, value_set=wanted)).to_pylist())

    net = net_rows(shape, kinds, after, before, copies)
    kept = without_keys(rows, shape.key_table(net.keys), shape.key)
    return pa.concat_tables([kept, net.rows.cast(shape.schema)])


def write_past(
    config: str | os.PathLike[str], tables: Sequence[str], at: str, directory: Path
) -> Iterator[tuple[str, int]]:
    """Write tables of a lake as they were at a moment; yield the name and number of rows of each.

    Args:
        config: the pipeline's configuration file.
        tables: names; ``*`` and ``?`` stand for parts.
        at: the moment, see :meth:`~replica_client.lake.lake_past.LakePast.moment`.
        directory: directory for the files ``database.name.parquet``.

    Raises:
        ConfigError: no such table, or the lake does not have it as it was then.
        SinkError: a file cannot be read or written.
    """
    found = load_config(Path(config))
    past = LakePast(found.output, found.change_log)
    selection = Selection(tables=tables)
    names = sorted(name for name in past.tables() if selection.wants(*name))
    if not names:
        raise ConfigError(f"{', '.join(tables)}: no current table of this lake has such a name")
    moment = past.moment(at)
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        rows = past.read(name, moment)
        if COPY_KEY in rows.column_names:
            rows = rows.drop_columns([COPY_KEY])
        pq.write_table(rows, directory / f"{'.'.join(name).replace('/', '%2F')}.parquet")
        yield ".".join(name), rows.num_rows
