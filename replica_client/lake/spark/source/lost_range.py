"""Changes that could not be delivered, as rows in the place of the lost changes."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from replica_client.lake.change_log_files import LOSS
from replica_client.lake.spark.source.shapes import ENVELOPE_SCHEMA, BatchColumns, TypedTable
from replica_client.protocol.position import Position
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Transaction

GAP: Final = "gtid_gap"
"""Kind of the loss of whole transactions, such as those that a source purged."""


def loss_json(loss: Loss) -> str:
    """Return a loss as JSON: ``{"kind": …, "count": …, "reason": …, "gtid": …}``.

    Kinds are :data:`~replica_client.stream.position.losses.LossKind`.
    """
    stated = {"kind": loss.kind, "count": loss.count, "reason": loss.reason, "gtid": loss.gtid}
    return json.dumps(stated, ensure_ascii=False)


def loss_row(transaction: Transaction, loss: Loss, index: int) -> tuple[Any, ...]:
    """Return the envelope row of a loss; ``index`` counts the losses of one event."""
    return (
        transaction.commit_version,
        transaction.commit_us,
        transaction.gtid,
        loss.file,
        loss.position,
        loss.event_index,
        index,
        loss.database,
        loss.table,
        LOSS,
        None,
        loss_json(loss),
    )


def lost_batch(
    start: Position, end: Position, schema: str | None, table: TypedTable | None
) -> pa.RecordBatch:
    """Return the row that stands for a range that the source purged.

    Args:
        start: of the first change that is lost.
        end: where the changes continue.
        schema: the table definitions there, as ``SchemaHistory.to_state`` returns them.
        table: of a typed query, or None.
    """
    stated = {
        "kind": GAP,
        "count": None,
        "reason": f"the source purged the changes from {start} to {end} before they were read",
        "from": str(start),
        "to": str(end),
        "schema": schema,
    }
    text = json.dumps(stated, ensure_ascii=False)
    before = Position(end.file, end.offset - 1)  # changes from ``end`` on sort after it
    position = (before.sort_key(), 0, "", before.file, before.offset, 0, 0)
    if table is None:
        return _one_row(BatchColumns(ENVELOPE_SCHEMA), (*position, "", "", LOSS, None, text))
    return _one_row(BatchColumns(table.schema()), (LOSS, *position, None, [("loss", text)]))


def _one_row(columns: BatchColumns, row: tuple[Any, ...]) -> pa.RecordBatch:
    row += (None,) * (len(columns.values) - len(row))
    for column, value in zip(columns.values, row, strict=True):
        column.append(value)
    return columns.finish()
