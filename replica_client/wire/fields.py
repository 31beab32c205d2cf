"""Helpers for the fields of packets: errors of short buffers, and texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replica_client.errors import MalformedPacketError, ShortBufferError


@contextmanager
def decoding(packet: str) -> Iterator[None]:
    """Raise ``MalformedPacketError`` for short buffers and for texts that are not UTF-8.

    Args:
        packet: what is being decoded, for the message.
    """
    try:
        yield
    except ShortBufferError as error:
        raise MalformedPacketError(f"{packet} packet: {error}") from None
    except UnicodeDecodeError as error:
        raise MalformedPacketError(f"{packet} packet: text is not UTF-8 ({error.reason})") from None


def text(value: bytes) -> str:
    """Decode server text for people: UTF-8, with escapes for other bytes."""
    return value.decode("utf-8", "backslashreplace")
