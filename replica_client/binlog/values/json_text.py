"""A JSON document's bytes as the text of the server's ``CAST(j AS CHAR)``, in one pass."""

from __future__ import annotations

from base64 import b64encode
from json.encoder import encode_basestring as quote

from replica_client.binlog.values.double_text import double_text
from replica_client.binlog.values.json_layout import (
    DOUBLE,
    INT16,
    INT32,
    LITERAL,
    OPAQUE,
    SMALL_ARRAY,
    STRING,
    UINT16,
    UINT32,
    DocumentWalk,
    double,
    integer,
    malformed,
    opaque_span,
    sized,
    utf8,
    variable_length,
)
from replica_client.binlog.values.json_opaque import (
    TEMPORAL_TYPES,
    decimal_text,
    temporal_text,
)
from replica_client.constants.column_types import ColumnType

_LITERALS = ("null", "true", "false")
_BASE64_LINE = 76
_NEWDECIMAL = int(ColumnType.MYSQL_TYPE_NEWDECIMAL)
_VAR_STRING = int(ColumnType.MYSQL_TYPE_VAR_STRING)

_KEY_CACHE_SIZE = 4096
_KEY_CACHE_LENGTH = 64
_key_cache: dict[bytes, str] = {}


def json_text(data: bytes) -> str:
    """The text of a document; the empty byte string is ``null``.

    MySQL stores an empty document where NULL was forced into a NOT NULL column (``INSERT IGNORE``
    or lax SQL mode), and shows it as JSON null.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    if not data:
        return "null"
    kind = data[0]
    if kind >= LITERAL:
        return _scalar(data, kind, 1, len(data))
    writer = _TextWriter(data)
    writer.container(kind, 1, len(data), 0)
    return "".join(writer.parts)


def _key_text(raw: bytes, at: int) -> str:
    """``"key": `` with quotes and colon, kept for the next document."""
    text = quote(utf8(raw, 0, len(raw))) + ": "
    if len(raw) <= _KEY_CACHE_LENGTH:
        if len(_key_cache) >= _KEY_CACHE_SIZE:
            _key_cache.clear()
        _key_cache[raw] = text
    return text


def _scalar(data: bytes, kind: int, at: int, end: int) -> str:
    """The text of a value that is no container and not inlined."""
    if kind == STRING:
        start, stop = sized(data, at, end)
        return quote(utf8(data, start, stop))
    if kind == DOUBLE:
        try:
            return double_text(double(data, at, end))
        except ValueError as error:
            raise malformed(str(error), at) from None
    if kind == OPAQUE:
        code, start, stop = opaque_span(data, at, end)
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
            return quote(payload.decode())
        except UnicodeDecodeError as error:
            raise malformed(f"a string that is not UTF-8 ({error.reason})", at) from None
    text = b64encode(payload).decode()
    if len(text) > _BASE64_LINE:
        lines = [text[i : i + _BASE64_LINE] for i in range(0, len(text), _BASE64_LINE)]
        text = "\\n".join(lines)
    return f'"base64:type{code}:{text}"'


class _TextWriter(DocumentWalk):
    """Appends the pieces of a document's text to ``parts``."""

    __slots__ = ("parts",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.parts: list[str] = []

    def container(self, kind: int, start: int, limit: int, depth: int) -> None:
        """Append an object or array."""
        size, header, keys, values = self.open(kind, start, limit, depth)
        data = self.data
        append = self.parts.append
        end = start + size
        large = kind & 1
        left = self.budget
        first = prefix = "[" if keys is None else "{"
        for code, field in values:
            if keys is not None:
                key_at, key_size = next(keys)
                if key_at < header or key_at + key_size > size:
                    raise malformed("a key outside of its object", start + key_at)
                left -= key_size
                raw = data[start + key_at : start + key_at + key_size]
                prefix += _key_cache.get(raw) or _key_text(raw, start + key_at)
            if code == INT16:
                field &= 0xFFFF
                append(f"{prefix}{field if field < 0x8000 else field - 0x10000}")
            elif code == LITERAL:
                field &= 0xFF
                if field > 2:
                    raise malformed("an unknown literal", start)
                append(prefix + _LITERALS[field])
            elif code == UINT16:
                append(f"{prefix}{field & 0xFFFF}")
            elif large and code in (INT32, UINT32):
                if code == INT32 and field >= 0x80000000:
                    field -= 0x100000000
                append(f"{prefix}{field}")
            else:
                if field < header or field >= size:
                    raise malformed("a value outside of its container", start + field)
                at = start + field
                if code == STRING:
                    length = data[at]
                    at += 1
                    if length >= 0x80:
                        length, at = variable_length(data, at - 1, end)
                    stop = at + length
                    if stop > end:
                        raise malformed(f"a string of {length} bytes", at)
                    left -= length
                    if left < 0:
                        raise self.overspent()
                    try:
                        append(prefix + quote(data[at:stop].decode()))
                    except UnicodeDecodeError:
                        utf8(data, at, stop)
                        raise
                elif code < LITERAL:
                    append(prefix)
                    self.budget = left
                    self.container(code, at, end, depth + 1)
                    left = self.budget
                else:
                    if code == OPAQUE:
                        _, begin, stop = opaque_span(data, at, end)
                        left -= stop - begin
                        if left < 0:
                            raise self.overspent()
                    append(prefix + _scalar(data, code, at, end))
            prefix = ", "
        if left < 0:
            raise self.overspent()
        self.budget = left
        close = "]" if kind >= SMALL_ARRAY else "}"
        append(first + close if prefix == first else close)
