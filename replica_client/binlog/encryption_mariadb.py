"""Decryption of binlog files that MariaDB encrypted (``encrypt_binlog``).

The file begins in clear: magic, format description, START_ENCRYPTION. Each later event is encrypted
separately, with the key of id 1. Its size stays readable at offset 9: the event's first 4 bytes are
moved there, all bytes from offset 4 on are encrypted, then the 4 bytes at offset 9 move to offset 0
and the size is put at offset 9.

The initialisation vector is START_ENCRYPTION's nonce and the low 32 bits of the event's position.
The mode is AES-CBC, with the last incomplete block XORed with the encrypted initialisation vector;
or AES-CTR, by ``file_key_management_encryption_algorithm``. The file does not contain the mode: it
is the one that gives a valid first event.

A source decrypts the events that it sends, and still sends START_ENCRYPTION: if the next event is
valid as it is, nothing is decrypted.

Spec: MariaDB ``Log_event_writer`` and ``Log_event::read_log_event`` (log_event.cc), ``MyCTX_nopad``
(mysys_ssl/my_crypt.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from replica_client.binlog.events.start_encryption import StartEncryptionEvent
from replica_client.binlog.layout import HEADER_SIZE
from replica_client.codec.crc import crc32
from replica_client.constants.event_types import EventFlag, EventType
from replica_client.errors import EncryptedBinlogError, TruncatedEventError

_SCHEME = 1
_KEY_ID = "1"
_BLOCK_SIZE = 16
_SIZE_AT = slice(9, 13)
_NEXT_POSITION_AT = slice(13, 17)
_FIRST = slice(0, 4)
_CHECKSUM_SIZE = 4
_TYPE_CODES: Final = frozenset(map(int, EventType))
_ALL_FLAGS: Final = sum(EventFlag) | 0x8000

_Crypt = Callable[[bytes, bytes, bytes, bool], bytes]


class EventCipher:
    """A cipher for the events after a START_ENCRYPTION event.

    Args:
        start: the START_ENCRYPTION event.
        keys: by id; the one with the id ``"1"`` is used.
        has_checksum: whether the events end in a CRC-32.
    """

    __slots__ = ("_crypt", "_has_checksum", "_in_clear", "_key", "_nonce", "_reason")

    def __init__(
        self, start: StartEncryptionEvent, keys: Mapping[str, bytes], has_checksum: bool
    ) -> None:
        key = keys.get(_KEY_ID, b"")
        self._reason = ""
        if start.scheme != _SCHEME:
            self._reason = f"encryption scheme {start.scheme} is not known"
        elif not key:
            self._reason = (
                f"the file is encrypted with the key {_KEY_ID} (version {start.key_version}), "
                "which was not given"
            )
        elif len(key) not in (16, 24, 32):
            self._reason = f"the key {_KEY_ID} has not 16, 24 or 32 bytes"
        self._key = key
        self._nonce = start.nonce
        self._has_checksum = has_checksum
        self._crypt: _Crypt | None = None
        self._in_clear: bool | None = None

    def decrypt(self, data: bytes, position: int) -> bytes:
        """Decrypt the event at ``position``; return it unchanged if events are sent in clear.

        Raises:
            EncryptedBinlogError: the key is missing or wrong.
            TruncatedEventError: the event is shorter than a header.
        """
        if self._in_clear is None:
            self._in_clear = len(data) >= HEADER_SIZE and self._is_whole(data, position)
        if self._in_clear:
            return data
        if self._reason:
            raise EncryptedBinlogError(self._reason)
        if len(data) < HEADER_SIZE:
            raise TruncatedEventError(f"{len(data)} bytes are no encrypted event")
        iv = self._nonce + (position & 0xFFFFFFFF).to_bytes(4, "little")
        if self._crypt is not None:
            return self._restore(data, iv, self._crypt)
        for crypt in (_cbc, _ctr):
            plain = self._restore(data, iv, crypt)
            if self._is_whole(plain, position):
                if len(data) >= 4 + _BLOCK_SIZE:  # with less, both modes give the same bytes
                    self._crypt = crypt
                return plain
        raise EncryptedBinlogError(
            f"the key given for {_KEY_ID} does not decrypt the first encrypted event"
        )

    def encrypt(self, plain: bytes, position: int, counter_mode: bool = False) -> bytes:
        """Encrypt an event; the inverse of :meth:`decrypt`."""
        iv = self._nonce + (position & 0xFFFFFFFF).to_bytes(4, "little")
        swapped = bytearray(plain)
        size = plain[_SIZE_AT]
        swapped[_SIZE_AT] = plain[_FIRST]
        crypt = _ctr if counter_mode else _cbc
        data = bytearray(plain[_FIRST] + crypt(self._key, iv, bytes(swapped[4:]), True))
        data[_FIRST] = data[_SIZE_AT]
        data[_SIZE_AT] = size
        return bytes(data)

    def _restore(self, data: bytes, iv: bytes, crypt: _Crypt) -> bytes:
        swapped = bytearray(data)
        size = data[_SIZE_AT]
        swapped[_SIZE_AT] = data[_FIRST]
        plain = bytearray(data[_FIRST] + crypt(self._key, iv, bytes(swapped[4:]), False))
        plain[_FIRST] = plain[_SIZE_AT]
        plain[_SIZE_AT] = size
        return bytes(plain)

    def _is_whole(self, plain: bytes, position: int) -> bool:
        if self._has_checksum:
            stored = int.from_bytes(plain[-_CHECKSUM_SIZE:], "little")
            return crc32(memoryview(plain)[:-_CHECKSUM_SIZE]) == stored
        next_position = int.from_bytes(plain[_NEXT_POSITION_AT], "little")
        flags = int.from_bytes(plain[17:19], "little")
        return (
            next_position in (0, (position + len(plain)) & 0xFFFFFFFF)
            and plain[4] in _TYPE_CODES
            and not flags & ~_ALL_FLAGS
        )


def _cbc(key: bytes, iv: bytes, data: bytes, encrypt: bool) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES(key), modes.CBC(iv))
    engine = cipher.encryptor() if encrypt else cipher.decryptor()
    whole = len(data) - len(data) % _BLOCK_SIZE
    result = engine.update(data[:whole]) + engine.finalize()
    if whole == len(data):
        return result
    mask = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(iv)
    return result + bytes(a ^ b for a, b in zip(data[whole:], mask, strict=False))


def _ctr(key: bytes, iv: bytes, data: bytes, encrypt: bool) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor().update(data)
