"""Decompression never gives more than its limit, and says what is broken."""

from __future__ import annotations

import io
import sys
import zlib

import pytest
import zstandard

from replica_client.errors import BinlogDecodeError, ConfigError, EncodeError, LimitExceededError
from replica_client.protocol.codec.compression import (
    BoundedReader,
    deflate_record,
    inflate,
    inflate_record,
    zstd_compress,
    zstd_reader,
)

TEXT = b"some text " * 100
MIB = 1 << 20


def test_inflate() -> None:
    data = zlib.compress(TEXT)
    assert inflate(data, len(TEXT)) == TEXT
    assert inflate(data, 1 << 20, len(TEXT)) == TEXT
    assert inflate(zlib.compress(b""), 0) == b""


@pytest.mark.parametrize("limit", [0, 1, 999])
def test_inflate_beyond_the_limit(limit: int) -> None:
    with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
        inflate(zlib.compress(TEXT), limit)
    with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
        inflate(zlib.compress(TEXT), limit, len(TEXT))


@pytest.mark.parametrize("size", [0, 999, 1001])
def test_inflate_to_another_size_than_announced(size: int) -> None:
    with pytest.raises(BinlogDecodeError):
        inflate(zlib.compress(TEXT), 1 << 20, size)


def test_inflate_cut_at_every_byte() -> None:
    data = zlib.compress(TEXT)
    for size in range(len(data)):
        with pytest.raises(BinlogDecodeError):
            inflate(data[:size], 1 << 20)


def test_inflate_garbage() -> None:
    with pytest.raises(BinlogDecodeError, match="broken zlib data"):
        inflate(b"garbage", 10)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535, 65536, 1 << 24])
def test_records(size: int) -> None:
    data = bytes(size)
    record = deflate_record(data)
    assert record[0] == 0x80 | max(1, (size.bit_length() + 7) // 8)
    assert inflate_record(record, size) == data
    if size:
        with pytest.raises(LimitExceededError):
            inflate_record(record, size - 1)


def test_record_of_a_server() -> None:
    """The compressed statement of MariaDB 10.11, seen in tests/golden."""
    record = deflate_record(b"CREATE TABLE t (i INT)")
    assert inflate_record(record, 100) == b"CREATE TABLE t (i INT)"


@pytest.mark.parametrize("record", ["", "80", "81", "00", "03000001", "91" + "00" * 9, "85" * 9])
def test_broken_records(record: str) -> None:
    with pytest.raises(BinlogDecodeError):
        inflate_record(bytes.fromhex(record), 100)


def test_a_record_that_is_too_large() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 33

    with pytest.raises(EncodeError):
        deflate_record(Huge())


def test_bounded_reader() -> None:
    reader = BoundedReader(io.BytesIO(TEXT), len(TEXT))
    assert reader.read(10) == TEXT[:10]
    assert reader.offset == 10
    assert reader.read(10_000) == TEXT[10:]
    assert reader.read(1) == b""
    with pytest.raises(LimitExceededError):
        BoundedReader(io.BytesIO(TEXT), 10).read(11)


def test_zstd_reader_over_frames() -> None:
    reader = zstd_reader(zstd_compress(TEXT) + zstd_compress(b"more"), 2000)
    assert b"".join(iter(lambda: reader.read(7), b"")) == TEXT + b"more"


def test_zstd_bomb_takes_little_memory() -> None:
    """A terabyte in a few bytes: the limit stops it, whatever the frame claims."""
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 * MIB))
    reader = zstd_reader(frame * 100, 3 * MIB)
    seen = 0
    with pytest.raises(LimitExceededError, match="max_uncompressed_size"):
        while chunk := reader.read(MIB):
            seen += len(chunk)
    assert seen == 3 * MIB


def test_zstd_that_is_broken() -> None:
    data = zstd_compress(TEXT)
    reader = zstd_reader(b"garbage" + data, 2000)
    with pytest.raises(BinlogDecodeError, match="broken compressed data"):
        reader.read(10)
    for at in range(len(data)):
        changed = data[:at] + bytes((data[at] ^ 0x55,)) + data[at + 1 :]
        reader = zstd_reader(changed, 2000)
        try:
            while reader.read(100):
                pass
        except BinlogDecodeError:
            continue


def test_zstd_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ConfigError, match="pip install zstandard"):
        zstd_reader(b"", 0)
