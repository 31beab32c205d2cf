"""CHAR, BINARY and their kin."""

import pytest

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.strings import (
    decode_binary,
    decode_char,
    encode_binary,
    encode_string,
    text_function,
)

LATIN1, UTF8MB4, BINARY = 8, 255, 63


def test_binary_gets_its_zero_bytes_back() -> None:
    assert decode_binary(b"a\0b", 5) == b"a\0b\0\0"
    assert decode_binary(encode_binary(b"\0\0\0"), 3) == b"\0\0\0"
    with pytest.raises(ValueError):
        decode_binary(b"abcd", 3)


def test_char_loses_its_trailing_spaces() -> None:
    assert decode_char(b" \xe9  ", LATIN1) == " é"
    assert decode_char(b"ab", None) == b"ab"
    assert decode_char(b"\xff", UTF8MB4, "bytes") == b"\xff"


def test_text_policies() -> None:
    assert text_function(None) is None
    assert text_function(BINARY) is None
    strict = text_function(UTF8MB4)
    assert strict is not None
    assert strict("ü😀".encode()) == "ü😀"
    with pytest.raises(UnicodeDecodeError):
        strict(b"\xff")
    replacing = text_function(UTF8MB4, "replace")
    assert replacing is not None
    assert replacing(b"a\xff") == "a�"
    keeping = text_function(UTF8MB4, "bytes")
    assert keeping is not None
    assert keeping(b"a\xff") == b"a\xff"
    assert keeping(b"a") == "a"


def test_strings_are_written_with_their_length() -> None:
    assert encode_string("é", 1, LATIN1) == b"\x01\xe9"
    assert encode_string(b"abc", 2) == b"\x03\0abc"
    with pytest.raises(EncodeError):
        encode_string(b"x" * 256, 1)
    with pytest.raises(EncodeError):
        encode_string("x", 1)
