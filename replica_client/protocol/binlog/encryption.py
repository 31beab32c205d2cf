"""Decryption of encrypted binlog files, and the servers' key files.

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

A file begins with a header of 512 bytes, in clear. The rest is the whole plain file, with its
magic, encrypted with AES-256 in counter mode. Positions are those of the plain file.

Header bytes::

    offset  size  field
    0       4     magic              fd 62 69 6e
    4       1     version            1
    5       ...   fields             type (1 byte), value
            1     end mark           0; zeros follow up to 512

    type  field               value
    1     key id              length (1 byte), text: which key of the keyring
    2     encrypted password  32 bytes: the file's password under that key (AES-256-CBC)
    3     iv                  16 bytes: of that CBC

The file's key and the counter's high bytes come from the password by ``EVP_BytesToKey`` with
SHA-512 and one round: the digest's first 32 bytes, and the next 8. The counter's low 8 bytes begin
at 0 and count blocks of 16 bytes.

Spec: MySQL ``Rpl_encryption_header`` (rpl_log_encryption.h), ``Aes_ctr_cipher`` (stream_cipher.cc).

Three forms are recognised by their content: the data file of MySQL's ``keyring_file`` plugin, that
of ``component_keyring_file`` (JSON), and the text file of MariaDB's ``file_key_management``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Final, Self

from replica_client.errors import (
    BinlogFormatError,
    ConfigError,
    EncodeError,
    EncryptedBinlogError,
    ShortBufferError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.event import ENCRYPTED_MAGIC, MAGIC
from replica_client.protocol.binlog.events.control import StartEncryptionEvent
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.crc import crc32
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventFlag, EventType

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
            raise TruncatedEventError(f"{len(data)} bytes are not an encrypted event")
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


ENCRYPTION_HEADER_SIZE: Final = 512
"""Bytes before the encrypted content."""

_VERSION = 1
_END, _MYSQL_KEY_ID, _PASSWORD, _IV = 0, 1, 2, 3
_KEY_SIZE, _IV_SIZE, _NONCE_SIZE, _MYSQL_BLOCK_SIZE = 32, 16, 8, 16


@dataclass(frozen=True, slots=True)
class EncryptionHeader:
    """The header of an encrypted file.

    Attributes:
        key_id: the key's id in the keyring, ``MySQLReplicationKey_<server uuid>_<number>``.
        encrypted_password: of the file.
        iv: initialisation vector of the password's encryption.
    """

    key_id: str
    encrypted_password: bytes
    iv: bytes

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the header from a file's first 512 bytes.

        Raises:
            BinlogFormatError: not such a header, or of an unknown version.
            TruncatedEventError: the header is cut.
        """
        if not data.startswith(ENCRYPTED_MAGIC):
            raise BinlogFormatError("not an encrypted binlog", position=0)
        if len(data) < ENCRYPTION_HEADER_SIZE:
            raise TruncatedEventError(
                f"encryption header of {len(data)} bytes, {ENCRYPTION_HEADER_SIZE} are needed",
                position=0,
            )
        body = ByteReader(data, len(ENCRYPTED_MAGIC), ENCRYPTION_HEADER_SIZE)
        version = body.uint(1)
        if version != _VERSION:
            raise BinlogFormatError(f"encryption version {version} is not known", position=0)
        fields: dict[int, bytes] = {}
        try:
            while field_type := body.uint(1):
                if field_type == _MYSQL_KEY_ID:
                    fields[_MYSQL_KEY_ID] = body.take(body.uint(1), "key id")
                elif field_type == _PASSWORD:
                    fields[_PASSWORD] = body.take(_KEY_SIZE, "password")
                elif field_type == _IV:
                    fields[_IV] = body.take(_IV_SIZE, "iv")
                else:
                    raise BinlogFormatError(
                        f"field {field_type} of the encryption header is not known", position=0
                    )
            key_id = fields[_MYSQL_KEY_ID].decode()
            return cls(key_id, fields[_PASSWORD], fields[_IV])
        except ShortBufferError as error:
            raise TruncatedEventError(f"encryption header: {error}", position=0) from error
        except (KeyError, UnicodeDecodeError) as error:
            raise BinlogFormatError(
                "encryption header lacks its key id, password or iv", position=0
            ) from error

    def encode(self) -> bytes:
        """Encode the header as 512 bytes."""
        key_id = self.key_id.encode()
        out = ByteWriter().raw(ENCRYPTED_MAGIC).uint(_VERSION, 1)
        out.uint(_MYSQL_KEY_ID, 1).uint(len(key_id), 1).raw(key_id)
        out.uint(_PASSWORD, 1).raw(self.encrypted_password).uint(_IV, 1).raw(self.iv)
        data = out.uint(_END, 1).done()
        if len(data) > ENCRYPTION_HEADER_SIZE:
            raise EncodeError("the fields do not fit into an encryption header")
        return data.ljust(ENCRYPTION_HEADER_SIZE, b"\0")

    @classmethod
    def seal(cls, key_id: str, key: bytes, password: bytes, iv: bytes) -> Self:
        """Return the header of a new file: ``password`` (32 bytes) under ``key`` (32 bytes)."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        engine = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
        return cls(key_id, engine.update(password) + engine.finalize(), iv)

    def open(self, keys: Mapping[str, bytes]) -> ContentCipher:
        """Return the cipher of the file's content.

        Args:
            keys: of the keyring, by id (:func:`replica_client.protocol.binlog.encryption.read_keys`).

        Raises:
            EncryptedBinlogError: the key is missing, or is no AES-256 key.
        """
        key = keys.get(self.key_id)
        if key is None:
            raise EncryptedBinlogError(
                f"the file is encrypted with the key {self.key_id}, which was not given",
                position=0,
            )
        if len(key) != _KEY_SIZE:
            raise EncryptedBinlogError(f"the key {self.key_id} has not 32 bytes", position=0)
        import hashlib  # plain files need none of these

        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        engine = Cipher(algorithms.AES(key), modes.CBC(self.iv)).decryptor()
        password = engine.update(self.encrypted_password) + engine.finalize()
        digest = hashlib.sha512(password).digest()
        return ContentCipher(
            digest[:_KEY_SIZE], digest[_KEY_SIZE : _KEY_SIZE + _NONCE_SIZE], self.key_id
        )


class ContentCipher:
    """A cipher for the content at any offset.

    In counter mode encryption and decryption are the same.
    """

    __slots__ = ("_algorithm", "_key_id", "_nonce")

    def __init__(self, key: bytes, nonce: bytes, key_id: str) -> None:
        from cryptography.hazmat.primitives.ciphers import algorithms

        self._algorithm = algorithms.AES(key)
        self._nonce = nonce
        self._key_id = key_id

    def apply(self, data: bytes, offset: int) -> bytes:
        """Decrypt or encrypt ``data``, which is at ``offset`` of the plain file."""
        block, skip = divmod(offset, _MYSQL_BLOCK_SIZE)
        counter = self._nonce + block.to_bytes(_MYSQL_BLOCK_SIZE - _NONCE_SIZE, "big")
        from cryptography.hazmat.primitives.ciphers import Cipher, modes

        engine = Cipher(self._algorithm, modes.CTR(counter)).decryptor()
        if skip:
            engine.update(bytes(skip))
        return engine.update(data)

    def check_magic(self, plain: bytes) -> None:
        """Check that the key was right, by the first bytes of the plain file.

        Raises:
            EncryptedBinlogError: the bytes are not a binlog's magic.
        """
        if plain[: len(MAGIC)] != MAGIC:
            raise EncryptedBinlogError(
                f"the key given for {self._key_id} does not decrypt the file", position=0
            )


def decrypt_file(data: bytes, keys: Mapping[str, bytes]) -> bytes:
    """Decrypt a whole encrypted file.

    Raises:
        BinlogFormatError: no encryption header, or of an unknown version.
        TruncatedEventError: the header is cut.
        EncryptedBinlogError: the key is missing or wrong.
    """
    cipher = EncryptionHeader.decode(data[:ENCRYPTION_HEADER_SIZE]).open(keys)
    plain = cipher.apply(data[ENCRYPTION_HEADER_SIZE:], 0)
    cipher.check_magic(plain)
    return plain


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
