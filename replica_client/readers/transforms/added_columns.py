"""Columns that a transform adds to a table: the shard of a row, and whether the row was deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from replica_client.binlog.values.strings import encode_string
from replica_client.constants.column_types import ColumnType
from replica_client.readers.transforms.column_rules import TEXT
from replica_client.schema.character_sets import max_length, representative_id
from replica_client.schema.model import ColumnModel
from replica_client.schema.shape import ColumnShape

PRESENT: Final = b"\0"
DELETED: Final = b"\1"
"""Row image bytes of a marker's two values."""


@dataclass(frozen=True)
class ShardColumn:
    """The column with the table that a row came from; the first of the primary key.

    Attributes:
        name: of the column.
        value: of this table's rows.
        length: characters that any shard's value can have.
    """

    name: str
    value: str
    length: int

    @property
    def model(self) -> ColumnModel:
        """The column's definition."""
        return ColumnModel(self.name, "varchar", self.length, charset=TEXT, nullable=False)

    def shape(self, *, keyed: bool) -> ColumnShape:
        """Return the shape of the column in row images.

        Args:
            keyed: whether the table has a primary key.
        """
        size = self.length * max_length(TEXT)
        return ColumnShape(
            self.name,
            ColumnType.MYSQL_TYPE_VARCHAR,
            metadata=size,
            nullable=False,
            collation_id=representative_id(TEXT),
            primary_key_index=0 if keyed else None,
            length=size,
            definition=self.model,
        )

    @property
    def image(self) -> bytes:
        """The value in a row image."""
        size = self.length * max_length(TEXT)
        return encode_string(self.value, 2 if size > 255 else 1, representative_id(TEXT))


@dataclass(frozen=True)
class MarkerColumn:
    """The last column, which is 1 in rows that the source has deleted, and 0 in all others.

    Attributes:
        name: of the column.
    """

    name: str

    @property
    def model(self) -> ColumnModel:
        """The column's definition."""
        return ColumnModel(self.name, "tinyint", nullable=False, type_name="BOOLEAN", default="0")

    @property
    def shape(self) -> ColumnShape:
        """The shape of the column in row images."""
        return ColumnShape(
            self.name,
            ColumnType.MYSQL_TYPE_TINY,
            nullable=False,
            unsigned=False,
            length=1,
            definition=self.model,
        )
