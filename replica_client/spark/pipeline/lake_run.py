"""The lake's side of a pipeline run: first copies, and the change log taken into the tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake.transaction import AddAction
from pyspark.sql import SparkSession

from replica_client.errors import ConfigError
from replica_client.lake.applier import Applied, Applier, cannot_hold, local_runner, run_work
from replica_client.lake.change_log_files import commit_files
from replica_client.lake.config import PipelineConfig
from replica_client.lake.copies import (
    ChunkManifest,
    ChunkTask,
    CopyPlan,
    copies_directory,
    copy_chunk,
)
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.state_table import Runner, Work
from replica_client.position.position import Position
from replica_client.readers.live.live_schema import read_source
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.snapshot import begin_between, low_watermark
from replica_client.snapshot.present_definitions import cascaded_tables, read_definitions
from replica_client.spark.pipeline.executors import on_executors
from replica_client.storage.files import remove_files, remove_tree
from replica_client.storage.location import Location
from replica_client.transport.connection import SourceConnection

CASCADED: Final = (
    "a foreign key changes its rows (CASCADE, SET NULL), and this source writes that into no binlog"
)
CHUNKS_AT_ONCE: Final = 64
"""Chunks of one Spark job; a run that is killed reads at most the chunks that were under way again."""


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
    async with await SourceConnection.open(options.connect) as connection:
        history, status = await read_source(connection, options.decode)
        # From here on everything before the status' position is visible.
        if config.lake.locking == "brief":
            await begin_between(connection, "brief")
            await connection.query("ROLLBACK")
        else:
            await low_watermark(connection)
        selection = selection_of(options).for_server(history.lower_case_names)
        wanted = [name for name in history.tables() if selection.wants(*name)]
        cascaded = await cascaded_tables(connection, wanted)
    return history, f"{status.file}:{status.position}", cascaded


def selection_of(options: SourceOptions) -> Selection:
    """The tables that a pipeline wants."""
    return Selection(options.tables, options.exclude)


def spark_runner(spark: Callable[[], SparkSession], above: int) -> Runner:
    """Rewrites files on executors where there is much to rewrite, else here."""
    here = local_runner()

    def run(works: Sequence[Work]) -> list[Any]:
        if sum(work.size for work in works) <= above:
            return here(works)
        return on_executors(spark(), run_work, works)

    return run


@dataclass
class Copied:
    """What was copied by a run."""

    tables: int = 0
    rows: int = 0


class LakeRun:
    """Keeps the current tables in step with the change log.

    Args:
        config: of the pipeline.
        pipeline: its id.
        schema: of the change log.
        spark: gives the session that runs what is distributed.
        say: takes a line about what is being done.
    """

    def __init__(
        self,
        config: PipelineConfig,
        pipeline: str,
        schema: pa.Schema,
        spark: Callable[[], SparkSession],
        say: Callable[[str], None],
    ) -> None:
        self._config = config
        self._pipeline = pipeline
        self._schema = schema
        self._spark = spark
        self._say = say
        self._options = SourceOptions.parse(config.source)
        self.catalog = LakeCatalog.load(config.output) or LakeCatalog(config.output)
        if self._options.letter_case is not None:
            self.catalog.history.casefold_names(self._options.letter_case != 0)
        self.catalog.save()  # another process that thinks that the lake is its own writes no more
        self.catalog.remove_unnamed()
        self.applier = Applier(
            self.catalog,
            ChangeLogVersions(config.change_log),
            pipeline,
            selection_of(self._options),
            spark_runner(spark, config.lake.distribute_above),
            can_copy=config.lake.copies,
        )
        self.copied = Copied()
        self.applied = Applied()
        self._read: dict[TableName, tuple[str, list[ChunkManifest]]] = {}

    def apply(self) -> Applied:
        """Take what is new in the change log."""
        done = self.applier.run()
        total = self.applied
        total.versions += done.versions
        total.changes += done.changes
        total.files += done.files
        total.kept += done.kept
        total.tables |= done.tables
        return done

    @property
    def to_copy(self) -> list[TableEntry]:
        """Tables of which a copy is due and not read yet."""
        return [
            entry
            for entry in self.catalog.tables.values()
            if entry.status == "copying" and self._read.get(entry.table, ("",))[0] != entry.copy
        ]

    def read_copies(self) -> None:
        """Read the tables that are to be copied; executors do it, chunk by chunk."""
        wanted = self.to_copy
        if not wanted:
            return
        assert self._options.connect is not None
        plans, cascaded = asyncio.run(self._plans(wanted))
        tasks: list[ChunkTask] = []
        for entry in wanted:
            plan = plans.get(entry.table)
            reason = "the source does not show it" if plan is None else cannot_hold(plan.table)
            if entry.table in cascaded:
                reason = CASCADED
            if plan is None or reason:
                entry.leave_out(reason)
                self.catalog.save()
                continue
            manifests = self._manifests(entry.copy)
            plan.save(manifests)
            tasks += [
                ChunkTask(
                    self._options.connect,
                    self._config.change_log,
                    manifests,
                    entry.copy,
                    number,
                    plan.table,
                    part,
                    self._config.lake.locking,
                    self._schema,
                )
                for number, part in enumerate(plan.parts)
            ]
        found: dict[str, list[ChunkManifest]] = {}
        rows = 0
        for begin in range(0, len(tasks), CHUNKS_AT_ONCE):
            some = tasks[begin : begin + CHUNKS_AT_ONCE]
            self._say(f"copying tables: {begin:,} of {len(tasks):,} chunks, {rows:,} rows")
            manifests_of = on_executors(self._spark(), copy_chunk, some)
            for task, manifest in zip(some, manifests_of, strict=True):
                found.setdefault(task.copy, []).append(manifest)
                rows += manifest.rows
        for entry in wanted:
            if entry.copy in found:
                self._read[entry.table] = entry.copy, found[entry.copy]

    async def _plans(
        self, wanted: Sequence[TableEntry]
    ) -> tuple[dict[TableName, CopyPlan], frozenset[TableName]]:
        assert self._options.connect is not None
        plans = {}
        async with await SourceConnection.open(self._options.connect) as connection:
            models = await read_definitions(connection)
            for entry in wanted:
                plan = CopyPlan.load(self._manifests(entry.copy), *entry.table)
                if plan is None and entry.table in models:
                    rows = self._config.lake.chunk_rows
                    plan = await CopyPlan.make(connection, models[entry.table], rows)
                if plan is not None:
                    plans[entry.table] = plan
            cascaded = await cascaded_tables(connection, list(plans))
        return plans, cascaded

    def _manifests(self, copy: str) -> Location:
        return copies_directory(self._config.output) / copy

    def log_copies(self, reached: Position | None) -> bool:
        """Let copies that the stream has passed be part of the change log.

        Args:
            reached: how far the change log has the stream's changes, all of them taken into the tables.

        Returns:
            whether there is something new in the change log.
        """
        logged = False
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
            application = f"{self._pipeline}/snapshot/{copy}"
            commit_files(self._config.change_log, application, 1, actions)
            self.copied.tables += 1
            self.copied.rows += sum(manifest.rows for manifest in manifests)
            del self._read[table]
            logged = True
        return logged

    def _forget(self, copy: str, manifests: Sequence[ChunkManifest]) -> None:
        remove_files(*(self._config.change_log / manifest.path for manifest in manifests))
        remove_tree(self._manifests(copy))

    @property
    def complete(self) -> bool:
        """Whether no table waits for its copy."""
        return all(entry.status != "copying" for entry in self.catalog.tables.values())


def check_image(config: PipelineConfig) -> None:
    """Refuse a live source that does not log whole rows.

    Raises:
        ConfigError: ``binlog_row_image`` is not FULL.
    """
    options = SourceOptions.parse(config.source)
    if options.connect is None:
        return
    image = asyncio.run(_row_image(options))
    if image and image not in ("FULL", "FULL_NODUP"):
        raise ConfigError(
            f"{options.connect.address} has binlog_row_image={image}: current tables need whole rows; SET "
            "GLOBAL binlog_row_image = 'FULL', or set current = false in [lake]"
        )


async def _row_image(options: SourceOptions) -> str:
    assert options.connect is not None
    async with await SourceConnection.open(options.connect) as connection:
        rows: list[tuple[Any, ...]] = await connection.query(
            "SHOW GLOBAL VARIABLES LIKE 'binlog_row_image'"
        )
    return str(rows[0][1]).upper() if rows and len(rows[0]) > 1 else ""
