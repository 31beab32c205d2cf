"""Decode and encode text by collation id."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, overload

from replica_client.codec.charsets.multi_byte import MultiByteCharset
from replica_client.codec.charsets.single_byte import single_byte_decoder, single_byte_encoder
from replica_client.codec.charsets.unicode import (
    UNICODE_CODECS,
    unicode_decoder,
    unicode_encoder,
)
from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.collations import CHARSET_BY_COLLATION_ID, CHARSETS
from replica_client.errors import EncodeError, ReplicaClientError

TextDecoder = Callable[[bytes], str]
"""A function that decodes bytes of one character set, or raises UnicodeDecodeError."""

_MAX_BYTES = {
    **dict.fromkeys(CHARSETS, 1),
    **dict.fromkeys(("big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ucs2"), 2),
    **dict.fromkeys(("eucjpms", "ujis", "utf8mb3"), 3),
    **dict.fromkeys(("gb18030", "utf16", "utf16le", "utf32", "utf8mb4"), 4),
}


class UndecodableTextError(ReplicaClientError, UnicodeDecodeError):
    """Bytes that are not text in their character set.

    As a :class:`UnicodeDecodeError`, it has the character set's name in ``encoding``, the bytes in
    ``object``, and the invalid part from ``start`` to ``end``. Its message contains no data.
    """

    def __str__(self) -> str:
        return f"not {self.encoding} text at byte {self.start} of {len(self.object)}: {self.reason}"


class UnknownCollationError(ReplicaClientError, LookupError):
    """A collation id or character set name that neither MySQL nor MariaDB has."""


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set.

    Attributes:
        name: in MySQL 9's spelling.
        max_bytes: bytes of its longest character.
    """

    name: str
    max_bytes: int


@cache
def charset_named(name: str) -> Charset:
    """Return the character set with a name (``utf8`` is ``utf8mb3``).

    Raises:
        UnknownCollationError: there is no such character set.
    """
    lowered = name.lower()
    if lowered == "utf8":
        lowered = "utf8mb3"
    if lowered not in _MAX_BYTES:
        raise UnknownCollationError(f"unknown character set {name[:40]!r}")
    return Charset(lowered, _MAX_BYTES[lowered])


@cache
def charset_of(collation_id: int) -> Charset:
    """Return the character set that a collation id belongs to.

    Raises:
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    try:
        return charset_named(CHARSET_BY_COLLATION_ID[collation_id])
    except KeyError:
        raise UnknownCollationError(f"unknown collation id {collation_id}") from None


@cache
def _multi_byte(charset: Charset) -> MultiByteCharset:
    return MultiByteCharset(charset.name, charset.max_bytes)


@cache
def _decoder(charset: Charset, errors: str) -> TextDecoder:
    if charset.name == "binary":
        return unicode_decoder("utf8mb4", errors)
    if charset.name in UNICODE_CODECS:
        return unicode_decoder(charset.name, errors)
    if charset.max_bytes > 1:
        return _multi_byte(charset).decoder(errors)
    return single_byte_decoder(charset.name, errors)


@cache
def _encoder(charset: Charset) -> Callable[[str], bytes]:
    if charset.name == "binary":
        return unicode_encoder("utf8mb4")
    if charset.name in UNICODE_CODECS:
        return unicode_encoder(charset.name)
    if charset.max_bytes > 1:
        return _multi_byte(charset).encode
    return single_byte_encoder(charset.name)


def text_decoder(collation_id: int, errors: Literal["strict", "replace"] = "strict") -> TextDecoder:
    """Return the function that decodes text of a collation, to keep for a column.

    The function raises a plain :class:`UnicodeDecodeError` where :func:`decode_text` raises its
    subclass.

    Raises:
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    return _decoder(charset_of(collation_id), errors)


@overload
def decode_text(
    data: bytes, collation_id: int, errors: Literal["strict", "replace"] = "strict"
) -> str: ...


@overload
def decode_text(data: bytes, collation_id: int, errors: Literal["bytes"]) -> bytes: ...


@overload
def decode_text(
    data: bytes, collation_id: int, errors: Literal["strict", "replace", "bytes"]
) -> str | bytes: ...


def decode_text(
    data: bytes,
    collation_id: int,
    errors: Literal["strict", "replace", "bytes"] = "strict",
) -> str | bytes:
    """Decode `data` in the character set of a collation.

    The ``binary`` character set is decoded as UTF-8, as the servers do with names.

    Args:
        data: the bytes.
        collation_id: any id of MySQL or MariaDB.
        errors: ``strict`` raises; ``replace`` writes U+FFFD for invalid bytes; ``bytes`` returns
            ``data`` undecoded.

    Raises:
        UndecodableTextError: (strict) the bytes are not text of that character set.
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    if errors == "bytes":
        return data
    try:
        return text_decoder(collation_id, errors)(data)
    except UnicodeDecodeError as error:
        name = charset_of(collation_id).name
        raise UndecodableTextError(name, data, error.start, error.end, error.reason) from None


def encode_text(text: str, collation_id: int) -> bytes:
    """Encode `text` in the character set of a collation.

    Raises:
        EncodeError: a character is not in that character set.
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    charset = charset_of(collation_id)
    try:
        return _encoder(charset)(text)
    except UnicodeEncodeError as error:
        character = f"U+{ord(text[error.start]):04X}"
        raise EncodeError(f"{character} is not in character set {charset.name}") from None
