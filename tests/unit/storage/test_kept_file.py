"""Kept files: every byte of the plain file, at any offset, or an error that names what is wrong."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from replica_client.errors import BinlogFormatError, ConfigError
from replica_client.storage import kept_file
from replica_client.storage.files import file_status, files_in, open_file, read_at
from replica_client.storage.kept_file import Keeping, KeptReader, keep, plain_of, read_key

KEY = bytes(range(32))
FORMS = [Keeping(), Keeping(compressed=True), Keeping(key=KEY), Keeping(True, KEY)]
IDS = ["plain", "zstd", "aes", "zstd-aes"]


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size // 2) + bytes(size - size // 2)


def kept(plain: bytes, form: Keeping) -> bytes:
    target = io.BytesIO()
    keep(io.BytesIO(plain), len(plain), target, form)
    return target.getvalue()


def opened(stored: bytes) -> KeptReader:
    return KeptReader(io.BytesIO(stored), len(stored), "binlog.000001.9.rcz")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "_keys", {})
    monkeypatch.delenv(kept_file.KEY_VARIABLE, raising=False)
    monkeypatch.delenv(kept_file.KEY_FILE_VARIABLE, raising=False)
    read_key(KEY.hex().encode() + b"\n")


@pytest.mark.parametrize("form", FORMS, ids=IDS)
@pytest.mark.parametrize("size", [0, 1, 4096, 3 << 20, (3 << 20) + 17])
def test_any_part_is_that_of_the_plain_file(form: Keeping, size: int) -> None:
    plain = content(size)
    with opened(kept(plain, form)) as reader:
        assert reader.read() == plain
        rng = random.Random(size)
        for _ in range(40):
            offset, count = rng.randrange(size + 2), rng.randrange(2 << 20)
            assert reader.read_at(offset, count) == plain[offset : offset + count]
            reader.seek(offset)
            assert reader.read(100) == plain[offset : offset + 100]


@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_each_truncation_and_each_flipped_byte_is_named(
    form: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_file, "PLAIN_BLOCK", 64)
    plain = content(300)
    stored = kept(plain, form)
    for end in range(len(stored)):
        with pytest.raises(BinlogFormatError, match=r"binlog.000001.*restore it from a copy"):
            opened(stored[:end]).read()
    with pytest.raises(BinlogFormatError, match="its header states"):
        opened(stored + b"\0")
    for at in range(len(stored)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(stored)
            damaged[at] ^= mask
            with pytest.raises(BinlogFormatError, match=r"binlog.000001.*restore it from a copy"):
                opened(bytes(damaged)).read()


def test_blocks_cannot_be_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attacker can compute each checksum again, but no tag."""
    monkeypatch.setattr(kept_file, "PLAIN_BLOCK", 64)
    plain = content(128)
    one, other = (kept(plain, Keeping(key=KEY)) for _ in range(2))
    head = 64 + 4 * 2
    swapped = one[:head] + one[head + 80 :] + one[head : head + 80]
    mixed = one[: head + 80] + other[head + 80 :]
    assert len(swapped) == len(mixed) == len(one)
    for changed in (swapped, mixed):
        with pytest.raises(BinlogFormatError, match="was changed"):
            opened(changed).read()


def test_the_key_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = kept(b"binlog", Keeping(key=KEY))
    monkeypatch.setattr(kept_file, "_keys", {})
    with pytest.raises(ConfigError, match="is encrypted with the key"):
        opened(stored)
    read_key(bytes(32).hex().encode())
    with pytest.raises(ConfigError, match="the key that is given is another one"):
        opened(stored)
    path = tmp_path / "key"
    path.write_text(KEY.hex())
    monkeypatch.setenv(kept_file.KEY_FILE_VARIABLE, str(path))
    assert opened(stored).read() == b"binlog"
    monkeypatch.setattr(kept_file, "_keys", {})
    path.write_text("no key")
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        opened(stored)
    monkeypatch.setenv(kept_file.KEY_VARIABLE, KEY.hex())
    assert opened(stored).read() == b"binlog"


def test_a_listing_says_the_plain_name_and_size(tmp_path: Path) -> None:
    plain = content(5000)
    path = tmp_path / "binlog.000007.5000.rcz"
    path.write_bytes(kept(plain, Keeping(compressed=True)))
    (found,) = files_in(tmp_path) or []
    assert (found.name, found.size, found.modified) == ("binlog.000007", 5000, -1)
    assert file_status(path) == found
    with open_file(path) as stream:
        assert read_at(stream, 4000, 9999) == plain[4000:]
    assert plain_of("binlog.000007") is None
    assert plain_of("shop.000001.rcz") is None
