"""What a server keeps of an ENUM or SET label that a client wrote.

A literal goes through three character sets: the client's (``character_set_client``), the connection's
(``collation_connection``) and the column's. What one of them lacks becomes ``?``. ``binary`` converts nothing: the
bytes are taken for text of the next one. (Seen on MySQL 5.6 and 9.7, MariaDB 10.11 and 11.8.)
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

from replica_client.codec.charsets import UndecodableTextError, decode_text, encode_text
from replica_client.errors import EncodeError
from replica_client.schema.character_sets import (
    BINARY,
    WIDE_CHARSETS,
    lacks_ascii,
    representative_id,
    storable,
)

_UTF8: Final = ("utf8mb3", "utf8mb4")
# Character sets of one byte, whose undefined bytes become ``?``: in tis620 they become U+FFFD.
_HOLED: Final = ("ascii", "hebrew", "swe7")
_NO_TEXT: Final = re.compile("[\ud800-\udfff\ufffd]")


class ByteLabel(str):
    """A label that is written as bytes, ``0x…``, ``x'…'`` or ``b'…'``: nothing converts it.

    Its text is that of its bytes in UTF-8, with lone surrogates for those that are none.
    """

    __slots__ = ()

    def __new__(cls, value: bytes | str) -> Self:
        """Make a label of its bytes, or of a text that stands for them."""
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        return super().__new__(cls, value)


class Written(NamedTuple):
    """The character sets of the session that wrote literals; None for one that loses nothing.

    Attributes:
        client: ``character_set_client``, in which the statement is.
        connection: that of ``collation_connection``, to which literals are converted.
    """

    client: str | None = None
    connection: str | None = None


UNCONVERTED: Final = Written()
"""Literals of a session that loses nothing."""


def is_text(text: str) -> bool:
    """Whether nothing in it stands for bytes that are no text: lone surrogates, or U+FFFD."""
    return text.isascii() or _NO_TEXT.search(text) is None


def needed(labels: tuple[str, ...], written: Written) -> Written:
    """What of a session's character sets matters to these labels; nothing where they stay as they are."""
    if BINARY in written or written.connection in WIDE_CHARSETS:
        return written
    if all(label.isascii() for label in labels) and not any(map(lacks_ascii, written)):
        return UNCONVERTED
    if written.connection not in (None, *_UTF8):
        return written
    kept = all(is_text(one) and storable(one, written.connection) == one for one in labels)
    return UNCONVERTED if kept else written


def kept_labels(
    labels: tuple[str, ...], written: Written, charset: str | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Labels as the server keeps them in a column, and which of them (the first is 1) are not known.

    Args:
        labels: as they were written; lone surrogates stand for bytes that are no text.
        written: the session's character sets.
        charset: the column's; None while it is not known.
    """
    kept = [kept_label(label, written, charset) for label in labels]
    unknown = tuple(at for at, label in enumerate(kept, 1) if label is None)
    texts = zip(labels, kept, strict=True)
    return tuple(_NO_TEXT.sub("?", old) if new is None else new for old, new in texts), unknown


def kept_label(label: str, written: Written, charset: str | None) -> str | None:
    """A label as the server keeps it in a column; None where that is not known."""
    if charset not in (BINARY, None):
        label = type(label)(label.rstrip(" "))
    client, connection = (BINARY, BINARY) if isinstance(label, ByteLabel) else written
    wide = charset in WIDE_CHARSETS or connection in WIDE_CHARSETS
    if BINARY in (client, connection):
        taken_for = charset if connection in (BINARY, None) else connection
        if wide or (taken_for is None and not label.isascii()):
            return None
        found = _taken_for(label, client, taken_for)
        if found is None or taken_for == charset:
            return found
        label = found
    if not is_text(label):
        if client is None or (charset in (None, BINARY, client) and client != "utf8mb3"):
            return None
        found = _questioned(label, client)
        if found is None or charset == BINARY:
            return None
        label = found
    label = storable(label, connection)
    if charset != BINARY:
        return storable(label, charset)
    # Its bytes are shown as UTF-8.
    if wide or not (label.isascii() or connection in (None, *_UTF8)):
        return None
    return label


def _taken_for(label: str, client: str | None, charset: str | None) -> str | None:
    """The bytes of a label as text of another character set."""
    if charset is None or (label.isascii() and not lacks_ascii(charset)):
        return label
    try:
        if client in (None, BINARY, *_UTF8):
            data = label.encode("utf-8", "surrogateescape")
        else:
            data = encode_text(label, representative_id(client or BINARY))
        return decode_text(data, representative_id(charset))
    except (EncodeError, UnicodeEncodeError, UndecodableTextError):
        return None


def _questioned(label: str, client: str) -> str | None:
    """A label with ``?`` for each byte that is no text; None where a server takes other bytes with them."""
    if client == "utf8mb3":
        try:
            # Whole characters outside of the BMP, byte by byte.
            label.encode("utf-8", "surrogateescape").decode("utf-8")
        except (UnicodeEncodeError, UnicodeDecodeError):
            return None
        return None if "\ufffd" in label else _NO_TEXT.sub("?", label)
    return _NO_TEXT.sub("?", label) if client in _HOLED else None
