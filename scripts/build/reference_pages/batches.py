"""The columns of record batches and of Spark's rows, compared with real ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import replica_client as rc
from reference_pages.markdown import table
from replica_client.lake.spark.source import shapes as envelope, shapes as typed
from replica_client.schema.kinds import KINDS, LIMITS, TARGETS

DATA = Path(rc.__file__).parent / "testing" / "data"

CHANGE_COLUMNS = {
    "_change_type": "`insert`, `update_preimage`, `update_postimage` or `delete`; an update is two rows",
    "_commit_timestamp": "when the transaction was committed; where the binlog does not tell, the time of the "
    "rows event",
    "_commit_version": "the transaction's position as text that sorts as transactions do",
    "_gtid": "the transaction's GTID, empty where it has none",
    "_file": "binlog file of the event",
    "_offset": "offset of the event in the file",
    "_event_index": "index of the event in its transaction",
    "_row_index": "index of the row in its event",
    "_absent": "names of the columns that the row image left out; null when it has all",
    "_lossless": "column and text of each value that its Arrow type cannot hold, such as zero dates; "
    "such a value is null in its column",
}
"""The columns before the table's own, in their order."""

ENVELOPE_COLUMNS = {
    "_commit_version": "the transaction's position as text that sorts as transactions do; the same for all "
    "rows of a transaction",
    "_commit_timestamp": "when the transaction was committed; where the binlog does not tell, the time of the "
    "rows event",
    "_gtid": "the transaction's GTID, empty where it has none",
    "_file": "binlog file of the event",
    "_offset": "offset of the event in the file",
    "_event_index": "index of the event in its transaction",
    "_row_index": "index of the row in its event",
    "database": "of the table",
    "table": "its name; empty for a statement about a database",
    "operation": "`insert`, `update` or `delete`; the kind of a statement, such as `alter_table`; `loss` with "
    "`recordLosses`",
    "before": "the row before the change as a JSON object, or null; of a statement the table's definition before it",
    "after": "the row after the change as a JSON object, or null; of a statement or loss what it tells",
}


def batch_columns() -> str:
    """The columns that stand before the table's own in every batch."""
    batch = next(iter(rc.open_binlog(DATA).batches()))
    found = [field for field in batch.schema if field.name.startswith("_")]
    _same([field.name for field in found], CHANGE_COLUMNS, "a batch")
    return table(
        ("column", "Arrow type", "meaning"),
        [(f"`{field.name}`", f"`{_arrow(field)}`", CHANGE_COLUMNS[field.name]) for field in found],
    )


def _arrow(field: pa.Field) -> str:
    kind = field.type
    if pa.types.is_dictionary(kind):
        text = f"dictionary<{kind.index_type}, {kind.value_type}>"
    elif pa.types.is_map(kind):
        text = f"map<{kind.key_type}, {kind.item_type}>"
    else:
        text = str(kind).replace("item: ", "")
    return text if field.nullable else f"{text} not null"


_SHOWN = [
    kind
    for kind in KINDS.values()
    if (kind.name not in LIMITS or kind.size == 2)
    and (kind.form != "spatial" or kind.name == "geometry")
]


def types_of(target: str, head: str) -> str:
    """The types of a target, one row for kinds that have the same."""
    names: dict[str, list[str]] = {}
    for kind in _SHOWN:
        names.setdefault(TARGETS[target][kind.name], []).append(kind.name.upper())
    return table(
        ("column", head), [(", ".join(kinds), _cell(text)) for text, kinds in names.items()]
    )


def _cell(text: str) -> str:
    signed, pair, other = text.partition("|")
    shown = "; unsigned ".join(
        f"`{one or 'any'}`" for one in ([signed, other] if pair else [signed])
    )
    for name, letter in (("{length}", "p"), ("{scale}", "s"), ("{digits}", "n")):
        shown = shown.replace(name, letter)
    return shown


def envelope_columns() -> str:
    """The columns of Spark's envelope."""
    fields = envelope.ENVELOPE_SCHEMA.fields
    _same([field.name for field in fields], ENVELOPE_COLUMNS, "the envelope")
    return table(
        ("column", "Spark type", "meaning"),
        [
            (
                f"`{field.name}`",
                f"`{field.dataType.simpleString()}{'' if field.nullable else ' not null'}`",
                ENVELOPE_COLUMNS[field.name],
            )
            for field in fields
        ],
    )


def typed_columns() -> str:
    """The columns that stand before a table's own with the option ``table``."""
    fields = typed._HEAD
    meanings = CHANGE_COLUMNS
    unknown = [field.name for field in fields if field.name not in meanings]
    if unknown:
        raise ValueError(f"typed rows have columns that are not told of: {unknown}")
    return table(
        ("column", "Spark type", "meaning"),
        [
            (
                f"`{field.name}`",
                f"`{field.dataType.simpleString()}{'' if field.nullable else ' not null'}`",
                meanings[field.name],
            )
            for field in fields
        ],
    )


def _same(found: list[str], stated: dict[str, str], what: str) -> None:
    if found != list(stated):
        raise ValueError(f"{what} has the columns {found}, the documentation {list(stated)}")
