"""The column types of a mirror's database, by kind of column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.stored_values import BLOBS

_DECIMAL_DIGITS = 10
"""Digits of a DECIMAL without a given precision."""


@dataclass(frozen=True)
class StoredTypes:
    """The column types of a database.

    Attributes:
        whole: types of integer kinds: signed, unsigned.
        others: types of further kinds; ``{length}``, ``{scale}`` and ``{digits}`` are those of the
            column.
        blob: type of kinds whose values are bytes.
        text: type of all other kinds.
    """

    whole: Mapping[str, tuple[str, str]]
    others: Mapping[str, str]
    blob: str
    text: str

    def of(self, column: ColumnModel) -> str:
        """Return the type of a column."""
        kind = column.kind
        if kind in self.whole:
            return self.whole[kind][column.unsigned]
        if kind in BLOBS:
            return self.blob
        return self.others.get(kind, self.text).format(
            length=decimal_length(column), scale=column.scale, digits=column.fraction_digits
        )


def decimal_length(column: ColumnModel) -> int:
    """Return the number of digits of a DECIMAL."""
    return column.length or _DECIMAL_DIGITS
