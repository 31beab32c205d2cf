"""PARTIAL_UPDATE_ROWS: updates that hold differences of JSON columns (MySQL 8.0.3+)."""

from __future__ import annotations

from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.codec.quick_dataclass import dataclass

PARTIAL_JSON_UPDATES = 1
"""Bit of a row's value options: its partial bits follow."""


@dataclass(frozen=True, slots=True)
class PartialUpdateRowsEvent(RowsEvent):
    """Updated rows of one statement, with some JSON values as differences.

    Bytes: as an UPDATE_ROWS event v2, :class:`~replica_client.protocol.binlog.events.rows.RowsEvent`, but
    each after image of ``rows`` begins with value options::

        size  field
        1..9  value_options  length-encoded; bit 0 (PARTIAL_JSON_UPDATES): partial bits follow
        b     partial_bits   b = (JSON columns of the table + 7) / 8; bit i: JSON column i of the
                             table is a difference (it is in the after image then)
        ...   null bits and values, as in any image; a difference is a JSON value's length (4 bytes)
              and its operations

    The value options of each row say whether partial bits follow. Only the rows layer, which knows
    the columns' types, can find where a row ends; ``rows`` has the bytes of all rows.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: the extra info does not add up.

    Spec: MySQL ``Partial_update_rows`` (rows_event.h), ``pack_row`` (rpl_record.cc).
    """
