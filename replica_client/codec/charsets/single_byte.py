"""Character sets of one byte per character, by a table of 256 characters."""

from __future__ import annotations

import codecs
from collections.abc import Callable

UNDEFINED = "\ufffe"
"""The table entry of a byte that is no character; no character set contains it."""

_ASCII = bytes(range(128)).decode("ascii")


def decoding_table(name: str) -> str:
    """Return the 256 characters of a character set."""
    from replica_client.codec.charsets.tables.differences import CODECS, DECODE_RUNS  # large

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
    from replica_client.codec.charsets.tables.differences import ENCODE_RUNS

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
