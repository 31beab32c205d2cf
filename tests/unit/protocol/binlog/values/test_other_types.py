"""GEOMETRY, VECTOR, MariaDB's COMPRESSED columns, UUID and INET."""

import struct
import zlib

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import EncodeError, LimitExceededError
from replica_client.protocol.binlog.values.strings import decode_compressed, encode_compressed
from replica_client.protocol.binlog.values.value_types import (
    Geometry,
    decode_geometry,
    decode_inet4,
    decode_inet6,
    decode_uuid,
    decode_vector,
    encode_geometry,
    encode_inet4,
    encode_inet6,
    encode_uuid,
    encode_vector,
)


@given(st.one_of(st.just(b""), st.binary(min_size=4)))
def test_geometry_comes_back(data: bytes) -> None:
    value = decode_geometry(data)
    if data != bytes(4):
        assert encode_geometry(value) == data


def test_geometry() -> None:
    point = struct.pack("<BIdd", 1, 1, 1.5, -2.0)
    assert decode_geometry(struct.pack("<I", 4326) + point) == Geometry(4326, point)
    for size in (1, 2, 3):
        with pytest.raises(ValueError):
            decode_geometry(bytes(size))
    with pytest.raises(EncodeError):
        encode_geometry(Geometry(1 << 32, b""))


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=9))
def test_vector_comes_back(numbers: list[float]) -> None:
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    assert encode_vector(decode_vector(data)) == data


def test_vector() -> None:
    assert decode_vector(struct.pack("<3f", 1, 5.61, -0.1)) == (1.0, 5.61, -0.1)
    with pytest.raises(ValueError):
        decode_vector(b"12345")


@given(st.binary(max_size=400), st.booleans())
def test_compressed_comes_back(value: bytes, raw: bool) -> None:
    assert decode_compressed(encode_compressed(value, raw=raw)) == value


def test_compressed_as_servers_write_it() -> None:
    # MariaDB 10.11.18: REPEAT('xyz', 100) in BLOB COMPRESSED, REPEAT('a', 30) in VARCHAR(30).
    assert decode_compressed(bytes.fromhex("8a012caba8acaa1845c42100")) == b"xyz" * 100
    assert decode_compressed(b"\0" + b"a" * 30) == b"a" * 30
    assert decode_compressed(b"") == b""


@pytest.mark.parametrize(
    "data",
    [
        b"\x01abc",
        b"\x70abc",
        b"\x80abc",
        b"\x85\0\0\0\0\1abc",
        b"\x81",
        b"\x89\x05",
        b"\x89\x05garbage",
        b"\x81\x05" + zlib.compress(b"123"),
        b"\x81\x03" + zlib.compress(b"12345"),
        b"\x81\x03" + zlib.compress(b"123") + b"x",
    ],
)
def test_broken_compressed_columns_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_compressed(data)


def test_a_decompression_bomb_is_refused() -> None:
    bomb = encode_compressed(bytes(1 << 20))
    assert len(bomb) < 2000
    with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
        decode_compressed(bomb, 1 << 19)


@given(st.binary(min_size=16, max_size=16))
def test_network_types_come_back(data: bytes) -> None:
    assert encode_uuid(decode_uuid(data)) == data
    assert encode_inet6(decode_inet6(data)) == data
    assert encode_inet4(decode_inet4(data[:4])) == data[:4]
    assert decode_uuid(data.rstrip(b"\0")) == decode_uuid(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", "::"),
        ("00000000000000000000000000000001", "::1"),
        ("20010db8000000000000ff0000428329", "2001:db8::ff00:42:8329"),
        ("00000000000000000000ffff01020304", "::ffff:1.2.3.4"),
        ("00000000000000000000ffff00000000", "::ffff:0.0.0.0"),
        ("00000000000000000000000001020304", "::1.2.3.4"),
        ("00009aec42af00000001000100010001", "::9aec:42af:0:1:1:1:1"),
        ("07cf0001000100010001000100010000", "7cf:1:1:1:1:1:1::"),
    ],
)
def test_inet6_as_mariadb_spells_it(data: str, text: str) -> None:
    assert decode_inet6(bytes.fromhex(data)) == text


def test_what_is_too_long_is_refused() -> None:
    for decode in (decode_uuid, decode_inet4, decode_inet6):
        with pytest.raises(ValueError):
            decode(bytes(17))
