"""Character sets against what real servers said (tests/golden/charsets.json)."""

import hashlib
import importlib.util
import itertools
import json
import random
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from replica_client.errors import EncodeError, ReplicaClientError
from replica_client.protocol.codec.charsets import (
    Charset,
    UndecodableTextError,
    UnknownCollationError,
    charset_named,
    charset_of,
    decode_text,
    encode_text,
    text_decoder,
)
from replica_client.protocol.codec.charsets.tables.differences import CODECS, DECODE_RUNS
from replica_client.protocol.constants.client_server import CHARSET_BY_COLLATION_ID, CHARSETS

ROOT = Path(__file__).resolve().parents[4]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "charsets.json").read_text())
ID_OF = {name: min(i for i, n in CHARSET_BY_COLLATION_ID.items() if n == name) for name in CHARSETS}


def load_capture():
    """The script that asked the servers: its list of sequences is the list to check."""
    path = str(ROOT / "scripts" / "capture" / "charsets")
    loader = SourceFileLoader("capture_charsets", path)
    spec = importlib.util.spec_from_loader("capture_charsets", loader)
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def read_one(name, data):
    try:
        text = decode_text(data, ID_OF[name])
    except UndecodableTextError:
        return None
    return ord(text) if len(text) == 1 else None


@pytest.mark.parametrize("name", sorted(GOLDEN["single_byte"]))
def test_every_byte_of_a_single_byte_set(name):
    expected = GOLDEN["single_byte"][name]
    assert len(expected) == 256
    found = [read_one(name, bytes([byte])) for byte in range(256)]
    assert found == [None if one < 0 else one for one in expected]
    good = bytes(byte for byte in range(256) if expected[byte] >= 0)
    text = decode_text(good, ID_OF[name])
    assert list(map(ord, text)) == [one for one in expected if one >= 0]
    assert decode_text(encode_text(text, ID_OF[name]), ID_OF[name]) == text


@pytest.mark.parametrize("name", sorted(GOLDEN["multi_byte"]))
@pytest.mark.slow
def test_every_sequence_of_a_multi_byte_set(name):
    capture = load_capture()
    expected = GOLDEN["multi_byte"][name]
    decode = text_decoder(ID_OF[name])
    found = {}
    for data in capture.sequences(name):
        try:
            text = decode(data)
        except UnicodeDecodeError:
            continue
        if len(text) == 1:
            found[data] = ord(text)
    assert len(found) == expected["count"]
    lines = "".join(f"{key.hex()} {found[key]:x}\n" for key in sorted(found))
    assert hashlib.sha256(lines.encode()).hexdigest() == expected["sha256"]

    # Joined in any order they are read the same, and written back so that they read the same.
    rng = random.Random(name)
    keys = sorted(found)
    for size in (1, 2, 5, 40, 2000):
        for _ in range(20):
            chosen = rng.choices(keys, k=size)
            text = decode(b"".join(chosen))
            assert text == "".join(chr(found[key]) for key in chosen)
            assert decode(encode_text(text, ID_OF[name])) == text


@pytest.mark.parametrize("name", sorted(GOLDEN["preferred"]))
def test_characters_with_several_sequences_are_written_as_the_servers_do(name):
    for character, data in GOLDEN["preferred"][name].items():
        assert encode_text(chr(int(character, 16)), ID_OF[name]).hex() == data, character


@pytest.mark.parametrize("name", sorted(set(GOLDEN["single_byte"]) | set(GOLDEN["multi_byte"])))
def test_whatever_can_be_written_reads_back(name):
    written = 0
    for code in itertools.chain(range(0xD800), range(0xE000, 0x10000), range(0x1F600, 0x1F640)):
        try:
            data = encode_text(chr(code), ID_OF[name])
        except EncodeError:
            continue
        written += 1
        assert decode_text(data, ID_OF[name]) == chr(code), hex(code)
    assert written >= 127


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("latin1", "80818de9", "€\x81\x8dé"),
        ("swe7", "5b5c5d5e605f", "ÄÖÅÜé_"),
        ("hp8", "a1f0", "ÀÞ"),
        ("dec8", "d7f7", "Œœ"),
        ("geostd8", "c0", "ა"),
        ("armscii8", "b2b3", "Աա"),
        ("keybcs2", "8081", "Čü"),
        ("eucjpms", "ada1", "①"),
        ("eucjpms", "f5a1", "\ue000"),
        ("ujis", "8fb0a1", "丂"),
        ("cp932", "8740", "①"),
        ("ucs2", "004100e920ac", "Aé€"),
        ("utf16", "d83dde0000e9", "😀é"),
        ("utf16le", "3dd800dee900", "😀é"),
        ("utf32", "0001f600000000e9", "😀é"),
        ("utf8mb4", "f09f9880c3a9", "😀é"),
        ("utf8mb3", "e282acc3a9", "€é"),
        ("gb18030", "8130813095308430", "\x80😶"),
        ("euckr", "8141", "갂"),
        ("binary", "c3a9", "é"),
        ("utf16", "feff0041", "\ufeffA"),
    ],
)
def test_known_texts(name, data, text):
    assert decode_text(bytes.fromhex(data), ID_OF[name]) == text
    assert encode_text(text, ID_OF[name]).hex() == data


@pytest.mark.parametrize(
    ("name", "data", "start"),
    [
        ("utf8mb4", "41ff", 1),
        ("utf8mb4", "eda080", 0),
        ("utf8mb4", "c3", 0),
        ("utf8mb4", "c080", 0),
        ("utf8mb4", "f4908080", 0),
        ("utf8mb3", "4142f09f9880", 2),
        ("ucs2", "0041d83dde00", 2),
        ("ucs2", "d83d", 0),
        ("ucs2", "004100", 2),
        ("utf16", "d83d0041", 0),
        ("utf32", "0000d800", 0),
        ("utf32", "00110000", 0),
        ("ascii", "4180", 1),
        ("tis620", "a1dc", 1),  # the server itself shows U+FFFD
        ("cp1251", "4198", 1),
        ("gbk", "41ff", 1),
        ("gbk", "a2ab", 0),
        ("cp932", "41a0", 1),
        ("sjis", "8740", 0),
        ("eucjpms", "418f", 1),
        ("gb18030", "8130", 0),
        ("binary", "ff", 0),
    ],
)
def test_what_is_no_text_is_refused_or_treated_as_asked(name, data, start):
    raw = bytes.fromhex(data)
    with pytest.raises(UndecodableTextError) as caught:
        decode_text(raw, ID_OF[name])
    error = caught.value
    assert isinstance(error, ReplicaClientError) and isinstance(error, UnicodeDecodeError)
    assert (error.encoding, error.object, error.start) == (name, raw, start)
    assert name in str(error) and data not in str(error)
    replaced = decode_text(raw, ID_OF[name], "replace")
    assert "\ufffd" in replaced and len(replaced) <= len(raw)
    assert decode_text(raw, ID_OF[name], "bytes") == raw
    with pytest.raises(UnicodeDecodeError):
        text_decoder(ID_OF[name])(raw)


@pytest.mark.parametrize("name", sorted(CHARSETS))
def test_any_bytes_give_text_or_the_error(name):
    rng = random.Random(name)
    decode_id = ID_OF[name]
    for _ in range(300):
        data = rng.randbytes(rng.randrange(0, 24))
        try:
            text = decode_text(data, decode_id)
        except UndecodableTextError as error:
            assert 0 <= error.start <= error.end <= len(data)
        else:
            again = encode_text(text, decode_id)
            assert decode_text(again, decode_id) == text
        assert isinstance(decode_text(data, decode_id, "replace"), str)


@pytest.mark.parametrize(
    ("name", "text"),
    [("latin1", "a😀"), ("ascii", "é"), ("utf8mb3", "😀"), ("ucs2", "😀"), ("swe7", "["),
     ("sjis", "①"), ("gbk", "😀"), ("utf8mb4", "\ud83d"), ("big5", "é")],
)  # fmt: skip
def test_text_that_does_not_fit(name, text):
    with pytest.raises(EncodeError, match=name):
        encode_text(text, ID_OF[name])


def test_charset_of():
    assert charset_of(255) == Charset("utf8mb4", 4)
    assert charset_of(8) == Charset("latin1", 1)
    assert charset_of(63) == Charset("binary", 1)
    assert charset_of(33).name == "utf8mb3"
    assert charset_of(2304) == charset_of(608) == charset_of(45 + 1024) == charset_of(45)
    assert charset_named("UTF8") == charset_named("utf8mb3") == charset_of(33)
    for unknown in (0, 17, 999, 100_000, -1):
        with pytest.raises(UnknownCollationError):
            charset_of(unknown)
        with pytest.raises(UnknownCollationError):
            decode_text(b"", unknown)
        assert decode_text(b"\xff", unknown, "bytes") == b"\xff"
    with pytest.raises(UnknownCollationError):
        charset_named("klingon")


def test_tables_hold_only_differences():
    assert set(CODECS) == set(GOLDEN["single_byte"]) | set(GOLDEN["multi_byte"])
    for name, runs in DECODE_RUNS.items():
        for first, count, character in runs:
            for at in range(count):
                value = first + at
                data = value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big")
                try:
                    text = data.decode(CODECS[name])
                except UnicodeDecodeError:
                    text = ""
                expected = "" if character < 0 else chr(character + at)
                assert (text if len(text) == 1 else "") != expected, (name, data)
