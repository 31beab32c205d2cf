"""A table as a table map event describes it."""

from __future__ import annotations

from typing import Any


class Table:
    """A table; ``data`` and :meth:`serializable_data` give its fields as a dict.

    Attributes:
        table_id: the number that its rows events name it by.
        schema: its database.
        table: its name.
        columns: a :class:`~replica_client.compat.pymysqlreplication.column.Column` each.
        primary_key: the column's name, a tuple of names, or ``""`` when it is not known.
        column_name_flag: whether the names of the columns are known.
    """

    def __init__(
        self,
        table_id: int,
        schema: str,
        table: str,
        columns: list[Any],
        primary_key: str | tuple[str, ...] | None = None,
        column_name_flag: bool = False,
    ) -> None:
        self.table_id = table_id
        self.schema = schema
        self.table = table
        self.columns = columns
        self.primary_key = primary_key
        self.column_name_flag = column_name_flag

    @property
    def data(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(vars(self))

    def serializable_data(self) -> dict[str, Any]:
        """Return the fields by name; ``Table(**fields)`` makes the table again."""
        return self.data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.data == other.data

    __hash__ = None  # type: ignore[assignment]
