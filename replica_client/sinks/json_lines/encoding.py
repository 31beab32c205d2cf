"""Lines of transactions as bytes, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica_client.readers.transaction import Transaction
from replica_client.sinks.formats.line_format import LineFormat
from replica_client.sinks.formats.message import Message
from replica_client.sinks.formats.native import NativeFormat

_PIECE_SIZE = 256 << 10
"""Characters that are encoded together."""


def encode_lines(
    line_format: LineFormat, transactions: Iterable[Transaction]
) -> Iterator[bytes | bytearray]:
    """UTF-8 of all lines, each with a line end, in pieces of many lines or of a part of a large one.

    What is no character (a name with bytes that are not UTF-8) is written as a JSON escape.
    """
    if isinstance(line_format, NativeFormat):
        yield from line_format.encoded(transactions)
        return
    for transaction in transactions:
        yield from _encoded(line_format.lines(transaction))


def encode_messages(messages: Iterable[Message]) -> Iterator[bytes]:
    """The same of messages."""
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
            del line  # it is let go of before the next one is made
            yield from _pieces(waiting)
            size = 0
    yield from _pieces(waiting)


def _pieces(lines: list[str]) -> Iterator[bytes]:
    """Takes the lines from the list; a large one, which is alone, is not copied whole."""
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
