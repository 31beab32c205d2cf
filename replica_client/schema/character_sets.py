"""Character sets of columns, and labels of ENUM and SET columns.

A literal goes through three character sets: the client's (``character_set_client``), the
connection's (``collation_connection``) and the column's. A character that one of them lacks becomes
``?``. With ``binary`` nothing is converted: the bytes are read in the next character set. (Seen on
MySQL 5.6 and 9.7, MariaDB 10.11 and 11.8.)
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from replica_client.errors import EncodeError
from replica_client.protocol.codec.charsets import UndecodableTextError, decode_text, encode_text
from replica_client.protocol.constants.client_server import CHARSET_BY_COLLATION_ID

BINARY: Final = "binary"
UTF8MB3: Final = "utf8mb3"
WIDE_CHARSETS: Final = frozenset(("ucs2", "utf16", "utf16le", "utf32"))
"""Character sets without one-byte characters."""

BEYOND_UTF8MB3: Final = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
"""Character sets with characters that utf8mb3 lacks."""

_MAX_LENGTHS: Final = {
    **dict.fromkeys(("big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ucs2"), 2),
    **dict.fromkeys(("eucjpms", "ujis", "utf8mb3"), 3),
    **dict.fromkeys(("gb18030", "utf16", "utf16le", "utf32", "utf8mb4"), 4),
}
_DEFAULT_IDS: Final = MappingProxyType(
    {
        "armscii8": 32,
        "ascii": 11,
        "big5": 1,
        "binary": 63,
        "cp1250": 26,
        "cp1251": 51,
        "cp1256": 57,
        "cp1257": 59,
        "cp850": 4,
        "cp852": 40,
        "cp866": 36,
        "cp932": 95,
        "dec8": 3,
        "eucjpms": 97,
        "euckr": 19,
        "gb18030": 248,
        "gb2312": 24,
        "gbk": 28,
        "geostd8": 92,
        "greek": 25,
        "hebrew": 16,
        "hp8": 6,
        "keybcs2": 37,
        "koi8r": 7,
        "koi8u": 22,
        "latin1": 8,
        "latin2": 9,
        "latin5": 30,
        "latin7": 41,
        "macce": 38,
        "macroman": 39,
        "sjis": 13,
        "swe7": 10,
        "tis620": 18,
        "ucs2": 35,
        "ujis": 12,
        "utf16": 54,
        "utf16le": 56,
        "utf32": 60,
        "utf8mb3": 33,
        "utf8mb4": 45,
    }
)
CHARSET_NAMES: Final = frozenset(_DEFAULT_IDS)


def charset_name(name: str) -> str | None:
    """Return a character set's full name (``utf8`` is ``utf8mb3``); None for an unknown one."""
    name = name.lower()
    name = {"utf8": "utf8mb3", "koi8_ru": "koi8u"}.get(name, name)
    return name if name in CHARSET_NAMES else None


def charset_of_collation(name: str) -> str | None:
    """Return a collation's character set; None when its name has none (``uca1400_…``)."""
    return charset_name(name.lower().split("_", 1)[0])


def charset_of_id(collation_id: int | None) -> str | None:
    """Return the character set of a collation id; None for an unknown one."""
    return None if collation_id is None else CHARSET_BY_COLLATION_ID.get(collation_id)


def representative_id(charset: str) -> int:
    """Return one collation id of a character set; each of its ids decodes the same text."""
    return _DEFAULT_IDS[charset]


def max_length(charset: str) -> int:
    """Return the most bytes of a character (``mbmaxlen``)."""
    return _MAX_LENGTHS.get(charset, 1)


def storable(text: str, charset: str | None) -> str:
    """Return a label as a server stores it: ``?`` for each character that the set lacks."""
    if charset is None or (text.isascii() and not lacks_ascii(charset)):
        return text
    collation_id = representative_id(charset)
    return "".join(c if _has(c, collation_id) else "?" for c in text)


@cache
def lacks_ascii(charset: str | None) -> bool:
    """Return whether a character set, such as swe7, lacks or moves an ASCII character."""
    if charset is None or charset == BINARY or charset in WIDE_CHARSETS:
        return False
    ascii_text = "".join(map(chr, range(128)))
    try:
        return encode_text(ascii_text, representative_id(charset)) != ascii_text.encode()
    except EncodeError:
        return True


@lru_cache(maxsize=1024)
def _has(character: str, collation_id: int) -> bool:
    try:
        encode_text(character, collation_id)
    except EncodeError:
        return False
    return True


def reread(text: str, old: str, new: str) -> str | None:
    """Return a label after CONVERT TO.

    The servers keep the label's bytes and read them in the new character set.

    Returns:
        the label; None when the bytes are no text in the new character set.
    """
    if old in (new, BINARY):
        return text
    try:
        data = encode_text(text, representative_id(old))
        # A label of a binary column is shown as UTF-8.
        shown = "utf8mb4" if new == BINARY else new
        found = decode_text(data, representative_id(shown))
    except (EncodeError, UndecodableTextError):
        return None
    # Some servers end a label at a zero byte.
    return None if "\0" in found else found


_UTF8: Final = ("utf8mb3", "utf8mb4")
# Character sets of one byte, whose undefined bytes become ``?``: in tis620 they become U+FFFD.
_HOLED: Final = ("ascii", "hebrew", "swe7")
_NO_TEXT: Final = re.compile("[\ud800-\udfff\ufffd]")


class ByteLabel(str):
    """A label written as bytes (``0x…``, ``x'…'`` or ``b'…'``), which is not converted.

    Its text is the bytes decoded as UTF-8, with lone surrogates for invalid bytes.
    """

    __slots__ = ()

    def __new__(cls, value: bytes | str) -> Self:
        """Make a label from its bytes, or from a text that stands for them."""
        if isinstance(value, bytes):
            value = value.decode("utf-8", "surrogateescape")
        return super().__new__(cls, value)


class Written(NamedTuple):
    """The character sets of a session's literals; None for one that loses no character.

    Attributes:
        client: ``character_set_client``, of the statement.
        connection: of ``collation_connection``, to which literals are converted.
    """

    client: str | None = None
    connection: str | None = None


UNCONVERTED: Final = Written()
"""A session whose literals lose no character."""


def is_text(text: str) -> bool:
    """Return whether a text has no invalid bytes, as lone surrogates or U+FFFD."""
    return text.isascii() or _NO_TEXT.search(text) is None


def needed(labels: tuple[str, ...], written: Written) -> Written:
    """Return the session's character sets if they matter to these labels, else ``UNCONVERTED``."""
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
    """Return labels as the server stores them, and the numbers (from 1) of unknown ones.

    Args:
        labels: as written; lone surrogates stand for invalid bytes.
        written: the session's character sets.
        charset: the column's; None while it is not known.
    """
    kept = [kept_label(label, written, charset) for label in labels]
    unknown = tuple(at for at, label in enumerate(kept, 1) if label is None)
    texts = zip(labels, kept, strict=True)
    return tuple(_NO_TEXT.sub("?", old) if new is None else new for old, new in texts), unknown


def kept_label(label: str, written: Written, charset: str | None) -> str | None:
    """Return a label as the server stores it in a column; None where that is not known."""
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
    # A label of a binary column is shown as UTF-8.
    if wide or not (label.isascii() or connection in (None, *_UTF8)):
        return None
    return label


def _taken_for(label: str, client: str | None, charset: str | None) -> str | None:
    """Return a label's bytes decoded in another character set; None if that fails."""
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
    """Return a label with ``?`` for each invalid byte.

    Returns:
        the label; None where the server replaces other bytes too.
    """
    if client == "utf8mb3":
        try:
            # The bytes of whole characters outside the BMP each become ``?``.
            label.encode("utf-8", "surrogateescape").decode("utf-8")
        except (UnicodeEncodeError, UnicodeDecodeError):
            return None
        return None if "\ufffd" in label else _NO_TEXT.sub("?", label)
    return _NO_TEXT.sub("?", label) if client in _HOLED else None
