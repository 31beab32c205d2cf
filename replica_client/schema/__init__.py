"""Table schemas: names and types of columns, from table maps, DDL and information_schema."""

from replica_client.schema.shape import ColumnShape, TableShape

__all__ = ["ColumnShape", "TableShape"]
