"""Which JSON columns of a change hold the document ``null``, which is not SQL NULL.

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
from collections.abc import Iterable, Sequence
from typing import Any

from replica_client.binlog.values.json_binary import JsonDocument
from replica_client.rows.raw_json import RawJson

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
