"""Column names of ours, by output, which a table's own columns would meet.

Spark, Delta, DuckDB and most destinations take names that differ in letter case alone for one name, so names are
compared without it. What happens to a table that has such a column is a rule of the output:

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
"""The names, in small letters."""

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")


def taken_names(output: str, columns: Iterable[str]) -> dict[str, str]:
    """Return the columns that have a name of an output: their names, by ours.

    Args:
        output: a key of :data:`RESERVED`.
        columns: names of a table's columns.
    """
    # dlt makes snake case of names: `_Deleted` and `_deleted ` are one column there.
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
    """Refuse a table that has a column of a name of ours.

    Args:
        output: a key of :data:`RESERVED`.
        table: ``database.table``.
        columns: names of its columns.
        what: has such a name, with its verb, for the message.
        remedy: says what to do, for the message.

    Raises:
        ConfigError: it has one; names table and column.
    """
    for name in taken_names(output, columns).values():
        raise ConfigError(f"{table}: it has a column {name}, and {what} one of this name; {remedy}")
