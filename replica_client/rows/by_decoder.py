"""Facts that are computed once per row decoder: unknown labels, JSON nulls.

A decoder lives as long as its table is not altered: after each ALTER there is a new one. A cached
fact must not keep its decoder alive, or a table that is altered every few seconds fills the memory.

Both are ``null`` in a row's JSON. The object of a change with such a document has one more member::

    "json_null": {"before": ["doc"], "after": ["doc", "notes"]}

It names the columns of each image whose ``null`` is the document, in the table's order; an image, or
the member, without any is left out. Every other ``null`` of an image's own members is SQL NULL.

The JSON object of a row on its own, as a lake keeps those of tables without a primary key, names them in a member
without a name (:func:`with_json_nulls`)::

    {"id": 1, "doc": null, "": ["doc"]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar
from weakref import ref

from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.special_values import RawJson

_Known = TypeVar("_Known")


class ByDecoder(Generic[_Known]):
    """A cache with one entry per row decoder.

    Args:
        make: computes the entry, which must not refer to the decoder.
    """

    def __init__(self, make: Callable[[RowsOfEvent], _Known]) -> None:
        self._make = make
        # Keys are ids, which are faster than references; an entry is dropped before its id is
        # reused.
        self._known: dict[int, tuple[ref[RowImageDecoder], _Known]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, rows: RowsOfEvent) -> _Known:
        """Return the entry for the decoder of these rows."""
        found = self._known.get(id(rows.decoder))
        return self._new(rows) if found is None else found[1]

    def _new(self, rows: RowsOfEvent) -> _Known:
        known, key = self._known, id(rows.decoder)

        def forget(_: object) -> None:
            known.pop(key, None)

        made = self._make(rows)
        known[key] = ref(rows.decoder, forget), made
        return made


_LONGEST = 2
"""Bytes of the document: its type and the literal. An empty document is JSON null, too."""


def json_null_columns(names: Sequence[str], row: Iterable[Any] | None, text: str) -> list[str]:
    """Return the names of a row's columns that hold the document ``null``.

    Args:
        names: of the row's columns, in order.
        row: its values; None: there is no row.
        text: the row as JSON, spelt ``"name": value``.

    Raises:
        ColumnDecodeError: the bytes of a document are malformed.
    """
    # Most rows have no null, and this check is faster than one of each value.
    if row is None or ": null" not in text:
        return []
    return [
        name
        for name, value in zip(names, row, strict=True)
        if (type(value) is JsonDocument and len(value.data) <= _LONGEST and value.text == "null")
        or (type(value) is RawJson and value == "null")
    ]


def with_json_nulls(text: str, names: Sequence[str]) -> str:
    """Add to a row's JSON object the names of its columns that hold the document ``null``.

    Args:
        text: the object; no column of it has an empty name, which MySQL does not allow.
        names: of these columns, in the table's order; if empty, the text is returned unchanged.
    """
    if not names:
        return text
    return f'{text[:-1]}, "": {json.dumps(list(names), ensure_ascii=False)}}}'


def json_null_member(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the text after ``after`` in a change's object: a comma and the member, or nothing.

    Args:
        before: names of the columns whose before image holds the document ``null``.
        after: names of the columns whose after image does.
    """
    if not before and not after:
        return ""
    images = {"before": before, "after": after}
    found = {image: list(names) for image, names in images.items() if names}
    return f', "json_null": {json.dumps(found, ensure_ascii=False)}'
