"""Compression formats, and a cache bounded in bytes.

No function returns more bytes than its limit, whatever size the input claims. The limit is the
option ``max_uncompressed_size`` (:class:`~replica_client.protocol.binlog.event.DecodeOptions`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Protocol, TypeVar

from replica_client.errors import BinlogDecodeError, ConfigError, EncodeError, LimitExceededError

_ZLIB_RECORD = 0x80
_MAX_ZSTD_WINDOW = 1 << 27


class ByteSource(Protocol):
    """A byte stream: a decompressor, or bytes that were never compressed."""

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end."""
        ...


def inflate(data: bytes, limit: int, expected_size: int | None = None) -> bytes:
    """Decompress one zlib stream.

    Args:
        data: the whole stream.
        limit: the most bytes that the result may have.
        expected_size: the size that the result must have, if known.

    Raises:
        LimitExceededError: the result would be larger than ``limit``.
        BinlogDecodeError: the stream is incomplete or broken, or the result has another
            size.
    """
    if expected_size is not None and expected_size > limit:
        raise _limit_exceeded(limit)
    allowed = limit if expected_size is None else expected_size
    engine = zlib.decompressobj()
    try:
        result = engine.decompress(data, allowed + 1)
    except zlib.error as error:
        raise BinlogDecodeError(f"broken zlib data: {error}") from None
    if len(result) > allowed:
        if expected_size is None:
            raise _limit_exceeded(limit)
        raise BinlogDecodeError(f"zlib data is longer than the {expected_size} bytes announced")
    if not engine.eof:
        raise BinlogDecodeError("zlib data ends early")
    if expected_size is not None and len(result) != expected_size:
        raise BinlogDecodeError(f"zlib data gives {len(result)} bytes, not {expected_size}")
    return result


def inflate_record(record: bytes, limit: int) -> bytes:
    """Decompress a record of a MariaDB compressed event.

    Bytes::

        offset  size  field      meaning
        0       1     head       0x80 | algorithm << 4 | n; algorithm 0 is zlib
        1       n     size       uncompressed size, big-endian, n = 1 to 4
        1 + n   rest  data       the zlib stream

    Raises:
        LimitExceededError: the record announces or has more than ``limit`` bytes.
        BinlogDecodeError: broken record.

    Spec: MariaDB ``binlog_buf_uncompress`` (log_event.cc).
    """
    if not record:
        raise BinlogDecodeError("compressed record is empty")
    head = record[0]
    size_bytes = head & 0x07
    if not head & _ZLIB_RECORD or (head & 0x70) >> 4 != 0:
        raise BinlogDecodeError(f"unknown compression, record begins with 0x{head:02x}")
    if not 1 <= size_bytes <= 4 or len(record) < 1 + size_bytes:
        raise BinlogDecodeError(f"compressed record has a length field of {size_bytes} bytes")
    size = int.from_bytes(record[1 : 1 + size_bytes], "big")
    return inflate(record[1 + size_bytes :], limit, size)


def deflate_record(data: bytes, level: int = 6) -> bytes:
    """Make a MariaDB compressed record, the inverse of :func:`inflate_record`."""
    size_bytes = max(1, (len(data).bit_length() + 7) // 8)
    if size_bytes > 4:
        raise EncodeError("a compressed record holds at most 4 GiB")
    head = bytes((_ZLIB_RECORD | size_bytes,))
    return head + len(data).to_bytes(size_bytes, "big") + zlib.compress(data, level)


class BoundedReader:
    """A reader of a :class:`ByteSource` that reads at most ``limit`` bytes."""

    __slots__ = ("_failure", "_limit", "_read", "_source")

    def __init__(
        self, source: ByteSource, limit: int, failure: type[Exception] | None = None
    ) -> None:
        self._source = source
        self._limit = limit
        self._failure: tuple[type[Exception], ...] = () if failure is None else (failure,)
        self._read = 0

    @property
    def offset(self) -> int:
        """Bytes read so far."""
        return self._read

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end.

        Raises:
            LimitExceededError: the source has more bytes than the limit.
            BinlogDecodeError: the compressed bytes are broken.
        """
        allowed = self._limit - self._read
        try:
            chunk = self._source.read(min(size, allowed + 1))
        except self._failure as error:
            raise BinlogDecodeError(f"broken compressed data: {error}") from None
        if len(chunk) > allowed:
            raise _limit_exceeded(self._limit)
        self._read += len(chunk)
        return chunk


def zstd_reader(data: bytes, limit: int) -> BoundedReader:
    """Return a reader that decompresses zstd frames while it is read.

    Raises:
        ConfigError: the package ``zstandard`` is not installed.
    """
    zstandard = _zstandard()
    engine = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
    source: ByteSource = engine.stream_reader(data, read_across_frames=True)
    failure: type[Exception] = zstandard.ZstdError
    return BoundedReader(source, limit, failure)


def zstd_compress(data: bytes, level: int = 3) -> bytes:
    """Compress bytes into one zstd frame.

    Raises:
        ConfigError: the package ``zstandard`` is not installed.
    """
    compress: Callable[[bytes], bytes] = _zstandard().ZstdCompressor(level=level).compress
    return compress(data)


def _limit_exceeded(limit: int) -> LimitExceededError:
    return LimitExceededError(
        f"decompresses to more than {limit} bytes; the option max_uncompressed_size sets this limit"
    )


def _zstandard() -> ModuleType:
    try:
        import zstandard
    except ImportError:
        raise ConfigError("zstd data needs the package zstandard: pip install zstandard") from None
    return zstandard


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

SMALL = 16 << 10


class SizedCache(dict[_Key, _Value]):
    """A dict that is filled by :meth:`put` and empties itself when it is full.

    Args:
        most: the most entries.
        most_bytes: the most bytes that all large entries were decoded from. One larger
            entry is kept until the next large one comes.
        small: the most bytes of an entry that is not large.
    """

    def __init__(self, most: int, most_bytes: int = 4 << 20, small: int = SMALL) -> None:
        super().__init__()
        self._most = most
        self._small = small
        self._most_bytes = most_bytes
        self._bytes = 0

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Add a value that was decoded from ``size`` bytes."""
        if key not in self:
            if size <= self._small:
                size = 0
            if len(self) >= self._most or (size and self._bytes + size > self._most_bytes):
                self.clear()
            self._bytes += size
        self[key] = value

    def clear(self) -> None:
        """Remove all entries."""
        super().clear()
        self._bytes = 0
