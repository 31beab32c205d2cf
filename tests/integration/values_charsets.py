"""Random text, labels and names out of the characters that a character set has."""

import random
import unicodedata
from collections.abc import Iterator
from functools import cache

from replica_client.errors import EncodeError, ReplicaClientError
from replica_client.protocol.codec.charsets import charset_named, decode_text, encode_text
from replica_client.protocol.constants.client_server import CHARSET_BY_COLLATION_ID, CHARSETS

UNICODE = {"utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32"}
_BMP_ONLY = {"utf8mb3", "ucs2"}
_ID_OF = {
    name: min(i for i, n in CHARSET_BY_COLLATION_ID.items() if n == name) for name in CHARSETS
}


def modern(name: str) -> str:
    """Our name of a server's character set."""
    return "utf8mb3" if name == "utf8" else name


def collation_of(name: str) -> int:
    """A collation id of a character set."""
    return _ID_OF[modern(name)]


def encoded(text: str, charset: str) -> bytes:
    """The text's bytes in the character set."""
    return encode_text(text, collation_of(charset))


@cache
def _single_bytes(charset: str) -> str:
    found = []
    for code in range(256):
        try:
            found.append(decode_text(bytes((code,)), _ID_OF[charset]))
        except ReplicaClientError:
            continue
    return "".join(found)


def _sequences(rng: random.Random, charset: str) -> Iterator[bytes]:
    """Bytes that may be one character of a multi-byte set."""
    while True:
        kind = rng.randrange(4)
        if kind == 0:
            yield bytes((rng.randrange(0x80, 0x100),))
        elif kind == 1 and charset in ("ujis", "eucjpms"):
            yield bytes((0x8F, rng.randrange(0xA1, 0xFF), rng.randrange(0xA1, 0xFF)))
        elif kind == 1 and charset == "gb18030":
            yield bytes((rng.randrange(0x81, 0x85), rng.randrange(0x30, 0x3A),
                         rng.randrange(0x81, 0xFF), rng.randrange(0x30, 0x3A)))  # fmt: skip
        else:
            yield bytes((rng.randrange(0x81, 0xFF), rng.randrange(0x40, 0xFF)))


def repertoire(rng: random.Random, charset: str, size: int = 120) -> str:
    """Characters of a set: ASCII, and others by lot (all of them, for sets of single bytes)."""
    charset = modern(charset)
    if charset in UNICODE:
        found = "aZ ~09'\\\"\0\n" + "".join(_code_point(rng, charset) for _ in range(size))
    elif charset_named(charset).max_bytes == 1:
        return _single_bytes(charset)
    else:
        found = "aZ ~09'\\\"\0\n"
        sequences = _sequences(rng, charset)
        while len(found) < size:
            try:
                text = decode_text(next(sequences), _ID_OF[charset])
                encode_text(text, _ID_OF[charset])
            except (ReplicaClientError, EncodeError):
                continue
            if len(text) == 1:
                found += text
    return found


def _code_point(rng: random.Random, charset: str) -> str:
    while True:
        most = rng.choice((0x80, 0x100, 0x800, 0x10000, 0x10000, 0x110000))
        code = rng.randrange(most)
        if code > 0xFFFF and charset in _BMP_ONLY:
            continue
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def letters(rng: random.Random, charset: str) -> str:
    """Letters of the set that are no ASCII, if it has any; all in the basic plane."""
    found = [
        character
        for character in repertoire(rng, charset, 300)
        if "\x80" <= character <= "\uffff" and unicodedata.category(character) in ("Lo", "Ll")
    ]
    return "".join(found) or "abcxyz"


def labels(rng: random.Random, charset: str, count: int) -> tuple[str, ...]:
    """Labels of an ENUM or SET, different under every collation."""
    known = letters(rng, "utf8mb3" if charset == "binary" else charset)
    return tuple(
        f"{''.join(rng.choice(known) for _ in range(rng.randint(1, 2)))}_{at}"
        for at in range(count)
    )


def column_name(rng: random.Random, at: int) -> str:
    """A column's name: often not ASCII, now and then with what must be quoted."""
    known = letters(rng, "utf8mb3")
    kind = rng.randrange(4)
    if kind == 0:
        return f"c{at}"
    text = "".join(rng.choice(known) for _ in range(rng.choice((1, 3, 12))))
    return text + rng.choice(("_", "_", " ", "`", ".", "'", "%", "$")) + str(at)
