"""Column names that each output adds, and that a table's own columns may collide with.

Names are compared without letter case, as in Spark, Delta, DuckDB and most destinations. Each
output has its own rule for a table with such a column:

====================  ======================================================================================
output                a table that has one of the names
====================  ======================================================================================
``batches``           refused by name: record batches, CSV, Parquet and Arrow of ``changes``, the sink ``parquet``,
                      the format ``arrow``, typed rows of Spark
``lake``              left out by name; the other tables go on
``lake soft deletes`` likewise, where the table keeps deleted rows
``lake history``      refused by name: leave the table out of ``history``
``dlt``               our column gets another name: ``_replica_client_deleted`` for ``_deleted``
``dlt own``           refused by name: dlt adds them itself
``singer``            refused by name: targets add them themselves
====================  ======================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from replica_client.errors import ConfigError

_CHANGE: Final = (
    *("_change_type", "_commit_timestamp", "_commit_version", "_gtid", "_file", "_offset"),
    *("_event_index", "_row_index", "_absent", "_lossless"),
)
RESERVED: Final[Mapping[str, tuple[str, ...]]] = {
    "batches": _CHANGE,
    "lake": ("_lossless", "_row_key"),
    "lake soft deletes": ("_deleted",),
    "lake history": (
        *("_valid_from", "_valid_to", "_valid_from_position", "_valid_to_position", "_deleted"),
    ),
    "dlt": ("_change_order", "_deleted"),
    "dlt own": ("_dlt_id", "_dlt_load_id", "_dlt_parent_id", "_dlt_list_idx", "_dlt_root_id"),
    "singer": (
        *("_sdc_deleted_at", "_sdc_extracted_at", "_sdc_received_at", "_sdc_batched_at"),
        *("_sdc_sequence", "_sdc_table_version", "_sdc_sync_started_at", "_sdc_primary_key"),
    ),
}
"""The names, in lower case."""

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")


def taken_names(output: str, columns: Iterable[str]) -> dict[str, str]:
    """Return the columns that have a name of an output: the column's name, by the output's name.

    Args:
        output: a key of :data:`RESERVED`.
        columns: names of a table's columns.
    """
    # dlt converts names to snake case: `_Deleted` and `_deleted ` are one column there.
    of_dlt = output.startswith("dlt")
    found = {}
    for name in columns:
        plain = name.lower()
        if of_dlt:
            plain = _SEPARATORS.sub("_", plain)
        if plain in RESERVED[output]:
            found[plain] = name
    return found


def check_names(output: str, table: str, columns: Iterable[str], what: str, remedy: str) -> None:
    """Raise an error for a table that has a column with a name of an output.

    Args:
        output: a key of :data:`RESERVED`.
        table: ``database.table``.
        columns: names of its columns.
        what: the subject and verb of the message.
        remedy: what to do, for the message.

    Raises:
        ConfigError: there is such a column; the message names table and column.
    """
    for name in taken_names(output, columns).values():
        raise ConfigError(f"{table}: it has a column {name}, and {what} one of this name; {remedy}")
