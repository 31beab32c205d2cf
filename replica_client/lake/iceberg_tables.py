"""The tables of a lake in an Iceberg catalogue, over the same Parquet files.

A table's Delta log stays the engine's own record. Whenever the lake's catalog was written, each table whose Delta
version is new gets one Iceberg commit that takes out the files that left the table and adds those that came. What
to commit follows from the two lists of files, so that a commit that was lost is made by the next run, and none is made
twice. Files that Delta no longer has are removed after that.

A commit of another program is refused: pyiceberg's own retry, which would put our files on top of it, is off.

pyiceberg is imported where there is something to do: that takes two CPU seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from replica_client.errors import ConfigError, SinkError
from replica_client.lake.config import CHANGE_LOG
from replica_client.lake.data_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry, new_id
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.log_versions import ChangeLogVersions, first_untaken
from replica_client.lake.parquet_files import make_directory, parquet_file
from replica_client.schema.ddl.steps import TableName
from replica_client.storage.durable import replace_file
from replica_client.storage.files import remove_tree
from replica_client.storage.location import Location, local_path

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

ICEBERG: Final = "iceberg"
"""Directory with the metadata of the Iceberg tables in the output."""

_RECORD: Final = "published.json"
_LAKE, _COLUMNS = "replica.lake", "replica.columns"
"""Table properties: the output of the lake, and the columns as they were set last."""
_FILES, _VERSION = "replica.files", "replica.delta-version"
"""Properties of each snapshot: the directory of the files, and the Delta version that lists them."""
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
}
_SNAPSHOTS: Final = 100
"""Snapshots that stay: each commit writes the list of them again."""
_MAPPING: Final = "schema.name-mapping.default"
_UNFIT_KEYS: Final = (pa.types.is_floating, pa.types.is_temporal)
"""Types that an identifier field cannot have: Iceberg's rule, and dates that are null where Arrow cannot hold them."""


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    """Open an Iceberg catalogue.

    Raises:
        ConfigError: it cannot be opened.
    """
    from pyiceberg.catalog import load_catalog

    given = dict(properties)
    name = given.pop("name", "replica_client")
    try:
        return load_catalog(name, **given)
    except Exception as error:  # noqa: BLE001  # of SQLAlchemy, requests, botocore …
        raise ConfigError(f"[pipeline] catalog: {_line(error)}") from None


class IcebergTables:
    """Keeps the tables of an Iceberg catalogue equal to those of a lake.

    Args:
        lake: the lake's directory.
        catalog: properties of the catalogue, as pyiceberg's ``load_catalog`` takes them.
        goes_on: whether the first call may find nothing to do by the step of the last one alone: a run begins where
            the last one ended.
    """

    def __init__(
        self, lake: Location, catalog: Mapping[str, str], *, goes_on: bool = False
    ) -> None:
        self._lake = lake
        self._home = lake / ICEBERG
        self._log = ChangeLogVersions(lake / CHANGE_LOG)
        self._properties = catalog
        self._goes_on = goes_on

    @cached_property
    def _catalog(self) -> Catalog:
        return open_catalog(self._properties)

    def publish(self, lake: LakeCatalog) -> None:
        """Commit what changed since the last call, under the names that the tables have now.

        Raises:
            ConfigError: the catalogue cannot be opened.
            SinkError: a table cannot be committed; the lake itself is whole, and the next run tries again.
        """
        step, known = self._read()
        wanted = {
            entry.table: entry
            for entry in lake.tables.values()
            if entry.status == "current" and entry.files
        }
        named = {name: entry.files for name, entry in wanted.items()}
        goes_on, self._goes_on = self._goes_on, False
        same = step == lake.step and named == {name: one[0] for name, one in known.items()}
        if goes_on and same:
            return
        _ = self._catalog  # a wrong one is found before there is work
        if new := [name for name in wanted if name not in known]:
            # First the names, so that a table that was made before a crash is found.
            known |= dict.fromkeys(new, ("", -1))
            self._write(known, -1)
        about = self._about(lake)
        for name, entry in wanted.items():
            delta = open_delta(lake.home(entry))
            if known[name] != (entry.files, delta.version()):
                self._publish(entry, lake.home(entry), delta, about)
                known[name] = (entry.files, delta.version())
        for name in [name for name in known if name not in wanted]:
            self._drop(name)
            del known[name]
        self._write(known, lake.step)

    def _read(self) -> tuple[int | None, dict[TableName, tuple[str, int]]]:
        """Return the step of the last call, and the directory and Delta version of each table."""
        where = self._home / _RECORD
        try:
            found = json.loads(local_path(str(where), "output").read_bytes())
            return int(found["step"]), {
                (one[0], one[1]): (one[2], one[3]) for one in found["tables"]
            }
        except FileNotFoundError:
            return None, {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SinkError(f"{where} cannot be read: {error}; restore it from a backup") from None

    def _write(self, tables: Mapping[TableName, tuple[str, int]], step: int) -> None:
        where = self._home / _RECORD
        stated = [[*name, *one] for name, one in tables.items()]
        try:
            make_directory(self._home)
            data = json.dumps({"step": step, "tables": stated}).encode()
            replace_file(local_path(str(where), "output"), data, mode=0o666)
        except OSError as error:
            raise SinkError(f"{where}: {error.strerror}") from None

    def _about(self, lake: LakeCatalog) -> dict[str, str]:
        """Return the position up to which the tables have the source's changes."""
        for number in range(first_untaken(lake.step) - 1, -1, -1):
            with suppress(SinkError):  # its entry was removed
                if (about := self._log.version(number).about).get("replica.position"):
                    return about
        return {}

    def _publish(
        self, entry: TableEntry, home: Location, delta: DeltaTable, about: Mapping[str, str]
    ) -> None:
        """Make one commit of a table: its columns and its files."""
        assert entry.model is not None
        name, shape = entry.table, LakeTable(entry.model, entry.soft_deletes)
        schema, key = _schema(shape)
        stated = {**about, _VERSION: str(delta.version()), _FILES: entry.files}
        if entry.waiting:  # the table is older than the lake
            stated.pop("replica.position", None)
        actions = pa.table(delta.get_add_actions(flatten=True)).select(["path", "size_bytes"])
        files = {_address(home / row["path"]): row for row in actions.to_pylist()}
        try:
            table = self._table(name)
            done = {} if table is None else _summary(table)
            if all(done.get(one) == stated[one] for one in (_FILES, _VERSION)):
                return  # before a crash
            if table is None:
                self._catalog.create_namespace_if_not_exists(name[0])
                where = self._home / new_id()
                properties = {
                    "format-version": "2",
                    "commit.retry.num-retries": "0",
                    _LAKE: str(self._lake),
                }
                made = self._catalog.create_table_transaction(
                    name, schema, location=_address(where), properties=properties
                )  # fmt: skip
                there: dict[str, DataFile] = {}
            else:
                made = table.transaction()
                there = {task.file.file_path: task.file for task in table.scan().plan_files()}
            with made as change:
                rewritten = _set_columns(change, schema, key, is_new=table is None)
                _replace(change, home, files, there, stated)
                _expire(change, 1 if rewritten else _SNAPSHOTS)
        except SinkError:
            raise
        except Exception as error:  # noqa: BLE001  # of pyiceberg, SQLAlchemy, requests, botocore …
            raise self._failed(name, _line(error)) from None

    def _table(self, name: TableName) -> Table | None:
        """Return a table of ours, or None where the catalogue has none of the name.

        Raises:
            SinkError: the table is another's, or another program wrote to it.
        """
        from pyiceberg.exceptions import NoSuchTableError

        try:
            table = self._catalog.load_table(name)
        except NoSuchTableError:
            return None
        if table.properties.get(_LAKE) != str(self._lake):
            raise self._failed(
                name, "the catalogue has a table of this name that is not of this lake; rename it"
            )
        names = [column for column, _ in json.loads(table.properties.get(_COLUMNS, "[[]]"))[0]]
        if _VERSION not in _summary(table) or names != [
            field.name for field in table.schema().fields
        ]:
            raise self._failed(
                name, "another program changed the table; drop it from the catalogue, and the next run makes it again"
            )  # fmt: skip
        return table

    def _drop(self, name: TableName) -> None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            with suppress(NoSuchTableError):
                table = self._catalog.load_table(name)
                if table.properties.get(_LAKE) == str(self._lake):
                    self._catalog.drop_table(name)
                    remove_tree(self._home / table.location().rpartition("/")[2])
        except Exception as error:  # noqa: BLE001  # of pyiceberg, SQLAlchemy, requests, botocore …
            raise self._failed(name, _line(error)) from None

    def _failed(self, name: TableName, what: str) -> SinkError:
        return SinkError(
            f"Iceberg table {_shown(name)}: {what}; the lake itself is whole, and nothing of it is visible there"
        )


def _replace(
    change: Transaction,
    home: Location,
    files: Mapping[str, Mapping[str, Any]],
    there: Mapping[str, DataFile],
    stated: Mapping[str, str],
) -> None:
    """Take out the files that the table has no more, and add those that it has not yet."""
    removed = [file for path, file in there.items() if path not in files]
    update = change.update_snapshot(snapshot_properties=dict(stated))
    with update.overwrite() if removed else update.fast_append() as replaced:
        for file in removed:
            replaced.delete_data_file(file)
        for path, row in files.items():
            if path not in there:
                found = _data_file(change, home / row["path"], path, row["size_bytes"])
                replaced.append_data_file(found)


def _expire(change: Transaction, kept: int) -> None:
    """Take out all snapshots but the newest ones.

    All but the last go with columns that were written again: old files would be read by the new columns.
    """
    from pyiceberg.table.update.snapshot import ExpireSnapshots

    found = sorted(change.table_metadata.snapshots, key=lambda one: one.sequence_number or 0)
    if len(found) > kept:
        with ExpireSnapshots(change) as expired:
            expired.by_ids([one.snapshot_id for one in found[:-kept]])


def _summary(table: Table) -> Mapping[str, str]:
    last = table.current_snapshot()
    return {} if last is None or last.summary is None else last.summary.additional_properties


def _address(where: Location) -> str:
    return f"file://{where}" if isinstance(where, Path) else str(where)


def _schema(shape: LakeTable) -> tuple[pa.Schema, list[str]]:
    """Return the columns of a table, and its identifier fields: none where a key may be null."""
    unfit = any(test(shape.schema.field(name).type) for name in shape.key for test in _UNFIT_KEYS)
    key = [] if unfit else list(shape.key)
    fields = [one.with_nullable(one.name not in key) for one in shape.schema]
    return pa.schema(fields), key


def _set_columns(change: Transaction, schema: pa.Schema, key: list[str], *, is_new: bool) -> bool:
    """Give the table its columns; a column of another type is another column.

    Returns:
        whether columns are gone, so that the table's files were all written again.
    """
    columns = [[one.name, str(one.type)] for one in schema]
    stated = json.dumps([columns, key])
    known = change.table_metadata.properties.get(_COLUMNS)
    if stated == known:
        return False
    gone: list[str] = []
    if not is_new:
        old = [] if known is None else json.loads(known)[0]
        gone = [name for name, kind in old if [name, kind] not in columns]
        left = {name for name, _ in old} - set(gone)
        with change.update_schema(allow_incompatible_changes=True) as update:
            update.set_identifier_fields()
            for name in left:
                update.make_column_optional((name,))
        with change.update_schema(allow_incompatible_changes=True) as update:
            for name in gone:
                update.delete_column((name,))
        added = [one.with_nullable(True) for one in schema if one.name not in left]
        with change.update_schema(allow_incompatible_changes=True) as update:
            update.union_by_name(pa.schema(added))
        with change.update_schema(allow_incompatible_changes=True) as update:
            update.move_first((columns[0][0],))
            for (before, _), (name, _) in pairwise(columns):
                update.move_after((name,), (before,))
            for name in key:
                update.update_column((name,), required=True)
    if key:
        with change.update_schema(allow_incompatible_changes=True) as update:
            update.set_identifier_fields(*key)
    mapping = change.table_metadata.schema().name_mapping.model_dump_json()
    change.set_properties({_COLUMNS: stated, _MAPPING: mapping})
    return bool(gone)


def _data_file(change: Transaction, where: Location, path: str, size: int) -> DataFile:
    """Describe a file of ours, with the bounds of its columns from its footer."""
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    metadata = change.table_metadata
    schema, spec = metadata.schema(), metadata.spec()
    with parquet_file(where) as file:
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=file.metadata,
            stats_columns=compute_statistics_plan(schema, metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=found.partition(spec, schema),
        file_size_in_bytes=size,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **found.to_serialized_dict(),
    )


def _shown(name: TableName) -> str:
    return ".".join(name)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:600]
