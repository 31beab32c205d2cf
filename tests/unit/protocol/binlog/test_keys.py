"""Key files of the servers."""

from __future__ import annotations

import hashlib
import json

import pytest

from replica_client.errors import ConfigError
from replica_client.protocol.binlog.encryption import read_keys

MASK = b"*305=Ljt0*!@$Hnm(*-9-w;:"
KEY = bytes(range(32))


def plugin_file(version: bytes = b"2.0", key_id: bytes = b"MySQLReplicationKey_x_1") -> bytes:
    masked = bytes(a ^ b for a, b in zip(KEY, MASK * 2, strict=False))
    sizes = (len(key_id), 3, 4, len(KEY))
    record = b"".join(size.to_bytes(8, "little") for size in sizes)
    record += key_id + b"AES" + b"user" + masked
    record += bytes(-(len(record) + 8) % 8)
    record = (len(record) + 8).to_bytes(8, "little") + record
    data = b"Keyring file version:" + version + record + b"EOF"
    return data if version == b"1.0" else data + hashlib.sha256(record).digest()


@pytest.mark.parametrize("version", [b"1.0", b"2.0"])
def test_keyring_plugin(version: bytes) -> None:
    assert read_keys(plugin_file(version)) == {"MySQLReplicationKey_x_1": KEY}


def test_keyring_component() -> None:
    element = {"user": "", "data_id": "k", "data_type": "AES", "data": KEY.hex(), "extension": []}
    data = json.dumps({"version": "1.0", "elements": [element]}).encode()
    assert read_keys(data) == {"k": KEY}


def test_file_key_management() -> None:
    text = f"# comment\n\n  1;{KEY.hex()}  \n33;{KEY[:16].hex().upper()} # comment\n4;{'00' * 24} x"
    assert read_keys(text.encode()) == {"1": KEY, "33": KEY[:16], "4": bytes(24)}


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe binary",
        b"1;abc",
        b"1;abcd",
        b"one;" + b"00" * 16,
        b"1",
        b"{",
        b"{}",
        b'{"elements": [{"data_id": "k", "data": "xx"}]}',
        b'{"elements": [1]}',
        b"Keyring file version:2.0",
        b"Keyring file version:2.0EOF" + bytes(32),
        b"Salted__" + bytes(32),
    ],
)
def test_what_is_no_key_file(data: bytes) -> None:
    with pytest.raises(ConfigError):
        read_keys(data)


@pytest.mark.parametrize("version", [b"1.0", b"2.0"])
def test_plugin_file_cut_or_changed(version: bytes) -> None:
    data = plugin_file(version)
    for size in range(24, len(data)):
        with pytest.raises(ConfigError) as caught:
            read_keys(data[:size])
        assert "000102" not in str(caught.value)
    if version == b"2.0":
        for at in range(24, len(data)):
            with pytest.raises(ConfigError):
                read_keys(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
