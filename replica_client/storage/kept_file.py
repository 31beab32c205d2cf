"""Kept files: compressed in blocks, encrypted, and read at any offset like the plain file.

A kept file has the name of the plain file, its size, and ``.rcz`` or, if encrypted, ``.rce``:
``binlog.000007.1073741912.rcz``. So a listing says the plain name and size. Numbers are little-endian::

    offset  size  content
    0       8     magic: RCKEPT, 13, 10
    8       1     version: 1
    9       1     flags: 1 zstd, 2 AES-256-GCM
    10      2     zero
    12      4     block size: plain bytes of each block, fewer in the last
    16      8     size of the plain file
    24      16    salt of the file's key; zero without encryption
    40      16    id of the key; zero without encryption
    56      4     CRC-32 of the table
    60      4     CRC-32 of the bytes 0 to 59
    64      4 n   table: the stored size of each block
    64+4n         blocks

A stored block is the block, as one zstd frame where flag 1 is set, followed by its CRC-32. With flag 2 it
is AES-256-GCM's ciphertext and tag of 16 bytes instead: the key is HMAC-SHA-256 of the key and
``replica-client kept file`` with the salt, the nonce the block's number in 12 bytes, the associated data
bytes 0 to 55. The key's id is the beginning of HMAC-SHA-256 of the key and ``replica-client key id``.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import re
import zlib
from collections import OrderedDict
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple

from replica_client.errors import BinlogDecodeError, BinlogFormatError, ConfigError
from replica_client.protocol.codec.compression import zstd_compress, zstd_reader
from replica_client.protocol.codec.quick_dataclass import dataclass

PLAIN_BLOCK: Final = 1 << 20
COMPRESSED_SUFFIX: Final = ".rcz"
ENCRYPTED_SUFFIX: Final = ".rce"
KEY_VARIABLE: Final = "REPLICA_CLIENT_ARCHIVE_KEY"
"""Environment variable with the key: 64 hexadecimal digits."""

KEY_FILE_VARIABLE: Final = "REPLICA_CLIENT_ARCHIVE_KEY_FILE"
"""Environment variable with the path of a file that has the key."""

_MAGIC: Final = b"RCKEPT\r\n"
_HEADER: Final = Struct("<8sBBHIQ16s16sII")
_BEGIN: Final = 56
_ZSTD, _AES = 1, 2
_TAG: Final = 16
_CRC: Final = 4
_MAX_BLOCK: Final = 64 << 20
_CACHED: Final = 4
_NAME: Final = re.compile(r"(.+\.[0-9]+)\.([0-9]{1,19})\.rc[ze]")
_KEY_TEXT: Final = re.compile(rb"\s*([0-9A-Fa-f]{64})\s*")
_keys: dict[bytes, bytes] = {}


class PlainFile(NamedTuple):
    """The name and the size of the plain file."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Keeping:
    """How files are kept.

    Attributes:
        compressed: with zstd.
        key: 32 bytes of the key; empty: not encrypted.
    """

    compressed: bool = False
    key: bytes = b""

    @property
    def suffix(self) -> str:
        """The suffix of the names of kept files."""
        return ENCRYPTED_SUFFIX if self.key else COMPRESSED_SUFFIX


def plain_of(name: str) -> PlainFile | None:
    """Return the plain file that the name of a kept file states; None for another name."""
    match = _NAME.fullmatch(name)
    return PlainFile(match[1], int(match[2])) if match else None


def plain_name(name: str) -> str:
    """Return the name of the plain file, or the name itself if it is not that of a kept file."""
    plain = plain_of(name)
    return name if plain is None else plain.name


def is_kept(name: str) -> bool:
    """Return whether a name is that of a kept file, or of an index that is kept."""
    return name.endswith((COMPRESSED_SUFFIX, ENCRYPTED_SUFFIX))


def read_key(data: bytes) -> bytes | None:
    """Return the key in the content of a key file, and use it for reading; None if it has another form."""
    match = _KEY_TEXT.fullmatch(data)
    if match is None:
        return None
    key = bytes.fromhex(match[1].decode())
    _keys[_key_id(key)] = key
    return key


def read_key_file(path: Path, where: str) -> bytes:
    """Return the content of a key file.

    Raises:
        ConfigError: it cannot be read; the message names no key that was given in the place of a path.
    """
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if _KEY_TEXT.fullmatch(path.name.encode(errors="replace")):
            raise ConfigError(
                f"{where}: give the path of a file with the key, not the key"
            ) from None
        raise ConfigError(f"{where} {path}: {getattr(error, 'strerror', None) or error}") from None


def key_of_environment() -> bytes | None:
    """Return the key that the environment has, or None.

    Raises:
        ConfigError: the variable or the file has no key.
    """
    text, path = os.environ.get(KEY_VARIABLE), os.environ.get(KEY_FILE_VARIABLE)
    if text:
        found, where = text.encode(errors="replace"), KEY_VARIABLE
    elif path:
        where = f"{KEY_FILE_VARIABLE} ({path})"
        found = read_key_file(Path(path), KEY_FILE_VARIABLE)
    else:
        return None
    key = read_key(found)
    if key is None:
        raise ConfigError(
            f"{where}: a key is 64 hexadecimal digits, as `openssl rand -hex 32` writes"
        )
    return key


def keep(source: BinaryIO, size: int, target: BinaryIO, keeping: Keeping) -> str:
    """Write the kept form of a file.

    Args:
        source: the plain file, at its beginning.
        size: its bytes.
        target: an empty file that can seek.
        keeping: how.

    Returns:
        the SHA-256 of the plain file, in hex.

    Raises:
        BinlogFormatError: the plain file is shorter.
        OSError: a file cannot be read or written.
    """
    count = -(-size // PLAIN_BLOCK)
    flags = (_ZSTD if keeping.compressed else 0) | (_AES if keeping.key else 0)
    salt = os.urandom(16) if keeping.key else bytes(16)
    key_id = _key_id(keeping.key) if keeping.key else bytes(16)
    fields = (_MAGIC, 1, flags, 0, PLAIN_BLOCK, size, salt, key_id)
    begin = _HEADER.pack(*fields, 0, 0)[:_BEGIN]
    cipher = _cipher(keeping.key, salt) if keeping.key else None
    table = bytearray()
    digest = hashlib.sha256()
    target.seek(_HEADER.size + 4 * count)
    for number in range(count):
        wanted = min(PLAIN_BLOCK, size - number * PLAIN_BLOCK)
        block = source.read(wanted)
        if len(block) != wanted:
            raise BinlogFormatError(f"the file ends before its {size} bytes, while it is kept")
        digest.update(block)
        stored = zstd_compress(block) if keeping.compressed else block
        if cipher is not None:
            stored = cipher.encrypt(number.to_bytes(12, "little"), stored, begin)
        else:
            stored += zlib.crc32(stored).to_bytes(_CRC, "little")
        table += len(stored).to_bytes(4, "little")
        target.write(stored)
    head = begin + zlib.crc32(table).to_bytes(_CRC, "little")
    target.seek(0)
    target.write(head + zlib.crc32(head).to_bytes(_CRC, "little") + table)
    return digest.hexdigest()


class KeptReader(io.RawIOBase):
    """The plain file of a kept file, to be read at any offset.

    Args:
        stored: the kept file, at its beginning; closed with the reader.
        size: its bytes.
        name: its path or URL, for errors.

    Attributes:
        size: of the plain file.

    Raises:
        BinlogFormatError: it is no kept file, or is damaged or cut.
        ConfigError: its key is not given.
    """

    def __init__(self, stored: BinaryIO, size: int, name: str) -> None:
        super().__init__()
        self._stored, self.name = stored, name
        self._at = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        head = stored.read(_HEADER.size)
        if head[: len(_MAGIC)] != _MAGIC[: len(head)] or not head:
            raise self._wrong("it is no kept file")
        if len(head) < _HEADER.size:
            raise self._wrong(f"it ends after {len(head)} bytes, inside its header")
        _, version, flags, zero, block_size, plain, salt, key_id, table_sum, head_sum = (
            _HEADER.unpack(head)
        )
        if zlib.crc32(head[:-_CRC]) != head_sum:
            raise self._wrong("the checksum of its header is wrong")
        known = version == 1 and not flags & ~(_ZSTD | _AES) and not zero
        if not known or not 0 < block_size <= _MAX_BLOCK:
            raise self._wrong(f"its version {version} with flags {flags} is not known")
        self.size, self._block_size, self._flags, self._begin = (
            plain,
            block_size,
            flags,
            head[:_BEGIN],
        )
        count = -(-plain // block_size)
        if size < _HEADER.size + 4 * count:
            raise self._wrong(f"it has {size} bytes, and ends inside its table")
        table = stored.read(4 * count)
        if len(table) < 4 * count:
            raise self._wrong("it ends inside its table")
        if zlib.crc32(table) != table_sum:
            raise self._wrong("the checksum of its table is wrong")
        self._sizes = Struct(f"<{count}I").unpack(table)
        self._offsets = [_HEADER.size + 4 * count]
        for one in self._sizes:
            self._offsets.append(self._offsets[-1] + one)
        if self._offsets[-1] != size:
            raise self._wrong(f"it has {size} bytes, and its header states {self._offsets[-1]}")
        self._cipher = _cipher(self._key(key_id), salt) if flags & _AES else None

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset; nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and return the number of bytes: that of the buffer except at the end."""
        target = memoryview(buffer).cast("B")
        found = self.read_at(self._at, len(target))
        target[: len(found)] = found
        self._at += len(found)
        return len(found)

    def read_at(self, offset: int, size: int) -> bytes:
        """Read bytes from an offset on; fewer at the end.

        Raises:
            BinlogFormatError: a block is damaged.
        """
        end = min(offset + size, self.size)
        found = bytearray()
        while offset < end:
            number, inside = divmod(offset, self._block_size)
            part = self._block(number)[inside : inside + end - offset]
            found += part
            offset += len(part)
        return bytes(found)

    def close(self) -> None:
        """Close the kept file."""
        if not self.closed:
            self._stored.close()
        super().close()

    def _block(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            block = self._read_block(number)
            self._blocks[number] = block
            if len(self._blocks) > _CACHED:
                self._blocks.popitem(last=False)
        return bytes(block)

    def _read_block(self, number: int) -> bytes:
        size = self._sizes[number]
        self._stored.seek(self._offsets[number])
        stored = self._stored.read(size)
        if len(stored) < size:
            raise self._wrong(f"it ends inside block {number}")
        if self._cipher is not None:
            from cryptography.exceptions import InvalidTag

            try:
                block = self._cipher.decrypt(number.to_bytes(12, "little"), stored, self._begin)
            except InvalidTag:
                raise self._wrong(f"block {number} was changed") from None
        else:
            block, checksum = stored[:-_CRC], stored[-_CRC:]
            if zlib.crc32(block).to_bytes(_CRC, "little") != checksum:
                raise self._wrong(f"the checksum of block {number} is wrong")
        plain = min(self._block_size, self.size - number * self._block_size)
        if self._flags & _ZSTD:
            try:
                block = zstd_reader(block, plain).read(plain)
            except BinlogDecodeError as error:
                raise self._wrong(f"block {number}: {error}") from None
        if len(block) != plain:
            raise self._wrong(f"block {number} has {len(block)} bytes, not {plain}")
        return bytes(block)

    def _key(self, key_id: bytes) -> bytes:
        if key_id not in _keys:
            key_of_environment()
        if key_id not in _keys:
            other = "; the key that is given is another one" if _keys else ""
            raise ConfigError(
                f"{self.name} is encrypted with the key {key_id.hex()[:8]}{other}; give it (--key-file, "
                f"{KEY_VARIABLE} or {KEY_FILE_VARIABLE})"
            )
        return _keys[key_id]

    def _wrong(self, why: str) -> BinlogFormatError:
        return BinlogFormatError(f"{why}; restore it from a copy", file=self.name)


def _key_id(key: bytes) -> bytes:
    return hmac.digest(key, b"replica-client key id", "sha256")[:16]


def _cipher(key: bytes, salt: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(key, b"replica-client kept file" + salt, "sha256"))
