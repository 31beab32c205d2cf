"""Character sets as definitions name them."""

from __future__ import annotations

from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

from replica_client.codec.charsets import UndecodableTextError, decode_text, encode_text
from replica_client.constants.collations import CHARSET_BY_COLLATION_ID
from replica_client.errors import EncodeError

BINARY: Final = "binary"
UTF8MB3: Final = "utf8mb3"
WIDE_CHARSETS: Final = frozenset(("ucs2", "utf16", "utf16le", "utf32"))
"""Character sets that have no character of one byte."""

BEYOND_UTF8MB3: Final = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
"""Character sets that have characters which utf8mb3 lacks."""

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
    """The character set that a name means (``utf8`` is ``utf8mb3``); None when it is not known."""
    name = name.lower()
    name = {"utf8": "utf8mb3", "koi8_ru": "koi8u"}.get(name, name)
    return name if name in CHARSET_NAMES else None


def charset_of_collation(name: str) -> str | None:
    """The character set of a collation by its name; None when the name has none (``uca1400_…``)."""
    return charset_name(name.lower().split("_", 1)[0])


def charset_of_id(collation_id: int | None) -> str | None:
    """The character set of a collation id; None when it is not known."""
    return None if collation_id is None else CHARSET_BY_COLLATION_ID.get(collation_id)


def representative_id(charset: str) -> int:
    """A collation id of a character set: values are read alike with all of them."""
    return _DEFAULT_IDS[charset]


def max_length(charset: str) -> int:
    """Bytes that a character can have (``mbmaxlen``)."""
    return _MAX_LENGTHS.get(charset, 1)


def storable(text: str, charset: str | None) -> str:
    """A label as a server keeps it in a character set: ``?`` for each character that it lacks."""
    if charset is None or charset == BINARY or (text.isascii() and not lacks_ascii(charset)):
        return text
    collation_id = representative_id(charset)
    return "".join(c if _has(c, collation_id) else "?" for c in text)


@cache
def lacks_ascii(charset: str | None) -> bool:
    """Whether a character set lacks an ASCII character, as swe7 does, or has another one at its byte."""
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
    """A label after CONVERT TO: the servers keep its bytes and read them in the new character set.

    Returns:
        the label; None when the bytes are no text there.
    """
    if old in (new, BINARY):
        return text
    try:
        data = encode_text(text, representative_id(old))
        # Labels of bytes are shown as UTF-8.
        shown = "utf8mb4" if new == BINARY else new
        found = decode_text(data, representative_id(shown))
    except (EncodeError, UndecodableTextError):
        return None
    # Some servers end a label at a zero byte.
    return None if "\0" in found else found
