"""Encoding of lines as bytes, in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica_client.readers.transaction import Transaction
from replica_client.sinks.formats.line_format import LineFormat
from replica_client.sinks.formats.message import Message
from replica_client.sinks.formats.native import NativeFormat

_PIECE_SIZE = 256 << 10
"""Characters after which a piece is encoded."""


def encode_lines(
    line_format: LineFormat, transactions: Iterable[Transaction]
) -> Iterator[bytes | bytearray]:
    """Yield all lines in UTF-8 with line ends.

    A piece has many lines, or a part of a large line. Bytes that are not UTF-8 (in a name) are
    written as a JSON escape.
    """
    if isinstance(line_format, NativeFormat):
        yield from line_format.encoded(transactions)
        return
    for transaction in transactions:
        yield from _encoded(line_format.lines(transaction))


def encode_messages(messages: Iterable[Message]) -> Iterator[bytes]:
    """Yield the values of messages in UTF-8 with line ends; see :func:`encode_lines`."""
    yield from _encoded(message.value for message in messages)


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    waiting: list[str] = []
    size = 0
    for line in lines:
        if len(line) >= _PIECE_SIZE:
            yield from _pieces(waiting)
            size = 0
        waiting.append(line)
        size += len(line) + 1
        if size >= _PIECE_SIZE:
            del line  # free it before the next line is built
            yield from _pieces(waiting)
            size = 0
    yield from _pieces(waiting)


def _pieces(lines: list[str]) -> Iterator[bytes]:
    """Yield the lines as encoded pieces, and empty the list.

    A large line, which is alone in the list, is encoded part by part instead of being copied whole.
    """
    if not lines:
        return
    text = "\n".join(lines)
    lines.clear()
    if len(text) < 2 * _PIECE_SIZE:
        yield f"{text}\n".encode("utf-8", "backslashreplace")
        return
    for at in range(0, len(text), _PIECE_SIZE):
        yield text[at : at + _PIECE_SIZE].encode("utf-8", "backslashreplace")
    yield b"\n"
