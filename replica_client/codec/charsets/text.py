"""Decode and encode text by collation id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, overload

from replica_client.constants.collations import CHARSET_BY_COLLATION_ID
from replica_client.errors import EncodeError, ReplicaClientError

TextDecoder = Callable[[bytes], str]
"""Bytes of one character set to text; raises UnicodeDecodeError."""

_CODECS = {
    "ascii": ("ascii", 1),
    "big5": ("big5", 2),
    "binary": ("utf-8", 1),
    "cp1250": ("cp1250", 1),
    "cp1251": ("cp1251", 1),
    "cp1256": ("cp1256", 1),
    "cp1257": ("cp1257", 1),
    "cp850": ("cp850", 1),
    "cp852": ("cp852", 1),
    "cp866": ("cp866", 1),
    "cp932": ("cp932", 2),
    "eucjpms": ("euc_jp", 3),
    "euckr": ("euc_kr", 2),
    "gb18030": ("gb18030", 4),
    "gb2312": ("gb2312", 2),
    "gbk": ("gbk", 2),
    "greek": ("iso8859_7", 1),
    "hebrew": ("iso8859_8", 1),
    "koi8r": ("koi8_r", 1),
    "koi8u": ("koi8_u", 1),
    "latin1": ("cp1252", 1),
    "latin2": ("iso8859_2", 1),
    "latin5": ("iso8859_9", 1),
    "latin7": ("iso8859_13", 1),
    "macce": ("mac_latin2", 1),
    "macroman": ("mac_roman", 1),
    "sjis": ("shift_jis", 2),
    "tis620": ("tis_620", 1),
    "ucs2": ("utf-16-be", 2),
    "ujis": ("euc_jp", 3),
    "utf16": ("utf-16-be", 4),
    "utf16le": ("utf-16-le", 4),
    "utf32": ("utf-32-be", 4),
    "utf8mb3": ("utf-8", 3),
    "utf8mb4": ("utf-8", 4),
}


class UndecodableTextError(ReplicaClientError, UnicodeDecodeError):
    """Bytes that are not text of their character set.

    It is a :class:`UnicodeDecodeError` too: ``encoding`` is the character set's name, ``object``
    the bytes, ``start`` and ``end`` the part that is at fault. Its message holds no data.
    """

    def __str__(self) -> str:
        return f"not {self.encoding} text at byte {self.start} of {len(self.object)}: {self.reason}"


class UnknownCollationError(ReplicaClientError, LookupError):
    """A collation id, or character set name, that neither MySQL nor MariaDB has."""


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
    """The character set of a name (``utf8`` is ``utf8mb3``).

    Raises:
        UnknownCollationError: there is no such character set.
    """
    lowered = name.lower()
    if lowered == "utf8":
        lowered = "utf8mb3"
    if lowered in _CODECS:
        return Charset(lowered, _CODECS[lowered][1])
    if lowered in CHARSET_BY_COLLATION_ID.values():
        return Charset(lowered, 1)
    raise UnknownCollationError(f"unknown character set {name!r}")


@cache
def charset_of(collation_id: int) -> Charset:
    """The character set that a collation id belongs to.

    Raises:
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    try:
        return charset_named(CHARSET_BY_COLLATION_ID[collation_id])
    except KeyError:
        raise UnknownCollationError(f"unknown collation id {collation_id}") from None


@cache
def text_decoder(
    collation_id: int, errors: Literal["strict", "replace"] = "strict"
) -> TextDecoder:
    """The function that decodes text of a collation: what a column's decoder keeps.

    It raises a plain :class:`UnicodeDecodeError` where :func:`decode_text` raises its subclass.

    Raises:
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    charset = charset_of(collation_id)

    def decode(data: bytes) -> str:
        if charset.name not in _CODECS:
            raise UnicodeDecodeError(charset.name, data, 0, len(data), "no table yet")
        return data.decode(_CODECS[charset.name][0], errors)

    return decode


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
    """Text of ``data`` in the character set of a collation.

    The ``binary`` character set (as a client's) is read as UTF-8, as the server does with names.

    Args:
        data: the bytes.
        collation_id: any id of MySQL or MariaDB.
        errors: ``strict`` raises; ``replace`` puts U+FFFD where bytes are no text; ``bytes``
            gives ``data`` back undecoded.

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
        raise UndecodableTextError(
            name, data, error.start, error.end, error.reason
        ) from None


def encode_text(text: str, collation_id: int) -> bytes:
    """The bytes of ``text`` in the character set of a collation.

    Raises:
        EncodeError: a character is not in that character set.
        UnknownCollationError: no MySQL or MariaDB has such a collation.
    """
    charset = charset_of(collation_id)
    try:
        return text.encode(_CODECS[charset.name][0])
    except (KeyError, UnicodeEncodeError) as error:
        raise EncodeError(
            f"text does not fit into character set {charset.name}"
        ) from error
