"""The text of JSON values that are no containers, of any type.

This module is compiled where that is possible (Cython's pure Python mode); elsewhere it runs as
plain Python. :mod:`replica_client.protocol.binlog.values.json_writer` writes the frequent types itself.
"""

from __future__ import annotations

import json
from base64 import b64encode

from replica_client.protocol.binlog.values.json_encoder import (
    TEMPORAL_TYPES,
    decimal_text,
    double_text,
    temporal_text,
)
from replica_client.protocol.binlog.values.json_layout import (
    DOUBLE,
    LITERAL,
    OPAQUE,
    STRING,
    double,
    integer,
    malformed,
    opaque_bounds,
    sized,
    utf8,
)
from replica_client.protocol.constants.column_types import ColumnType

_quoted = json.JSONEncoder(ensure_ascii=False).encode
_LITERALS = ("null", "true", "false")
_BASE64_LINE = 76
_NEWDECIMAL = int(ColumnType.MYSQL_TYPE_NEWDECIMAL)
_VAR_STRING = int(ColumnType.MYSQL_TYPE_VAR_STRING)


def scalar_text(data: bytes, kind: int, at: int, end: int) -> str:
    """Return the text of a value that is neither a container nor inlined.

    Args:
        data: the document.
        kind: the type of the value.
        at: offset of the value.
        end: offset at which the value must end at the latest.

    Raises:
        ColumnDecodeError: there is no such value.
    """
    if kind == STRING:
        start, stop = sized(data, at, end)
        # Slice the string, so that offsets in an error count from its start.
        return _quoted(utf8(data[start:stop], 0, stop - start))
    if kind == DOUBLE:
        try:
            return double_text(double(data, at, end))
        except ValueError as error:
            raise malformed(str(error), at) from None
    if kind == OPAQUE:
        code, start, stop = opaque_bounds(data, at, end)
        return _opaque(code, data[start:stop], at)
    if kind == LITERAL:
        if at >= end or data[at] > 2:
            raise malformed("an unknown literal", at)
        return _LITERALS[data[at]]
    return str(integer(data, kind, at, end))


def _opaque(code: int, payload: bytes, at: int) -> str:
    if code == _NEWDECIMAL:
        return decimal_text(payload)
    if code in TEMPORAL_TYPES:
        return f'"{temporal_text(code, payload)}"'
    if code == _VAR_STRING:
        try:
            return _quoted(payload.decode())
        except UnicodeDecodeError as error:
            raise malformed(f"a string that is not UTF-8 ({error.reason})", at) from None
    text = b64encode(payload).decode()
    if len(text) > _BASE64_LINE:
        lines = [text[i : i + _BASE64_LINE] for i in range(0, len(text), _BASE64_LINE)]
        text = "\\n".join(lines)
    return f'"base64:type{code}:{text}"'
