"""Files that MySQL 8 encrypted."""

from __future__ import annotations

import pytest

from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    EncodeError,
    EncryptedBinlogError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.encryption import (
    ENCRYPTION_HEADER_SIZE,
    EncryptionHeader,
    decrypt_file,
)

KEY, PASSWORD, IV = bytes(range(32)), bytes(range(100, 132)), bytes(range(16))
KEYS = {"MySQLReplicationKey_x_1": KEY}
HEADER = EncryptionHeader.seal("MySQLReplicationKey_x_1", KEY, PASSWORD, IV)
PLAIN = b"\xfebin" + bytes(range(256)) * 5


def encrypted() -> bytes:
    return HEADER.encode() + HEADER.open(KEYS).apply(PLAIN, 0)


def test_header() -> None:
    data = HEADER.encode()
    assert len(data) == ENCRYPTION_HEADER_SIZE
    assert data[:8] == b"\xfdbin\1\1\x17M"
    assert EncryptionHeader.decode(data) == HEADER


def test_file() -> None:
    data = encrypted()
    assert data[ENCRYPTION_HEADER_SIZE:] != PLAIN
    assert decrypt_file(data, KEYS) == PLAIN


def test_any_part_of_the_content() -> None:
    cipher = HEADER.open(KEYS)
    content = encrypted()[ENCRYPTION_HEADER_SIZE:]
    for offset in (0, 1, 15, 16, 17, 255, 1000):
        assert cipher.apply(content[offset : offset + 33], offset) == PLAIN[offset : offset + 33]


def test_offsets_beyond_4_gib() -> None:
    cipher = HEADER.open(KEYS)
    offset = (1 << 36) + 5
    assert cipher.apply(cipher.apply(PLAIN, offset), offset) == PLAIN
    assert cipher.apply(PLAIN, offset) != cipher.apply(PLAIN, 5)


def test_without_the_key() -> None:
    with pytest.raises(EncryptedBinlogError, match="MySQLReplicationKey_x_1"):
        decrypt_file(encrypted(), {})
    with pytest.raises(EncryptedBinlogError, match="32 bytes"):
        decrypt_file(encrypted(), {"MySQLReplicationKey_x_1": b"short"})


def test_with_another_key() -> None:
    with pytest.raises(EncryptedBinlogError, match="does not decrypt"):
        decrypt_file(encrypted(), {"MySQLReplicationKey_x_1": bytes(32)})


def test_header_cut_at_every_byte() -> None:
    data = HEADER.encode()
    for size in range(ENCRYPTION_HEADER_SIZE):
        with pytest.raises(BinlogFormatError if size < 4 else TruncatedEventError):
            EncryptionHeader.decode(data[:size])


def test_header_with_every_byte_changed() -> None:
    data = HEADER.encode()
    for at in range(100):
        for value in (0, 1, 2, 3, 4, 0xFF):
            try:
                EncryptionHeader.decode(data[:at] + bytes((value,)) + data[at + 1 :])
            except BinlogDecodeError:
                continue


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xfdbin\2", "encryption version 2"),
        (b"\xfdbin\1\7", "field 7"),
        (b"\xfdbin\1\0", "lacks"),
        (b"\xfdbin\1\1\1\xff\2" + bytes(32) + b"\3" + bytes(16), "lacks"),
    ],
)
def test_headers_that_are_not_known(data: bytes, message: str) -> None:
    with pytest.raises(BinlogFormatError, match=message):
        EncryptionHeader.decode(data.ljust(512, b"\0"))


def test_key_id_that_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        EncryptionHeader("x" * 255 * 2, bytes(32), bytes(16)).encode()
