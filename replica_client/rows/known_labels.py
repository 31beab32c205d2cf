"""ENUM and SET columns of which some labels are not known: values that need one are refused."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from replica_client.binlog.values.enum_set import (
    EnumValue,
    SetValue,
    enum_value,
    set_value,
)
from replica_client.errors import ColumnDecodeError


def known_enum(
    name: str, values: Sequence[EnumValue], unknown: Container[int], index: int
) -> EnumValue:
    """The value of an index, given all values of the column: they are made once, not for each row.

    Raises:
        ColumnDecodeError: its label is not known.
        ValueError: the index is beyond the labels.
    """
    if index in unknown:
        raise _unknown_label(name, index)
    return enum_value(index, values)


def known_set(name: str, labels: Sequence[str], unknown: Iterable[int], bits: int) -> SetValue:
    """The value of a bitmap.

    Raises:
        ColumnDecodeError: one of its labels is not known.
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
