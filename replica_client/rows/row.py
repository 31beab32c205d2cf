"""A row: a tuple that can also be indexed by column name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from replica_client.rows.absent import ABSENT


class Row(tuple[Any, ...]):
    """The values of one row image, in the table's column order.

    Index it by number like any tuple, or by column name. A column that the row image left out is
    :data:`~replica_client.rows.absent.ABSENT`. Each table shape has its own subclass (made by
    :func:`row_class`), so that a row costs no more memory than its tuple.

    Raises:
        KeyError: no column has the name.
    """

    __slots__ = ()

    _columns: ClassVar[Mapping[str, int]] = {}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return tuple.__getitem__(self, self._columns[key])
        return tuple.__getitem__(self, key)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names, in order."""
        return tuple(self._columns)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a column; ``default`` when there is no such column or it is absent."""
        at = self._columns.get(name)
        value = ABSENT if at is None else tuple.__getitem__(self, at)
        return default if value is ABSENT else value

    def as_dict(self) -> dict[str, Any]:
        """Values by column name, without the columns that the image left out."""
        return {
            name: value
            for name, value in zip(self._columns, self, strict=True)
            if value is not ABSENT
        }

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{n}={v!r}' for n, v in self.as_dict().items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (tuple(self._columns), tuple(self))


@lru_cache(maxsize=4096)
def row_class(columns: tuple[str, ...]) -> type[Row]:
    """The :class:`Row` subclass for these column names."""
    index = {name: at for at, name in enumerate(columns)}
    return type("Row", (Row,), {"__slots__": (), "_columns": index, "__module__": __name__})


def _restore(columns: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return row_class(columns)(values)
