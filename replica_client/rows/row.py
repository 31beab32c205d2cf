# cython: boundscheck=False, wraparound=False
"""A row: a tuple that can also be indexed by column name.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, ValuesView
from functools import lru_cache
from typing import Any, ClassVar, SupportsIndex, overload
from weakref import WeakValueDictionary

import cython

from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.rows.special_values import ABSENT, pretty_call

if not cython.compiled:
    from replica_client.protocol.binlog.values.json_reader import decode_json_value
    from replica_client.rows.tuples import value_at

_absent = cython.declare(object, ABSENT)
_document = cython.declare(object, JsonDocument)
_KEPT_CLASSES = 64


@cython.final
@cython.cclass
class RowLayout:
    """The column names of a row class.

    Attributes:
        names: in order.
        index: number by name.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.index = {name: at for at, name in enumerate(names)}
        self.row_type: Any = None
        # A copy of this dict has its final size and need not grow.
        self._blank: dict[str, Any] = dict.fromkeys(names)

    @cython.cfunc
    def as_dict(self, row: Any, plain_json: cython.bint) -> dict[str, Any]:
        """Return values by column name, without the columns that the image left out."""
        names: tuple[str, ...] = self.names
        if len(row) != len(names):
            raise ValueError(f"{len(row)} values for {len(names)} columns")
        found: dict[str, Any] = self._blank.copy()
        missing: cython.bint = False
        at: cython.Py_ssize_t
        for at in range(len(names)):
            value: Any = value_at(row, at)
            if value is _absent:
                missing = True
            elif plain_json and type(value) is _document:
                value = decode_json_value(value.data)
            found[names[at]] = value
        if missing:
            return {name: value for name, value in found.items() if value is not _absent}
        return found


# Rows of one table come in sequence; this cache is faster than an attribute lookup.
_last = cython.declare(list, [RowLayout(())])


class Row(tuple[Any, ...]):
    """The values of one row image, in the table's column order.

    Index it by number like any tuple, or by column name. A column that the row image left out is
    :data:`~replica_client.rows.special_values.ABSENT`. Each table shape has its own subclass (made by
    :func:`row_class`), so that a row costs no more memory than its tuple.

    Iteration, ``len``, comparison and unpacking (``id, name = row``) use its values, as for a
    tuple. ``dict(row)``, ``**row``, :meth:`keys`, :meth:`items`, :meth:`values` and ``in`` use the
    names of the columns that the image has, without those it left out, as in :meth:`as_dict`.

    Raises:
        KeyError: no column has the name.
        TypeError: ``in`` was used with something other than a name: to look for a value, use
            ``value in row.values()``.

    Examples:
        >>> row = next(rc.open_binlog("shop-bin.000001").changes()).after
        >>> row["name"], row[1], "name" in row, dict(row)["country"]
        ('Ada Lovelace', 'Ada Lovelace', True, 'GB')
    """

    __slots__ = ()

    _layout: ClassVar[RowLayout] = RowLayout(())

    @overload
    def __getitem__(self, key: str | SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                key = self._layout.index[key]
            except KeyError:
                names = ", ".join(self._layout.names)
                raise KeyError(f"{key}: no such column; there are {names}") from None
        return tuple.__getitem__(self, key)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            raise TypeError(
                f"`in` asks a row for a column name, not for {type(name).__name__};"
                " for its values write: value in row.values()"
            )
        at = self._layout.index.get(name)
        return at is not None and tuple.__getitem__(self, at) is not ABSENT

    def keys(self) -> KeysView[str]:
        """Return the names of the columns in the image, in order."""
        return self.as_dict().keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of the columns in the image, in order."""
        return self.as_dict().values()

    def items(self) -> ItemsView[str, Any]:
        """Return names and values of the columns in the image, in order."""
        return self.as_dict().items()

    @property
    def columns(self) -> tuple[str, ...]:
        """The column names, in order."""
        names: tuple[str, ...] = self._layout.names
        return names

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column; ``default`` if there is no such column or it is absent."""
        at = self._layout.index.get(name)
        value = ABSENT if at is None else tuple.__getitem__(self, at)
        return default if value is ABSENT else value

    def as_dict(self, plain_json: bool = False) -> dict[str, Any]:
        """Return values by column name, without the columns that the image left out.

        Args:
            plain_json: convert JSON columns to Python objects
                (:attr:`~replica_client.protocol.binlog.values.json_binary.JsonDocument.value`).

        Raises:
            ColumnDecodeError: with ``plain_json``: the bytes of a document are malformed.
        """
        layout: RowLayout = _last[0]
        if layout.row_type is not type(self):
            layout = _last[0] = self._layout
        found: dict[str, Any] = layout.as_dict(self, plain_json)
        return found

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{n}={v!r}' for n, v in self.as_dict().items())})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the row in IPython."""
        pretty_call(printer, "Row", self.as_dict())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._layout.names, tuple(self))


# Classes live as long as rows or decoders use them: each takes kilobytes, and every ALTER needs a
# new one.
_classes: WeakValueDictionary[tuple[str, ...], type[Row]] = WeakValueDictionary()


@lru_cache(maxsize=_KEPT_CLASSES)
def row_class(columns: tuple[str, ...]) -> type[Row]:
    """Return the :class:`Row` subclass for these column names."""
    known: type[Row] | None = _classes.get(columns)
    return _classes.setdefault(columns, _new_class(columns)) if known is None else known


def _new_class(columns: tuple[str, ...]) -> type[Row]:
    layout: RowLayout = RowLayout(columns)
    members = {"__slots__": (), "_layout": layout, "__module__": __name__}
    layout.row_type = type("Row", (Row,), members)
    found: type[Row] = layout.row_type
    return found


def _restore(columns: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return row_class(columns)(values)
