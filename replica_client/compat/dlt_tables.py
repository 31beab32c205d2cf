"""A dlt source of a server's tables: a first copy, then changes; the extra ``dlt``.

::

    import dlt
    from replica_client.compat.dlt_tables import load

    pipeline = dlt.pipeline("shop", destination="duckdb", dataset_name="shop")
    load(pipeline, "mysql://repl:secret@db1:3306/", tables=["shop.*"])

Each run brings the destination's tables to what the source's are. The state is dlt's, which the destination gets in the
same load package as the rows: a run that was killed is made again, or its package is loaded by the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import dlt
from dlt.common.schema.typing import TColumnSchema
from dlt.load.exceptions import LoadClientJobFailed, LoadClientJobTerminalRetry
from dlt.pipeline.exceptions import PipelineStepFailed

from replica_client.compat.table_sync import CopiedRows, TableSync
from replica_client.errors import DataLossError
from replica_client.schema.model import ColumnModel, TableModel, column_type
from replica_client.schema.names import RESERVED, check_names, taken_names
from replica_client.stream.snapshot import Locking

_LOG: Final = logging.getLogger("replica_client.compat")

ORDER, DELETED = RESERVED["dlt"]
"""Columns of the tables by which dlt knows which of a row's changes is the last, and whether the row is gone.

In a table that has a column of such a name itself, ours is called ``_replica_client_deleted``, and so on."""

_ROWS_AT_ONCE = 5000
_RESOURCE = "changes"
_MOST_DIGITS = 38


def table_name(database: str, table: str) -> str:
    """Return the name of a table in the destination."""
    return f"{database}__{table}"


@dlt.source(name="replica_client")
def mysql_tables(
    url: str,
    tables: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    locking: Locking = "never",
    name: Callable[[str, str], str] = table_name,
) -> Any:
    """Return a dlt source with the tables of a MySQL or MariaDB server.

    Args:
        url: of the server.
        tables: patterns ``database.table`` of the wanted tables; None takes all but the server's own.
        exclude: patterns of unwanted ones.
        locking: ``brief`` where the copy takes a read lock for a moment: for a MySQL without GTIDs.
        name: of a table in the destination, from database and table.

    Raises:
        ConfigError: a table cannot be kept equal, such as one without a primary key; says why.
        ReplicaClientError: the source cannot be read.
    """

    @dlt.resource(name=_RESOURCE)
    def changes() -> Iterator[Any]:
        state = dlt.current.resource_state()
        sync = TableSync(url, tables, exclude, state, locking=locking)
        yield from _items(sync, name)

    return changes


def load(
    pipeline: dlt.Pipeline,
    url: str,
    *,
    tables: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    locking: Locking = "never",
    name: Callable[[str, str], str] = table_name,
) -> list[Any]:
    """Run a pipeline until its destination equals the source; the arguments are those of :func:`mysql_tables`.

    Where a table was altered, another run follows, which copies the table again.

    Returns:
        dlt's load infos.

    Raises:
        ReplicaClientError: as :func:`mysql_tables`; dlt's own errors are around it.
    """
    infos = []
    # As text DuckDB would read a DOUBLE a last digit wrong.
    is_duckdb = (
        pipeline.destination is not None and "duckdb" in pipeline.destination.destination_type
    )
    options = {"loader_file_format": "parquet"} if is_duckdb else {}
    if pipeline.has_pending_data:
        # Packages of an interrupted run; dlt would ignore new data while they are pending.
        infos += _load_pending(pipeline)
    while True:
        source = mysql_tables(url, tables, exclude, locking, name)
        infos.append(pipeline.run(source, **options))
        resources = pipeline.state["sources"]["replica_client"]["resources"]
        if not resources[_RESOURCE].get("again"):
            return infos


def _load_pending(pipeline: dlt.Pipeline) -> list[Any]:
    """Load the packages that an earlier run left.

    The destination may have committed a job that dlt does not know of. Where it refuses the same rows again, as
    PostgreSQL does (``_dlt_id`` is unique), dlt would stop at this package for ever. So the package is dropped: dlt's
    state is that of before it again, and the rows are read from the source once more.
    """
    try:
        return [pipeline.run()]
    except PipelineStepFailed as error:
        # A destination that is unavailable for a moment is not dropped here.
        if not isinstance(error.exception, (LoadClientJobFailed, LoadClientJobTerminalRetry)):
            raise
        _LOG.warning(
            "pipeline %s: the destination refused package %s, which an earlier run left; the package is dropped, "
            "and its rows are read from the source again",
            pipeline.pipeline_name,
            error.load_id,
        )
        pipeline.abort_packages()
        return []


def _items(sync: TableSync, name: Callable[[str, str], str]) -> Iterator[Any]:
    rows: list[dict[str, Any]] = []
    hints: Any = None
    last: TableModel | None = None
    ours, deleted = ORDER, DELETED
    for order, item in enumerate(sync.run()):
        if isinstance(item, CopiedRows):
            copy = _hints(item.table, name, "replace")
            if not item.rows:
                # A table that has no rows is emptied, too.
                empty = dlt.mark.materialize_table_schema()
                yield dlt.mark.with_hints(empty, copy, create_table_variant=True)
                continue
            ours, _ = own_columns(item.table)
            found = [{**_checked(item.table, row), ours: order} for row in item.rows]
            yield dlt.mark.with_hints(found, copy, create_table_variant=True)
            continue
        if rows and (item.table is not last or len(rows) >= _ROWS_AT_ONCE):
            yield dlt.mark.with_hints(rows, hints, create_table_variant=True)
            rows = []
        if item.table is not last:
            last, hints = item.table, _hints(item.table, name, "merge")
            ours, deleted = own_columns(item.table)
        gone = True if item.deleted else None
        rows.append({**_checked(item.table, item.values), ours: order, deleted: gone})
    if rows:
        yield dlt.mark.with_hints(rows, hints, create_table_variant=True)


def _checked(table: TableModel, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without the JSON document null, which dlt reads as NULL.

    Raises:
        DataLossError: it has one.
    """
    for column in table.columns:
        if column.kind == "json" and row.get(column.name) == "null":
            key = ", ".join(f"{name}={row[name]!r}" for name, _ in table.primary_key)
            raise DataLossError(
                f"{table.database}.{table.name}, row {key}: column {column.name} holds the JSON document null, which "
                "dlt cannot tell from NULL; change it on the source, or exclude the table"
            )
    return row


def own_columns(table: TableModel) -> tuple[str, str]:
    """Return the names of :data:`ORDER` and :data:`DELETED` in a table.

    Raises:
        ConfigError: dlt itself adds a column that the table has.
    """
    columns = [column.name for column in table.columns if not column.hidden]
    name = f"{table.database}.{table.name}"
    check_names("dlt own", name, columns, "dlt adds", "exclude the table")
    taken = taken_names("dlt", columns)
    order, deleted = (f"_replica_client{one}" if one in taken else one for one in (ORDER, DELETED))
    return order, deleted


def _hints(table: TableModel, name: Callable[[str, str], str], disposition: Any) -> Any:
    columns: dict[str, TColumnSchema] = {
        column.name: _column(column) for column in table.columns if not column.hidden
    }
    key = [name for name, _ in table.primary_key]
    for part in key:
        columns[part]["nullable"] = False
    order, deleted = own_columns(table)
    columns[order] = {"name": order, "data_type": "bigint", "dedup_sort": "desc"}
    columns[deleted] = {"name": deleted, "data_type": "bool", "hard_delete": True}
    return dlt.mark.make_hints(
        table_name=name(table.database, table.name),
        write_disposition=disposition,
        primary_key=key,
        columns=columns,
    )


def _column(column: ColumnModel) -> TColumnSchema:
    """Return a column in dlt's types."""
    kind, length = column.kind, column.length or 0
    found: TColumnSchema = {"name": column.name, "nullable": True}
    data_type: Any = column_type("dlt", column)
    if (kind == "bigint" and column.unsigned) or (kind == "bit" and length == 64):
        data_type, found["precision"], found["scale"] = "decimal", 20, 0
    elif kind == "decimal" and length > _MOST_DIGITS:
        data_type = "text"
    elif kind == "decimal":
        found["precision"], found["scale"] = length, column.scale
    elif data_type == "timestamp":
        found["precision"], found["timezone"] = 6, kind == "timestamp"
    found["data_type"] = data_type
    return found
