"""Numbers of variable length and the head of messages."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from replica_client.errors import (
    BinlogDecodeError,
    EncodeError,
    ShortBufferError,
    UnsupportedEventError,
)
from replica_client.protocol.binlog.payload import (
    MessageHead,
    read_array,
    read_signed,
    read_text,
    read_unsigned,
    write_array,
    write_signed,
    write_text,
    write_unsigned,
)
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "00"),
        (1, "02"),
        (127, "fe"),
        (128, "0102"),
        (0x8F, "3d02"),  # bytes of a uuid that MySQL 9.7 wrote
        (0xFC, "f103"),
        (295, "9d04"),
        (90704, "83120b"),
        ((1 << 14) - 1, "fdff"),
        (1 << 14, "030002"),
        ((1 << 56) - 1, "7fffffffffffffff"),
        (1 << 56, "ff0000000000000001"),
        ((1 << 64) - 1, "ff" * 9),
    ],
)
def test_unsigned(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert write_unsigned(ByteWriter(), value).done() == data
    reader = ByteReader(data)
    assert (read_unsigned(reader), reader.remaining) == (value, 0)
    for size in range(len(data)):
        with pytest.raises(ShortBufferError):
            read_unsigned(ByteReader(data[:size]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "00"),
        (1, "04"),
        (-1, "02"),
        (-64, "fe"),
        (64, "0102"),
        ((1 << 63) - 2, "fffcffffffffffffff"),
        (-(1 << 63), "ff" * 9),
    ],
)
def test_signed(value: int, text: str) -> None:
    assert write_signed(ByteWriter(), value).done().hex() == text
    assert read_signed(ByteReader(bytes.fromhex(text))) == value


@given(st.integers(0, (1 << 64) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_what_was_written_is_read(unsigned: int, signed: int) -> None:
    out = write_signed(write_unsigned(ByteWriter(), unsigned), signed)
    reader = ByteReader(out.done())
    assert (read_unsigned(reader), read_signed(reader), reader.remaining) == (unsigned, signed, 0)


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_numbers_that_do_not_fit(value: int) -> None:
    with pytest.raises(EncodeError):
        write_unsigned(ByteWriter(), value)


def test_text_and_array() -> None:
    data = write_array(write_text(ByteWriter(), b"tag"), b"\0\x7f\x80\xff").done()
    reader = ByteReader(data)
    assert (read_text(reader), read_array(reader, 4)) == (b"tag", b"\0\x7f\x80\xff")
    with pytest.raises(BinlogDecodeError):
        read_array(ByteReader(write_unsigned(ByteWriter(), 256).done()), 1)
    with pytest.raises(ShortBufferError):
        read_text(ByteReader(b"\x08abc"))


@pytest.mark.parametrize("size", [0, 1, 123, 124, 125, 126, 16378, 16379, 16380, 16400])
def test_message_size_counts_itself(size: int) -> None:
    head = MessageHead(1, 3, bytes(size))
    data = head.encode()
    reader = ByteReader(data + b"rest")
    assert MessageHead.decode(reader) == head
    assert reader.rest() == b"rest"
    assert read_unsigned(ByteReader(data[1:])) == len(data)


def test_message_of_another_version() -> None:
    with pytest.raises(UnsupportedEventError, match="version 2"):
        MessageHead.decode(ByteReader(MessageHead(2, 0, b"").encode()))
