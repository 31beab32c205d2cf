"""Decryption of binlog and relay log files that MySQL 8 encrypted (``binlog_encryption``).

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
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from replica_client.binlog.file_scan import ENCRYPTED_MAGIC, MAGIC
from replica_client.codec.quick_dataclass import dataclass
from replica_client.codec.reader import ByteReader
from replica_client.codec.writer import ByteWriter
from replica_client.errors import (
    BinlogFormatError,
    EncodeError,
    EncryptedBinlogError,
    ShortBufferError,
    TruncatedEventError,
)

ENCRYPTION_HEADER_SIZE: Final = 512
"""Bytes before the encrypted content."""

_VERSION = 1
_END, _KEY_ID, _PASSWORD, _IV = 0, 1, 2, 3
_KEY_SIZE, _IV_SIZE, _NONCE_SIZE, _BLOCK_SIZE = 32, 16, 8, 16


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
                if field_type == _KEY_ID:
                    fields[_KEY_ID] = body.take(body.uint(1), "key id")
                elif field_type == _PASSWORD:
                    fields[_PASSWORD] = body.take(_KEY_SIZE, "password")
                elif field_type == _IV:
                    fields[_IV] = body.take(_IV_SIZE, "iv")
                else:
                    raise BinlogFormatError(
                        f"field {field_type} of the encryption header is not known", position=0
                    )
            key_id = fields[_KEY_ID].decode()
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
        out.uint(_KEY_ID, 1).uint(len(key_id), 1).raw(key_id)
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
            keys: of the keyring, by id (:func:`replica_client.binlog.keys.read_keys`).

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
        block, skip = divmod(offset, _BLOCK_SIZE)
        counter = self._nonce + block.to_bytes(_BLOCK_SIZE - _NONCE_SIZE, "big")
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
