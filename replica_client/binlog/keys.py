"""Readers of the servers' key files.

Three forms are recognised by their content: the data file of MySQL's ``keyring_file`` plugin, that
of ``component_keyring_file`` (JSON), and the text file of MariaDB's ``file_key_management``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from replica_client.codec.reader import ByteReader
from replica_client.errors import ConfigError, ShortBufferError

_PLUGIN_PREFIX: Final = b"Keyring file version:"
_PLUGIN_PREFIX_SIZE = len(_PLUGIN_PREFIX) + 3
_PLUGIN_END: Final = b"EOF"
_PLUGIN_MASK: Final = b"*305=Ljt0*!@$Hnm(*-9-w;:"
_DIGEST_SIZE = 32
_RECORD_HEAD_SIZE = 40
_OPENSSL_PREFIX: Final = b"Salted__"


def read_keys(data: bytes) -> dict[str, bytes]:
    """Return the keys of a key file, by id, for :attr:`DecodeOptions.keys`.

    Raises:
        ConfigError: an unknown form, or a broken file; the message contains no key.
    """
    try:
        if data.startswith(_PLUGIN_PREFIX):
            return _keyring_plugin(data)
        if data.startswith(_OPENSSL_PREFIX):
            raise ConfigError("the key file is itself encrypted; decrypt it first (openssl enc -d)")
        if data.lstrip().startswith(b"{"):
            return _keyring_component(data)
        return _file_key_management(data)
    except (ValueError, KeyError, TypeError, ShortBufferError):
        raise ConfigError("the key file is broken, or of a form that is not known") from None


def _keyring_plugin(data: bytes) -> dict[str, bytes]:
    """Read a ``keyring_file``: records, an end mark, and from version 2.0 on a SHA-256.

    A record is five 8-byte sizes (record, key id, type, user, key), these four values, and padding;
    the key's bytes are XORed with a constant.
    """
    body = data[_PLUGIN_PREFIX_SIZE:]
    digest = b""
    if not data.startswith(_PLUGIN_PREFIX + b"1.0"):
        body, digest = body[:-_DIGEST_SIZE], body[-_DIGEST_SIZE:]
    if not body.endswith(_PLUGIN_END):
        raise ValueError
    records = body[: -len(_PLUGIN_END)]
    if digest and hashlib.sha256(records).digest() != digest:
        raise ValueError
    reader = ByteReader(records)
    keys: dict[str, bytes] = {}
    while reader.remaining:
        record_size, id_size, type_size, user_size, key_size = (reader.uint(8) for _ in range(5))
        record = ByteReader(reader.take(record_size - _RECORD_HEAD_SIZE))
        key_id = record.take(id_size).decode()
        record.skip(type_size + user_size)
        masked = record.take(key_size)
        mask = _PLUGIN_MASK * (key_size // len(_PLUGIN_MASK) + 1)
        keys[key_id] = bytes(a ^ b for a, b in zip(masked, mask, strict=False))
    return keys


def _keyring_component(data: bytes) -> dict[str, bytes]:
    """Read a ``component_keyring_file``: JSON with the keys in hexadecimal."""
    return {
        str(element["data_id"]): bytes.fromhex(element["data"])
        for element in json.loads(data)["elements"]
    }


def _file_key_management(data: bytes) -> dict[str, bytes]:
    """Read a ``file_key_management`` file: lines ``id;hexadecimal key``, comments after ``#``."""
    keys: dict[str, bytes] = {}
    for line in data.decode("utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        key_id, _, rest = text.partition(";")
        words = rest.split()
        keys[str(int(key_id))] = bytes.fromhex(words[0] if words else "")
        if len(keys[str(int(key_id))]) not in (16, 24, 32):
            raise ValueError
    return keys
