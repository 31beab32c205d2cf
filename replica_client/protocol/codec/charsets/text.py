"""Text in the servers' character sets.

Python's codec decodes a whole text in C. Its result is used unless it fails, or contains a
character whose bytes the servers may decode differently; only then the text is decoded character by
character.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Literal, overload

from replica_client.errors import EncodeError, ReplicaClientError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import CHARSET_BY_COLLATION_ID, CHARSETS

if TYPE_CHECKING:
    from replica_client.protocol.codec.charsets.tables.differences import Run


REPLACEMENT = "\ufffd"


def expand(runs: tuple[Run, ...]) -> dict[bytes, str | None]:
    """Return the character of every byte sequence in the runs; None for invalid sequences."""
    found: dict[bytes, str | None] = {}
    for first, count, character in runs:
        size = max((first.bit_length() + 7) // 8, 1)
        for at in range(count):
            key = (first + at).to_bytes(size, "big")
            found[key] = None if character < 0 else chr(character + at)
    return found


def _pattern(characters: set[str]) -> re.Pattern[str] | None:
    if not characters:
        return None
    return re.compile("[" + "".join(re.escape(each) for each in sorted(characters)) + "]")


class MultiByteCharset:
    """A multi-byte character set.

    Args:
        name: e.g. ``cp932``.
        max_bytes: bytes of its longest character.
    """

    def __init__(self, name: str, max_bytes: int) -> None:
        from replica_client.protocol.codec.charsets.tables.differences import (  # large
            CODECS,
            DECODE_RUNS,
            ENCODE_RUNS,
        )

        self.name = name
        self._codec = CODECS[name]
        self._sizes = range(1, max_bytes + 1)
        self._different = expand(DECODE_RUNS.get(name, ()))
        self._preferred = {
            character: data
            for data, character in expand(ENCODE_RUNS.get(name, ())).items()
            if character is not None
        }
        suspects = {self._python(data) for data in self._different} - {None}
        self._suspects = _pattern({each for each in suspects if each is not None})
        self._own = {each: data for data, each in reversed(self._different.items()) if each}
        self._odd = _pattern(set(self._preferred))
        self._decode = self.decoder("strict")

    def _python(self, data: bytes) -> str | None:
        try:
            text = data.decode(self._codec)
        except UnicodeDecodeError:
            return None
        return text if len(text) == 1 else None

    def decoder(self, errors: str) -> Callable[[bytes], str]:
        """Return a function that decodes bytes or raises UnicodeDecodeError."""
        codec, suspects = self._codec, self._suspects

        def decode(data: bytes) -> str:
            try:
                text = data.decode(codec)
            except UnicodeDecodeError:
                return self._decode_slowly(data, errors)
            if suspects is not None and suspects.search(text):
                return self._decode_slowly(data, errors)
            return text

        return decode

    def _decode_slowly(self, data: bytes, errors: str) -> str:
        out: list[str] = []
        at = 0
        while at < len(data):
            for size in self._sizes:
                sequence = data[at : at + size]
                character = (
                    self._different[sequence]
                    if sequence in self._different
                    else self._python(sequence)
                )
                if character is not None:
                    out.append(character)
                    at += size
                    break
            else:
                if errors != "replace":
                    raise UnicodeDecodeError(self.name, data, at, at + 1, "no such character")
                out.append(REPLACEMENT)
                at += 1
        return "".join(out)

    def encode(self, text: str) -> bytes:
        """Encode text; raise UnicodeEncodeError where that fails.

        Bytes are only returned if they decode to the same text.
        """
        if self._odd is None or not self._odd.search(text):
            try:
                data = text.encode(self._codec)
                if self._decode(data) == text:
                    return data
            except UnicodeError:
                pass
        return b"".join(self._encode_one(text, at) for at in range(len(text)))

    def _encode_one(self, text: str, at: int) -> bytes:
        character = text[at]
        data = self._preferred.get(character)
        if data is not None:
            return data
        try:
            data = character.encode(self._codec)
            if self._decode(data) == character:
                return data
        except UnicodeError:
            pass
        data = self._own.get(character)
        if data is None:
            raise UnicodeEncodeError(self.name, text, at, at + 1, "no such character")
        return data


UNDEFINED = "\ufffe"
"""The table entry of a byte that is no character; no character set contains it."""

_ASCII = bytes(range(128)).decode("ascii")


def decoding_table(name: str) -> str:
    """Return the 256 characters of a character set."""
    from replica_client.protocol.codec.charsets.tables.differences import (  # large
        CODECS,
        DECODE_RUNS,
    )

    table = [UNDEFINED] * 256
    for byte in range(256):
        try:
            table[byte] = bytes([byte]).decode(CODECS[name])
        except UnicodeDecodeError:
            continue
    for first, count, character in DECODE_RUNS.get(name, ()):
        for at in range(count):
            table[first + at] = UNDEFINED if character < 0 else chr(character + at)
    return "".join(table)


def single_byte_decoder(name: str, errors: str) -> Callable[[bytes], str]:
    """Return a function that decodes a single-byte set; it raises UnicodeDecodeError."""
    table = decoding_table(name)
    decode = codecs.charmap_decode

    def decoder(data: bytes) -> str:
        return decode(data, errors, table)[0]

    def ascii_first(data: bytes) -> str:
        # Most text is ASCII, which Python copies; it looks up any other character by character.
        return data.decode("ascii") if data.isascii() else decode(data, errors, table)[0]

    return ascii_first if table[:128] == _ASCII else decoder


def single_byte_encoder(name: str) -> Callable[[str], bytes]:
    """Return a function that encodes a single-byte set; it raises UnicodeEncodeError."""
    from replica_client.protocol.codec.charsets.tables.differences import ENCODE_RUNS

    table = decoding_table(name)
    # Where several bytes mean one character, the lowest byte is written.
    by_character = {
        ord(table[byte]): byte for byte in range(255, -1, -1) if table[byte] != UNDEFINED
    }
    for first, count, character in ENCODE_RUNS.get(name, ()):
        by_character.update((character + at, first + at) for at in range(count))

    def encoder(text: str) -> bytes:
        return codecs.charmap_encode(text, "strict", by_character)[0]

    return encoder


UNICODE_CODECS = {
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}
"""Character set -> Python's codec. UCS-2, UTF-16 and UTF-32 are big-endian, without a mark."""

_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")


def unicode_decoder(name: str, errors: str) -> Callable[[bytes], str]:
    """Return a function that decodes a Unicode set; it raises UnicodeDecodeError."""
    codec = UNICODE_CODECS[name]

    def plain(data: bytes) -> str:
        return data.decode(codec, errors)

    def within_bmp(data: bytes) -> str:
        text = data.decode(codec, errors)
        beyond = _BEYOND_BMP.search(text)
        if beyond is None:
            return text
        if errors == "replace":
            return _BEYOND_BMP.sub("\ufffd", text)
        start = len(text[: beyond.start()].encode(codec))
        raise UnicodeDecodeError(name, data, start, start + 4, "character beyond U+FFFF")

    return within_bmp if name in ("ucs2", "utf8mb3") else plain


def unicode_encoder(name: str) -> Callable[[str], bytes]:
    """Return a function that encodes a Unicode set; it raises UnicodeEncodeError."""
    codec = UNICODE_CODECS[name]

    def encoder(text: str) -> bytes:
        if name in ("ucs2", "utf8mb3"):
            beyond = _BEYOND_BMP.search(text)
            if beyond is not None:
                at = beyond.start()
                raise UnicodeEncodeError(name, text, at, at + 1, "character beyond U+FFFF")
        return text.encode(codec)

    return encoder


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
