"""Character sets and collations by name and id, and their effect on ENUM and SET labels."""

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
