"""Turns a buffer that ends early into the protocol error that it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replica_client.errors import MalformedPacketError, ShortBufferError


@contextmanager
def decoding(packet: str) -> Iterator[None]:
    """Around the decoding of a packet: short buffers become ``MalformedPacketError``.

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
    """Server text for people: UTF-8, with what is not shown as escapes."""
    return value.decode("utf-8", "backslashreplace")
