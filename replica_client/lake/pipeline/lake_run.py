"""The lake's side of a pipeline run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake.transaction import AddAction

from replica_client.errors import ConfigError, ServerError
from replica_client.lake.applier import Applied, Applier
from replica_client.lake.change_log_files import CountedFiles, commit_several
from replica_client.lake.config import PipelineConfig
from replica_client.lake.copies import (
    REASON,
    ChunkManifest,
    ChunkRefusal,
    ChunkTask,
    CopyPlan,
    CopyRequests,
    copies_directory,
    copy_chunk,
    tables_of,
)
from replica_client.lake.iceberg_tables import IcebergTables
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import cannot_hold
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.lake.pipeline.workers import Workers
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import CHANGED_ERRORS
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.storage.files import remove_files, remove_tree
from replica_client.storage.location import Location
from replica_client.stream.live.live_schema import read_source
from replica_client.stream.snapshot import begin_between, log_end, low_watermark
from replica_client.stream.snapshot.watermarks import cascaded_tables, read_definitions
from replica_client.stream.transport.connection import SourceConnection

CASCADED: Final = (
    "a foreign key changes its rows (CASCADE, SET NULL), and this source writes that into no binlog"
)


def prepare_lake(config: PipelineConfig) -> str:
    """Look at the source before the first run; makes the catalog.

    Returns:
        where the stream begins: everything before it is visible to every copy that is made later, and
        the tables look there as the catalog says.

    Raises:
        ConfigError: the source cannot be copied.
        ServerError: it refuses.
    """
    options = SourceOptions.parse(config.source)
    history, start, cascaded = asyncio.run(_look(options, config))
    catalog = LakeCatalog(config.output, history=history)
    selection = selection_of(options).for_server(history.lower_case_names)
    for name in history.tables():
        model = history.table(name)
        if isinstance(model, TableModel) and selection.wants(*name) and name[0] != "mysql":
            entry = TableEntry(*name, status="left_out", model=model)
            entry.reason = cannot_hold(model) or (CASCADED if name in cascaded else "")
            if not entry.reason:
                entry.needs_copy("its first copy")
            catalog.tables[name] = entry
    catalog.save()
    return start


async def _look(
    options: SourceOptions, config: PipelineConfig
) -> tuple[SchemaHistory, str, frozenset[TableName]]:
    assert options.connect is not None
    history, start = await read_source(options.connect, options.decode)
    async with await SourceConnection.open(options.connect) as connection:
        # From here on everything before the status' position is visible.
        if config.lake.locking == "brief":
            await begin_between(connection, "brief")
            await connection.query("ROLLBACK")
        else:
            await low_watermark(connection)
        selection = selection_of(options).for_server(history.lower_case_names)
        wanted = [name for name in history.tables() if selection.wants(*name)]
        cascaded = await cascaded_tables(connection, wanted)
    return history, f"{start.file}:{start.offset}", cascaded


def selection_of(options: SourceOptions) -> Selection:
    """Return the selection of tables of a pipeline."""
    return Selection(options.tables, options.exclude)


def check_image(config: PipelineConfig) -> None:
    """Refuse a live MariaDB that does not log whole rows.

    MySQL's MINIMAL and NOBLOB leave columns out of an UPDATE that it does not change; MariaDB's also those that a
    REPLACE gave their defaults.

    Raises:
        ConfigError: ``binlog_row_image`` is not FULL.
    """
    options = SourceOptions.parse(config.source)
    if options.connect is None:
        return
    image = asyncio.run(_row_image(options))
    if image and image not in ("FULL", "FULL_NODUP"):
        raise ConfigError(
            f"{options.connect.address} has binlog_row_image={image}: current tables need whole rows of MariaDB, as "
            "its REPLACE leaves out what gets its default; SET GLOBAL binlog_row_image = 'FULL', or current = false "
            "in [lake]"
        )


async def _row_image(options: SourceOptions) -> str:
    """Return ``binlog_row_image`` of a MariaDB source in capitals, or ``""`` for MySQL."""
    assert options.connect is not None
    async with await SourceConnection.open(options.connect) as connection:
        if connection.server.flavor != ServerFlavor.MARIADB:
            return ""
        rows: list[tuple[Any, ...]] = await connection.query(
            "SHOW GLOBAL VARIABLES LIKE 'binlog_row_image'"
        )
    return str(rows[0][1]).upper() if rows and len(rows[0]) > 1 else ""


CHUNKS_AT_ONCE: Final = 64
"""Chunks that are read together; a run that is killed reads at most the chunks that were under way again."""
_CHUNK_SIZE: Final = 8 << 20
"""Bytes of binlog that take as long to read as a chunk of 200,000 rows of a table."""

_REQUEST_SECONDS: Final = 2.0
_COPIES_AT_ONCE: Final = 100
"""Copies of one commit of the change log."""


def _selection(patterns: Sequence[str]) -> Selection | None:
    return Selection(list(patterns)) if patterns else None


@dataclass(frozen=True, slots=True)
class _Unread:
    """A copy of a table that the source did not show.

    Attributes:
        copy: its id.
        end: a position after every statement that can be the reason.
        reason: why the table is left out when no statement before ``end`` gives a reason; ``""``:
            the table is looked up again.
    """

    copy: str
    end: Position
    reason: str = ""


@dataclass
class Copied:
    """The tables and rows that a run copied."""

    tables: int = 0
    rows: int = 0


class LakeRun:
    """Keeps the current tables in step with the change log.

    Args:
        config: of the pipeline.
        pipeline: its id.
        schema: of the change log.
        workers: copy chunks of tables and rewrite their files.
        say: takes a line about what is being done.
    """

    def __init__(
        self,
        config: PipelineConfig,
        pipeline: str,
        schema: pa.Schema,
        workers: Workers,
        say: Callable[[str], None],
    ) -> None:
        self._config = config
        self._pipeline = pipeline
        self._schema = schema
        self._workers = workers
        self._say = say
        self._options = SourceOptions.parse(config.source)
        self.catalog = LakeCatalog.load(config.output) or LakeCatalog(config.output)
        if self._options.letter_case is not None:
            self.catalog.history.casefold_names(self._options.letter_case != 0)
        if config.format == "iceberg":
            self.catalog.publish = IcebergTables(
                config.output, config.catalog, goes_on=True
            ).publish
        self.catalog.save()  # another process that thinks that the lake is its own writes no more
        self.catalog.remove_unnamed()
        self.applier = Applier(
            self.catalog,
            ChangeLogVersions(config.change_log),
            pipeline,
            selection_of(self._options),
            workers.rewrite,
            can_copy=config.lake.copies,
            merge=config.lake.merge_policy,
            history=_selection(config.lake.history),
            soft_deletes=_selection(config.lake.soft_deletes),
        )
        self.copied = Copied()
        self.applied = Applied()
        self._read: dict[TableName, tuple[str, list[ChunkManifest]]] = {}
        self._unread: dict[TableName, _Unread] = {}
        self._look_at = 0.0

    def apply(self) -> Applied:
        """Merge the new changes of the change log into the tables."""
        done = self.applier.run()
        total = self.applied
        total.versions += done.versions
        total.changes += done.changes
        total.files += done.files
        total.kept += done.kept
        total.tables |= done.tables
        return done

    def adopt_selection(self) -> None:
        """Forget tables that left ``tables``, and copy those that came; take pending requests.

        Raises:
            PositionStoreError: the catalogue cannot be written.
        """
        for gone in self.applier.adopt_selection():
            self._say(f"{'.'.join(gone)} left tables: it is not a table of the lake any more")
        self.take_requests()

    def take_requests(self) -> None:
        """Mark the tables whose copies users asked for, at most every two seconds.

        Raises:
            PositionStoreError: the catalogue cannot be written.
        """
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _REQUEST_SECONDS
        requests = CopyRequests(self._config.output)
        found = requests.found()
        if not found:
            return
        self.applier.recover()
        for pattern in (one for asked in found.values() for one in asked):
            for entry in tables_of(self.catalog, pattern):
                if self._config.lake.copies:
                    entry.needs_copy(REASON)
        self.catalog.save()
        requests.remove(list(found))

    @property
    def to_copy(self) -> list[TableEntry]:
        """Tables of which a copy is due and not read yet."""
        return [
            entry
            for entry in self.catalog.tables.values()
            if entry.status == "copying"
            and self._read.get(entry.table, ("",))[0] != entry.copy
            and (entry.table not in self._unread or self._unread[entry.table].copy != entry.copy)
        ]

    @property
    def copies_end(self) -> Position | None:
        """The position that the stream must have passed before all copies that were read are taken."""
        ends = [manifest.end for _, manifests in self._read.values() for manifest in manifests]
        return max([*ends, *(unread.end for unread in self._unread.values())], default=None)

    def read_copies(self) -> None:
        """Read the tables that are to be copied, chunk by chunk.

        The source shows its tables as they are now, and a statement between here and there may have dropped,
        renamed or altered one. What it does not show waits until the stream has passed such a statement.
        """
        self.applier.recover()
        wanted = self.to_copy
        if not wanted:
            return
        assert self._options.connect is not None
        plans = asyncio.run(self._plans(wanted))
        tasks: list[ChunkTask] = []
        planned: list[tuple[TableEntry, CopyPlan, Location]] = []
        for entry in wanted:
            plan = plans[entry.table]
            if isinstance(plan, _Unread):
                self._unread[entry.table] = plan
                continue
            manifests = self._manifests(entry.copy)
            plan.save(manifests)
            entry.building = entry.building or self.catalog.new_directory()
            planned.append((entry, plan, manifests))
        self.catalog.save()  # the directories that executors write to have names
        for entry, plan, manifests in planned:
            tasks += [
                ChunkTask(
                    self._options.connect,
                    self._config.change_log,
                    manifests,
                    entry.copy,
                    number,
                    plan.table,
                    part,
                    self.catalog.staging(entry),
                    self._config.lake.locking,
                    self._schema,
                    self.applier.keeps_deleted(entry.table),
                )
                for number, part in enumerate(plan.parts)
            ]
        found: dict[str, list[ChunkManifest]] = {}
        refused: dict[str, ChunkRefusal] = {}
        rows = 0
        for begin in range(0, len(tasks), CHUNKS_AT_ONCE):
            some = [t for t in tasks[begin : begin + CHUNKS_AT_ONCE] if t.copy not in refused]
            self._say(f"copying tables: {begin:,} of {len(tasks):,} chunks, {rows:,} rows")
            manifests_of = self._workers.map(copy_chunk, some, len(tasks) * _CHUNK_SIZE)
            for task, manifest in zip(some, manifests_of, strict=True):
                if isinstance(manifest, ChunkRefusal):
                    refused[task.copy] = manifest
                    continue
                found.setdefault(task.copy, []).append(manifest)
                rows += manifest.rows
        for entry in wanted:
            if (refusal := refused.get(entry.copy)) is not None:
                self._say(f"{'.'.join(entry.table)} is copied again: {refusal.reason}")
                directory = self.catalog.staging(entry)
                self._forget(entry.copy, found.get(entry.copy, ()), directory)
                self._unread[entry.table] = _Unread(entry.copy, refusal.end)
            elif entry.copy in found:
                self._read[entry.table] = entry.copy, found[entry.copy]

    async def _plans(self, wanted: Sequence[TableEntry]) -> dict[TableName, CopyPlan | _Unread]:
        assert self._options.connect is not None
        rows = self._config.lake.chunk_rows
        plans: dict[TableName, CopyPlan] = {}
        lacks: dict[TableName, str] = {}
        async with await SourceConnection.open(self._options.connect) as connection:
            models = await read_definitions(connection)
            for entry in wanted:
                plan = CopyPlan.load(self._manifests(entry.copy), *entry.table)
                if plan is None and entry.table in models:
                    try:
                        plan = await CopyPlan.make(connection, models[entry.table], rows)
                    except ServerError as error:
                        if error.errno not in CHANGED_ERRORS:
                            raise
                        lacks[entry.table] = ""  # it is looked at again
                        continue
                if plan is None:
                    lacks[entry.table] = "the source does not show it"
                elif reason := cannot_hold(
                    plan.table, soft_deletes=self.applier.keeps_deleted(entry.table)
                ):
                    lacks[entry.table] = reason
                else:
                    plans[entry.table] = plan
            cascaded = await cascaded_tables(connection, list(plans))
            lacks |= dict.fromkeys(cascaded, CASCADED)
            end = await log_end(connection)
        return {
            entry.table: plans[entry.table]
            if entry.table not in lacks
            else _Unread(entry.copy, end, lacks[entry.table])
            for entry in wanted
        }

    def _manifests(self, copy: str) -> Location:
        return copies_directory(self._config.output) / copy

    def log_copies(self, reached: Position | None) -> bool:
        """Add the copies that the stream has passed to the change log.

        Tables that the source did not show are left out or looked up again once the stream has
        passed the place that can explain it.

        Args:
            reached: how far the change log has the stream's changes, all of them merged into the tables.

        Returns:
            whether the change log has something new.
        """
        self._settle(reached)
        due: list[tuple[TableName, CountedFiles]] = []
        for table, (copy, manifests) in list(self._read.items()):
            entry = self.catalog.tables.get(table)
            if entry is None or entry.copy != copy:
                del self._read[table]  # a statement changed the table meanwhile
                self._forget(copy, manifests)
                continue
            if reached is None or any(manifest.end > reached for manifest in manifests):
                continue
            actions = [
                AddAction(
                    manifest.path, manifest.size, {}, manifest.modified, True, manifest.statistics
                )
                for manifest in manifests
            ]
            due.append((table, CountedFiles(f"{self._pipeline}/snapshot/{copy}", 1, actions)))
        for begin in range(0, len(due), _COPIES_AT_ONCE):
            some = due[begin : begin + _COPIES_AT_ONCE]
            commit_several(self._config.change_log, [files for _, files in some])
            for table, _ in some:
                _, manifests = self._read.pop(table)
                self.copied.tables += 1
                self.copied.rows += sum(manifest.rows for manifest in manifests)
        return bool(due)

    def _settle(self, reached: Position | None) -> None:
        for table, unread in list(self._unread.items()):
            entry = self.catalog.tables.get(table)
            if entry is None or entry.copy != unread.copy:
                del self._unread[table]  # a statement explained it
            elif reached is not None and unread.end <= reached:
                del self._unread[table]
                if unread.reason:
                    entry.leave_out(unread.reason)
                    self.catalog.save()

    def _forget(
        self, copy: str, manifests: Sequence[ChunkManifest], directory: Location | None = None
    ) -> None:
        """Remove the files of a copy; those in the directory of a table that is gone went with it."""
        remove_files(*(self._config.change_log / manifest.path for manifest in manifests))
        if directory is not None:
            names = (one["path"] for manifest in manifests for one in manifest.data_files)
            remove_files(*(directory / name for name in names))
        remove_tree(self._manifests(copy))

    @property
    def complete(self) -> bool:
        """Whether no table waits for its copy."""
        return all(entry.status != "copying" for entry in self.catalog.tables.values())
