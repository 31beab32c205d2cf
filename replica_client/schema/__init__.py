"""Table shapes: names and types of columns, from what the binlog says about them."""

from replica_client.schema.shape import ColumnShape, TableShape

__all__ = ["ColumnShape", "TableShape"]
