"""Events that MariaDB encrypted, in the decoder and alone."""

from __future__ import annotations

import pytest

from replica_client.errors import EncryptedBinlogError, TruncatedEventError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import event_checksum
from replica_client.protocol.binlog.encryption import EventCipher
from replica_client.protocol.binlog.event import BinlogFormat, DecodeOptions, EventHeader
from replica_client.protocol.binlog.events import (
    AnnotateRowsEvent,
    FormatDescriptionEvent,
    StartEncryptionEvent,
)
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.header_scan import HeaderScan
from tests.unit.protocol.binlog.events.seed import whole_event

T = EventType
KEY = bytes(range(32))
START = StartEncryptionEvent(1, 1, b"nonce of 12b")
VERSION = b"10.11.18-MariaDB".ljust(50, b"\0")


def layout(checksum: bool) -> BinlogFormat:
    algorithm = ChecksumAlgorithm.CRC32 if checksum else ChecksumAlgorithm.OFF
    return BinlogFormat(4, "10.11.18-MariaDB", 19, bytes(171), algorithm)


def event(size: int, checksum: bool) -> bytes:
    return whole_event(T.ANNOTATE_ROWS_EVENT, b"q" * size, layout(checksum), timestamp=0x1234567)


def begun(checksum: bool, keys: dict[str, bytes]) -> BinlogDecoder:
    """A decoder that has seen a file's begin, up to position 100."""
    decoder = BinlogDecoder(DecodeOptions(keys=keys), "bin.1", layout(checksum))
    size = 19 + 17 + (4 if checksum else 0)
    body = START.encode()
    data = EventHeader(1, T.START_ENCRYPTION_EVENT, 1, size, 60 + size, 0).encode() + body
    if checksum:
        data += event_checksum(data).to_bytes(4, "little")
    decoder.decode(data, 60)
    return decoder


@pytest.mark.parametrize("key", [KEY, KEY[:16], KEY[:24]], ids=["256", "128", "192"])
@pytest.mark.parametrize("counter_mode", [False, True], ids=["cbc", "ctr"])
@pytest.mark.parametrize("checksum", [False, True], ids=["plain", "crc"])
def test_decoded(checksum: bool, counter_mode: bool, key: bytes) -> None:
    decoder = begun(checksum, {"1": key})
    cipher = EventCipher(START, {"1": key}, checksum)
    position = 100
    for size in (0, 1, 12, 13, 14, 15, 16, 17, 1000):
        plain = event(size, checksum)
        data = cipher.encrypt(plain, position, counter_mode)
        assert data != plain
        assert data[9:13] == plain[9:13]
        assert decoder.decrypted(data, position) == plain
        decoded = decoder.decode(data, position)
        assert (decoded.body, decoded.header.timestamp) == (
            AnnotateRowsEvent(b"q" * size),
            0x1234567,
        )
        position += len(data)


def test_positions_beyond_4_gib() -> None:
    cipher = EventCipher(START, {"1": KEY}, True)
    plain = event(5, True)
    data = cipher.encrypt(plain, (1 << 32) + 100)
    assert data == cipher.encrypt(plain, 100)
    assert cipher.decrypt(data, (1 << 32) + 100) == plain


def test_without_the_key() -> None:
    decoder = begun(True, {})
    data = EventCipher(START, {"1": KEY}, True).encrypt(event(5, True), 100)
    for _ in range(2):
        with pytest.raises(EncryptedBinlogError, match="was not given") as caught:
            decoder.decode(data, 100)
    assert (caught.value.file, caught.value.position) == ("bin.1", 100)


@pytest.mark.parametrize("checksum", [False, True])
def test_with_another_key(checksum: bool) -> None:
    data = EventCipher(START, {"1": KEY}, checksum).encrypt(event(5, checksum), 100)
    decoder = begun(checksum, {"1": bytes(32)})
    for _ in range(2):
        with pytest.raises(EncryptedBinlogError, match="does not decrypt"):
            decoder.decode(data, 100)


def test_key_of_no_aes_size() -> None:
    with pytest.raises(EncryptedBinlogError, match="16, 24 or 32"):
        EventCipher(START, {"1": b"short"}, True).decrypt(bytes(30), 100)


def test_scheme_that_is_not_known() -> None:
    cipher = EventCipher(StartEncryptionEvent(2, 1, bytes(12)), {"1": KEY}, True)
    with pytest.raises(EncryptedBinlogError, match="scheme 2"):
        cipher.decrypt(bytes(30), 100)


def test_cut() -> None:
    cipher = EventCipher(START, {"1": KEY}, True)
    for size in range(19):
        with pytest.raises(TruncatedEventError):
            cipher.decrypt(event(5, True)[:size], 100)


def test_the_next_file_begins_in_clear() -> None:
    decoder = begun(True, {"1": KEY})
    description = FormatDescriptionEvent(4, VERSION, 0, 19, bytes(171))
    data = whole_event(T.FORMAT_DESCRIPTION_EVENT, description.encode(), layout(True))
    assert decoder.decode(data, 4).body == description
    assert decoder.decode(event(5, True), 300).body == AnnotateRowsEvent(b"qqqqq")


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("keys", [{}, {"1": KEY}])
def test_a_stream_is_in_clear(checksum: bool, keys: dict[str, bytes]) -> None:
    """A source sends its START_ENCRYPTION, and then plain events (seen on MariaDB 10.11)."""
    decoder = begun(checksum, keys)
    for position in (100, 200, 4, 300):
        data = event(5, checksum)
        assert decoder.decode(data, position).body == AnnotateRowsEvent(b"qqqqq")


def test_scan_takes_no_type_from_encrypted_events() -> None:
    """A ciphertext's byte may be the code of a format description, or of a v1 start."""
    plain = whole_event(T.START_ENCRYPTION_EVENT, START.encode(), layout(False))
    events = [plain]
    for code in (T.FORMAT_DESCRIPTION_EVENT, T.START_EVENT_V3, T.START_ENCRYPTION_EVENT):
        events += [whole_event(code, b"\xff" * 100), event(3, False)]
    data = b"\xfebin" + b"".join(events)
    scan = HeaderScan(data)
    assert [header.event_size for _, header in scan] == [len(one) for one in events]
    assert not scan.truncated
