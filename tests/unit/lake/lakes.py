"""A change log written by hand, and the lake that is made of it."""

import json
from dataclasses import asdict
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from replica_client.lake.applier import Applier
from replica_client.lake.change_files import DIGEST, ChangeFileBuilder, ChangeFileWriter
from replica_client.lake.change_log_files import (
    CHANGE_LOG_SCHEMA,
    CountedFiles,
    Statistics,
    commit_files,
    commit_several,
    open_change_log,
    statement_json,
)
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_table import LakeTable, row_digest
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.lake.maintenance import local_runner
from replica_client.lake.parquet_files import make_directory, new_file
from replica_client.lake.partial_images import completed
from replica_client.lake.rewrite import Rewrite
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.rows.json_images import json_images
from replica_client.rows.runs import CHANGE_TYPES
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory, schema_change
from replica_client.schema.left_out import shape_of
from replica_client.storage.location import Location

CONTEXT = StatementContext("d", ServerFlavor.MYSQL, (9, 7, 0), server_charset="utf8mb4")


class HandLog:
    """Each `commit` is a version; `ddl`, `insert` … make its rows, one transaction each."""

    opened = None
    """The change log for commits; None: each opens it."""

    def __init__(self, directory: Location, pipeline: str = "p") -> None:
        self.directory = directory
        self.made = open_change_log(directory, CHANGE_LOG_SCHEMA)
        self._pipeline = pipeline
        self._batch = 0
        self._copies = []
        self.offset = 4
        self._rows: list[tuple] = []
        self._history = SchemaHistory()

    def position(self) -> str:
        return Position("b.000001", self.offset).sort_key()

    def add(self, operation, table, before, after, *, event=1, row=0, database="d"):
        texts = [None if one is None else one if isinstance(one, str) else json.dumps(one)
                 for one in (before, after)]  # fmt: skip
        position = (self.position(), self.offset * 1000, "", "b.000001", self.offset, event, row)
        self._rows.append((*position, database, table, operation, *texts))

    def ddl(self, text, *, context=CONTEXT):
        self.offset += 100
        changes = self._history.run(text, context, "b.000001", self.offset)
        for row, change in enumerate(changes):
            found = schema_change(change, text, "b.000001", self.offset, 1, context)
            self.add(found.kind, found.table, None, statement_json(found), row=row)
        return self

    def insert(self, table, **row):
        self.offset += 100
        self.add("insert", table, None, row)
        return self

    def update(self, table, before, after):
        self.offset += 100
        self.add("update", table, before, after)
        return self

    def delete(self, table, **row):
        self.offset += 100
        self.add("delete", table, row, None)
        return self

    def later(self) -> str:
        """The place of what comes behind all that was added."""
        return Position("b.000001", self.offset + 1).sort_key()

    def copy(self, table, copy, create, chunks, directory=None, *, soft_deletes=False, waits=False):
        """A version with the copy of a table; each chunk is its low and high position, and its rows.

        They are in data files in the directory where one is given, else with the chunks. A copy that waits comes
        with the next one.
        """
        history = SchemaHistory()
        history.run(create, CONTEXT, "b.000001", 4)
        stated = {"database": "d", "table": table, "copy": copy, "soft_deletes": soft_deletes}
        stated["definition"] = history.table(("d", table)).to_json()
        actions = []
        shape = LakeTable(history.table(("d", table)), soft_deletes)
        for number, (low, high, rows) in enumerate(chunks):
            data_files = []
            if directory is not None and rows:
                make_directory(directory)
                found = shape.to_arrow(shape.decode([json.dumps(row) for row in rows]))
                work = Rewrite(directory, (), 0, shape.schema, shape.key, True, added=found)
                data_files = [asdict(file) for file in work.run()]
            for at, row in enumerate(() if directory is not None else rows):
                self.add("snapshot", table, None, row, row=at)
            text = json.dumps({**stated, "low": low, "high": high, "data_files": data_files})
            self.add("snapshot_chunk", table, None, text, row=len(rows))
            actions.append(self._file(f"copy-{copy}-{number:08}.parquet"))
        self._copies.append(CountedFiles(f"{self._pipeline}/snapshot/{copy}", 1, actions))
        if not waits:
            commit_several(self.directory, self._copies)
            self._copies = []

    def commit(self):
        action = self._file(f"part-{self._batch}.parquet")
        commit_files(self.directory, self._pipeline, self._batch, [action], opened=self.opened)
        self._batch += 1
        return self

    def _envelope(self):
        """What was added, which is forgotten."""
        arrays = [
            pa.array(values, pa.int64()).cast(field.type)
            if pa.types.is_timestamp(field.type)
            else pa.array(values, field.type)
            for values, field in zip(zip(*self._rows, strict=True), CHANGE_LOG_SCHEMA, strict=True)
        ]
        self._rows = []
        return pa.record_batch(arrays, schema=CHANGE_LOG_SCHEMA)

    def _file(self, name):
        batch = self._envelope()
        with new_file(self.directory / name) as made:
            pq.write_table(pa.Table.from_batches([batch]), made.stream)
        statistics = Statistics()
        statistics.add(batch)
        return AddAction(name, made.size, {}, made.modified, True, statistics.text())


class TypedLog(HandLog):
    """The same with typed change files, as tasks write them: one for the rows of a table between two statements."""

    def ddl(self, text, *, context=CONTEXT):
        self._write_rows()
        super().ddl(text, context=context)
        if self._rows:
            self._writer.add_others(self._envelope())
        return self

    def commit(self):
        self._write_rows()
        files = self._writer.finish()
        del self._writer
        actions = [
            AddAction(one.path, one.size, {}, one.modified, True, one.statistics()) for one in files
        ]
        commit_files(self.directory, self._pipeline, self._batch, actions)
        self._batch += 1
        return self

    @cached_property
    def _writer(self):
        return ChangeFileWriter(self.directory, 0)

    def _write_rows(self):
        if not self._rows:
            return
        rows = self._envelope().to_pylist()
        for name in sorted({row["table"] for row in rows}):
            model = self._history.table(("d", name))
            self._writer.add(_typed(model, [row for row in rows if row["table"] == name]))


def _typed(model, rows):
    """Rows of the envelope as the builder of change files gives them."""
    builder = ChangeFileBuilder(shape_of(model, ServerFlavor.MYSQL))
    metadata, values = builder.finish().schema.metadata, []
    for row in rows:
        update = row["operation"] == "update"
        for kind, image in (("preimage", row["before"]), ("postimage", row["after"])):
            if image is not None:
                change = f"update_{kind}" if update else row["operation"]
                values.append({**row, "_change_type": change, **json.loads(image)})
    columns = {field.name: [one.get(field.name) for one in values] for field in builder.schema}
    kinds = [CHANGE_TYPES.index(kind) for kind in columns.pop("_change_type")]
    arrays = [pa.DictionaryArray.from_arrays(pa.array(kinds, pa.int32()), CHANGE_TYPES)]
    arrays += [pa.array(columns[one.name]).cast(one.type) for one in list(builder.schema)[1:]]
    batch = completed(pa.RecordBatch.from_arrays(arrays, schema=builder.schema), builder.shape)
    batch = batch.replace_schema_metadata(metadata)
    if not builder.shape.primary_key:
        images = json_images(batch, builder.shape)
        pairs = zip(images.before.to_pylist(), images.after.to_pylist(), strict=True)
        digests = [row_digest(one) for pair in pairs for one in pair if one is not None]
        batch = batch.append_column(DIGEST, pa.array(digests, pa.string()))
    return batch


def applier(lake: Location, log: HandLog, **options) -> Applier:
    """A new process's engine, from what the lake says."""
    catalog = LakeCatalog.load(lake) or LakeCatalog(lake)
    runner = options.pop("runner", local_runner())
    versions = ChangeLogVersions(log.directory)
    return Applier(catalog, versions, "p", options.pop("selection", Selection()), runner, **options)


def rows_of(engine: Applier, table: str, database: str = "d"):
    """The current rows of a table, in order."""
    entry = engine.catalog.tables[(database, table)]
    assert entry.status == "current", entry
    return sorted(
        engine.tables.of(entry).dataset().to_table().to_pylist(),
        key=lambda row: repr(sorted(row.items())),
    )
