"""Character sets of one to four bytes per character: Python's codec, corrected where it differs.

Python's codec decodes a whole text in C. Its result is used unless it fails, or contains a
character whose bytes the servers may decode differently; only then the text is decoded character by
character.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_client.codec.charsets.tables.differences import Run

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
        from replica_client.codec.charsets.tables.differences import (  # large
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
