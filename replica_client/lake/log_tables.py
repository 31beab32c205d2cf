"""Rows of the change log, table by table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.schema.ddl.steps import TableName

ROWS = pa.array(["insert", "update", "delete"])
"""Operations of changed rows; all others are statements, losses and copies."""


def by_table(rows: pa.Table) -> Iterator[tuple[TableName, pa.Table]]:
    """Yield the rows of each table, in their order.

    The rows are sorted once, however many tables there are.
    """
    if not rows.num_rows:
        return
    keys = pa.table(
        {
            "database": rows["database"],
            "table": rows["table"],
            "at": pa.array(range(rows.num_rows), pa.int64()),
        }
    )
    names = keys.group_by(["database", "table"], use_threads=False).aggregate([("at", "count")])
    if names.num_rows == 1:
        yield (rows["database"][0].as_py(), rows["table"][0].as_py()), rows
        return
    order = pc.sort_indices(
        keys, [("database", "ascending"), ("table", "ascending"), ("at", "ascending")]
    )
    ordered, begin = rows.take(order), 0
    names = names.sort_by([("database", "ascending"), ("table", "ascending")])
    for name in names.to_pylist():
        yield (name["database"], name["table"]), ordered.slice(begin, name["at_count"])
        begin += name["at_count"]
