"""Change logs of binlog files, made as a pipeline's tasks make them, without Java."""

import uuid

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from replica_client.lake.applier import Applier
from replica_client.lake.change_log_files import (
    CHANGE_LOG_SCHEMA,
    Statistics,
    commit_files,
    open_change_log,
)
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.lake.maintenance import local_runner
from replica_client.lake.parquet_files import new_file
from replica_client.lake.pipeline.change_stream import write_range
from replica_client.lake.source.live_plan import make_planner
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.shape_batches import batches
from replica_client.rows.selection import Selection


def ranges_of(path, **options):
    """What a pipeline reads of files, or of a live source by its URL, and its ranges."""
    kind = "url" if "://" in str(path) else "path"
    source = SourceOptions.parse({kind: str(path), "startingPosition": "earliest", **options})
    planner = make_planner(source)
    try:
        parts = planner.ranges(planner.start(), planner.stop())
    finally:
        planner.close()
    return source, parts


def typed_log(directory, path, **options):
    """A change log of change files; each range is a version."""
    open_change_log(directory, CHANGE_LOG_SCHEMA)
    source, parts = ranges_of(path, **options)
    for number, part in enumerate(parts):
        files = write_range(source, part, directory)
        actions = [
            AddAction(one.path, one.size, {}, one.modified, True, one.statistics()) for one in files
        ]
        commit_files(directory, "p", number, actions)
    return directory


def envelope_log(directory, path, **options):
    """The same in the envelope."""
    open_change_log(directory, CHANGE_LOG_SCHEMA)
    source, parts = ranges_of(path, **options)
    for number, part in enumerate(parts):
        statistics, name = Statistics(), f"part-{uuid.uuid4().hex}.parquet"
        rows = list(batches(source, None, part))
        for batch in rows:
            statistics.add(batch)
        actions = []
        if rows:
            with new_file(directory / name) as made:
                pq.write_table(pa.Table.from_batches(rows), made.stream)
            text = statistics.text()
            actions.append(AddAction(name, made.size, {}, made.modified, True, text))
        commit_files(directory, "p", number, actions)
    return directory


def lake_of(log, directory, runner=None, history=None, soft_deletes=None):
    """The engine of a lake that has taken a whole log; `history` are the tables whose versions are kept."""
    catalog = LakeCatalog.load(directory) or LakeCatalog(directory)
    engine = Applier(
        catalog, ChangeLogVersions(log), "p", Selection(), runner or local_runner(),
        history=history, soft_deletes=soft_deletes,
    )  # fmt: skip
    engine.run()
    return engine


def contents(engine):
    """Status and rows of each table; rows in any order."""
    found = {}
    for entry in engine.catalog.tables.values():
        rows = None
        if entry.status == "current":
            rows = sorted(map(repr, engine.tables.of(entry).dataset().to_table().to_pylist()))
        found[entry.table] = (entry.status, entry.reason, rows)
    return found
