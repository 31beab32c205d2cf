"""Lines of transactions as bytes, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica_client.readers.transaction import Transaction
from replica_client.sinks.formats.line_format import LineFormat
from replica_client.sinks.formats.message import Message
from replica_client.sinks.formats.native import NativeFormat

_PIECE_LINES = 1024


def encode_lines(
    line_format: LineFormat, transactions: Iterable[Transaction]
) -> Iterator[bytes | bytearray]:
    """UTF-8 of all lines, each with a line end, in pieces of many lines.

    What is no character (a name with bytes that are not UTF-8) is written as a JSON escape.
    """
    if isinstance(line_format, NativeFormat):
        yield from line_format.encoded(transactions)
        return
    lines: list[str] = []
    for transaction in transactions:
        for line in line_format.lines(transaction):
            lines.append(line)
            if len(lines) >= _PIECE_LINES:
                yield _encode(lines)
                lines.clear()
    if lines:
        yield _encode(lines)


def encode_messages(messages: Iterable[Message]) -> Iterator[bytes]:
    """The same of messages."""
    lines: list[str] = []
    for message in messages:
        lines.append(message.value)
        if len(lines) >= _PIECE_LINES:
            yield _encode(lines)
            lines.clear()
    if lines:
        yield _encode(lines)


def _encode(lines: list[str]) -> bytes:
    lines.append("")
    return "\n".join(lines).encode("utf-8", "backslashreplace")
