"""A table as asyncmy gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Table:
    """A table; :attr:`data` gives its fields as a dict.

    Args:
        column_schemas: a dict for each column with names of ``information_schema.COLUMNS``.
        table_id: the number that its rows events name it by.
        schema: its database.
        table: its name.
        columns: a :class:`~replica_client.compat.pymysqlreplication.column.Column` each.
        primary_key: the column's name, a tuple of names, or ``""``; None takes it from the columns.
    """

    def __init__(
        self,
        column_schemas: Sequence[dict[str, Any]],
        table_id: int,
        schema: str,
        table: str,
        columns: Sequence[Any],
        primary_key: str | tuple[str, ...] | None = None,
    ) -> None:
        if primary_key is None:
            names = tuple(c.data["name"] for c in columns if c.data["is_primary"])
            primary_key = "" if not names else names[0] if len(names) == 1 else names
        self.column_schemas = column_schemas
        self.table_id = table_id
        self.schema = schema
        self.table = table
        self.columns = columns
        self.primary_key = primary_key

    @property
    def data(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(vars(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.data == other.data

    __hash__ = None  # type: ignore[assignment]
