"""Lines become bytes in pieces of a bounded size, whatever their lengths."""

from __future__ import annotations

from hypothesis import given, strategies as st

from replica_client.sinks.formats.message import Message
from replica_client.sinks.line_sinks import encode_messages

_PIECE = 256 << 10
_LENGTHS = st.one_of(
    st.integers(0, 40), st.sampled_from([_PIECE - 1, _PIECE, _PIECE + 1, 2 * _PIECE, 5 * _PIECE])
)


@given(st.lists(st.tuples(_LENGTHS, st.sampled_from(["x", "ü", "€", "😀", "\udc80"])), max_size=12))
def test_pieces_together_are_the_lines(lines: list[tuple[int, str]]) -> None:
    texts = [character * length for length, character in lines]
    pieces = list(encode_messages(Message("row", "d", "t", None, text) for text in texts))
    whole = "".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace")
    assert b"".join(pieces) == whole
    assert all(pieces)
    # A lone surrogate becomes six bytes; a piece is less than two of that many characters.
    assert max(map(len, pieces), default=0) < 12 * _PIECE


def test_many_small_lines_come_together() -> None:
    pieces = list(encode_messages(Message("row", "d", "t", None, "x" * 99) for _ in range(10_000)))
    assert len(pieces) == 4
