"""ENUM and SET columns with unknown labels: values that need such a label are refused."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.enum_set import (
    EnumValue,
    SetValue,
    enum_value,
    set_value,
)


def known_enum(
    name: str, values: Sequence[EnumValue], unknown: Container[int], index: int
) -> EnumValue:
    """Return the ENUM value of an index.

    Args:
        name: of the column.
        values: all values of the column, built once and not for each row.
        unknown: indexes of unknown labels.
        index: of the value.

    Raises:
        ColumnDecodeError: its label is unknown.
        ValueError: the index is beyond the labels.
    """
    if index in unknown:
        raise _unknown_label(name, index)
    return enum_value(index, values)


def known_set(name: str, labels: Sequence[str], unknown: Iterable[int], bits: int) -> SetValue:
    """Return the SET value of a bitmap.

    Raises:
        ColumnDecodeError: one of its labels is unknown.
        ValueError: a bit is beyond the labels.
    """
    for index in unknown:
        if bits >> (index - 1) & 1:
            raise _unknown_label(name, index)
    return set_value(bits, labels)


def _unknown_label(name: str, index: int) -> ColumnDecodeError:
    return ColumnDecodeError(
        f"label {index} of column {name} is not known: listings of the source show '?' for a character that they "
        "cannot hold, or a character set on its way into the table is not known or lacks it; set "
        "binlog_row_metadata=FULL on the source, or read from where the table was defined"
    )
