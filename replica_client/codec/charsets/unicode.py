"""The Unicode character sets, with MySQL's limits where Python's codecs accept more."""

from __future__ import annotations

import re
from collections.abc import Callable

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
