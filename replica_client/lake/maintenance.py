"""Upkeep of tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from replica_client.errors import ConfigError, SinkError
from replica_client.lake.config import PipelineConfig, load_config
from replica_client.lake.copies import REASON, CopyPlan, CopyRequests, copies_directory, tables_of
from replica_client.lake.data_files import open_delta
from replica_client.lake.iceberg_tables import IcebergTables
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.log_versions import ChangeLogVersions, first_untaken
from replica_client.lake.pipeline_state import Checkpoint, OutputInUseError, locked
from replica_client.lake.state_table import Runner, StateTable, Work
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.files import names_in, remove_tree
from replica_client.storage.location import Location, reason_of


def local_runner(threads: int = 2) -> Runner:
    """Return a runner that rewrites files in this process."""

    def run(works: Sequence[Work]) -> list[Any]:
        if len(works) < 2:
            return [work.run() for work in works]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run_work, works))

    return run


def run_work(work: Work) -> Any:
    """Run one piece of work; a module-level function, so that executors can import it."""
    return work.run()


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """A table of the lake.

    Attributes:
        table: ``database.name``, ``database.name (history)``, or ``change log``.
        status: ``current``, ``copying``, ``left_out``, or ``""`` for the change log and histories.
        reason: why it is not current.
        rows: number of rows.
        files: number of files.
        size: size of its files in bytes.
        files_before: number of files before it was compacted.
        removed: number of files that a vacuum removed.
        location: location of its Delta table; ``""`` where it has no rows in the lake.
        waiting: number of change files that are not merged into it yet.
    """

    table: str
    status: str = ""
    reason: str = ""
    rows: int = 0
    files: int = 0
    size: int = 0
    files_before: int = 0
    removed: int = 0
    location: str = ""
    waiting: int = 0


def lake_status(config: str | os.PathLike[str]) -> list[TableUpkeep]:
    """Return the status of the tables in a configuration's lake, and of its change log.

    Raises:
        ConfigError: the file is wrong, or there is no lake.
    """
    read, catalog = _lake(config)
    return [_sized("change log", read.change_log), *table_sizes(catalog)]


def table_sizes(catalog: LakeCatalog) -> list[TableUpkeep]:
    """Return the sizes of the tables of a lake, and of their histories."""
    found = []
    for entry in catalog.tables.values():
        name, home = ".".join(entry.table), catalog.home(entry) if entry.files else None
        one = _sized(name, home, entry.status, entry.reason)
        found.append(replace(one, waiting=len(entry.waiting)))
        found += [_sized(f"{name} (history)", home) for home in catalog.history_homes(entry)]
    return found


def copy_tables(config: str | os.PathLike[str], tables: Sequence[str]) -> list[str]:
    """Request copies of tables, also of those left out; return the tables' names.

    A running pipeline copies them between two steps, else the next run does. Until then, they are
    not current.

    Args:
        config: the pipeline's configuration file.
        tables: names as ``database.name``; ``*`` and ``?`` stand for parts of names.

    Raises:
        ConfigError: the file is wrong, it copies no tables, or no table has such a name.
        PositionStoreError: the catalogue cannot be written.
        OSError: the request cannot be written.
        StorageError: likewise, in a store.
    """
    read = load_config(config)
    if not read.lake.copies:
        raise ConfigError(f'{config}: it copies no tables; say start = "snapshot" in [source]')
    _asked(read, LakeCatalog.load(read.output), tables)
    try:
        with locked(read.output):
            catalog = LakeCatalog.load(read.output)
            chosen = _asked(read, catalog, tables)
            assert catalog is not None
            for entry in chosen.values():
                entry.needs_copy(REASON)
            catalog.save()
    except OutputInUseError:
        CopyRequests(read.output).add(tables)
        chosen = _asked(read, LakeCatalog.load(read.output), tables)
    return list(chosen)


def _asked(
    read: PipelineConfig, catalog: LakeCatalog | None, tables: Sequence[str]
) -> dict[str, TableEntry]:
    """Return the tables that were asked for, by name."""
    if catalog is None:
        raise ConfigError(f"{read.output}: no lake with current tables; run the pipeline first")
    chosen: dict[str, TableEntry] = {}
    for pattern in tables:
        found = tables_of(catalog, pattern)
        if not found:
            raise ConfigError(f"{read.output} has no table {pattern}; nothing was changed")
        chosen |= {".".join(entry.table): entry for entry in found}
    return chosen


def copy_progress(
    config: str | os.PathLike[str], tables: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Return how far copies of tables are, for :func:`copy_tables`.

    Args:
        config: the pipeline's configuration file.
        tables: names as ``database.name``.

    Returns:
        a line for each table that is not copied yet; and the tables that cannot be copied, with
        the reason.

    Raises:
        ConfigError: the file is wrong, or there is no lake.
        PositionStoreError: the catalogue cannot be read.
    """
    # A request is removed after the catalogue with its tables is saved: read in the other order,
    # a table of a request just taken would look as it did before.
    requests = CopyRequests(load_config(config).output).found()
    read, catalog = _lake(config)
    asked = {one for request in requests.values() for one in request}
    waiting = {".".join(one.table) for pattern in asked for one in tables_of(catalog, pattern)}
    left, failed = [], {}
    for entry in catalog.tables.values():
        name = ".".join(entry.table)
        if name not in tables:
            continue
        if name in waiting:
            left.append(f"{name}: waits for the pipeline")
        elif entry.status == "copying":
            manifests = copies_directory(read.output) / entry.copy
            done = len([one for one in names_in(manifests) if one[:1].isdigit()])
            plan = CopyPlan.load(manifests, *entry.table)
            left.append(f"{name}: {done:,} of {len(plan.parts) if plan else '?'} chunks")
        elif entry.status == "left_out":
            failed[name] = entry.reason
    return left, failed


def compact_lake(
    config: str | os.PathLike[str], say: Callable[[str], None] = lambda _: None
) -> list[TableUpkeep]:
    """Compact small files; the rows stay the same.

    Args:
        config: the pipeline's configuration file.
        say: called with a line for each table.

    Raises:
        ConfigError: the file is wrong, there is no lake, or a pipeline runs on it.
        SinkError: a table cannot be written.
    """
    read, catalog = _lake(config)
    state = Checkpoint(read.checkpoint).state
    pipeline = "" if state is None else state.pipeline
    found = []
    with locked(read.output):
        _all_taken(read, catalog)
        found.append(_sized("change log", read.change_log))  # typed change files stay as they are
        for number, entry in enumerate(catalog.tables.values(), 1):
            if entry.status == "current" and entry.model is not None:
                say(_doing("compacting", ".".join(entry.table), number, len(catalog.tables)))
                home = catalog.home(entry)
                table = StateTable(home, LakeTable(entry.model, entry.soft_deletes), pipeline)
                files, _ = table.compact(local_runner())
                found.append(_sized(".".join(entry.table), home, "current", files_before=files))
        _publish(catalog)
    return found


def _publish(catalog: LakeCatalog) -> None:
    """Bring the Iceberg tables up to date, also with what a run before left undone."""
    if catalog.publish is not None:
        catalog.publish(catalog)


def vacuum_lake(
    config: str | os.PathLike[str], hours: float, say: Callable[[str], None] = lambda _: None
) -> list[TableUpkeep]:
    """Remove files that no version of the last hours has; readers of older versions lose them.

    Args:
        config: the pipeline's configuration file.
        hours: hours whose versions are kept.
        say: called with a line for each table.

    Raises:
        ConfigError: the file is wrong, there is no lake, or a pipeline runs on it.
        SinkError: a table cannot be written.
    """
    read, catalog = _lake(config)
    found = []
    with locked(read.output):
        _all_taken(read, catalog)
        copies = {entry.copy for entry in catalog.tables.values() if entry.copy}
        for name in names_in(copies_directory(read.output)):
            if name not in copies:
                remove_tree(copies_directory(read.output) / name)
        catalog.remove_unnamed()
        _publish(catalog)  # no file is removed that they have
        homes = [("change log", read.change_log)]
        homes += [
            (".".join(entry.table), catalog.home(entry))
            for entry in catalog.tables.values()
            if entry.status == "current"
        ]
        homes += [
            (f"{'.'.join(entry.table)} (history)", home)
            for entry in catalog.tables.values()
            for home in catalog.history_homes(entry)
        ]
        for number, (name, home) in enumerate(homes, 1):
            say(_doing("vacuuming", name, number, len(homes)))
            try:
                removed = open_delta(home).vacuum(
                    retention_hours=int(hours), dry_run=False, enforce_retention_duration=False
                )
            except DeltaError as error:
                raise SinkError(f"{home}: {reason_of(error, home)}") from None
            found.append(_sized(name, home, removed=len(removed)))
    return found


def _doing(work: str, table: str, number: int, count: int) -> str:
    return f"{work} {table} ({number:,} of {count:,})"


def _lake(config: str | os.PathLike[str]) -> tuple[PipelineConfig, LakeCatalog]:
    read = load_config(config)
    catalog = LakeCatalog.load(read.output)
    if catalog is None:
        raise ConfigError(f"{read.output}: no lake with current tables; run the pipeline first")
    if read.format == "iceberg":
        catalog.publish = IcebergTables(read.output, read.catalog).publish
    return read, catalog


def _all_taken(config: PipelineConfig, catalog: LakeCatalog) -> None:
    """Raise an error while the change log has changes that the tables have not applied.

    The files of these changes are still needed.
    """
    log = ChangeLogVersions(config.change_log)
    untaken = range(first_untaken(catalog.step), log.latest() + 1)
    if any(log.version(number).files for number in untaken):
        raise ConfigError(
            f"{config.change_log} has changes that are not in the current tables yet; run the pipeline first"
        )


def _sized(
    name: str,
    home: Location | None,
    status: str = "",
    reason: str = "",
    *,
    files_before: int = 0,
    removed: int = 0,
) -> TableUpkeep:
    if home is None:
        return TableUpkeep(name, status, reason)
    try:
        actions = pa.table(open_delta(home).get_add_actions(flatten=True))
    except (DeltaError, SinkError):
        return TableUpkeep(name, status, reason, location=str(home))
    rows = sum(int(one or 0) for one in actions["num_records"].to_pylist())
    size = sum(int(one) for one in actions["size_bytes"].to_pylist())
    return TableUpkeep(
        name, status, reason, rows, actions.num_rows, size, files_before, removed, str(home)
    )
