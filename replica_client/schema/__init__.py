"""Definitions of tables at a position: from table maps, DDL statements, information_schema and a history."""

from replica_client.schema.shape import ColumnShape, TableShape

__all__ = ["ColumnShape", "TableShape"]
