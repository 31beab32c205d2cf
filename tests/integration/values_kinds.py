"""What a random column type is, and how its variants are dealt out so that none is left out.

A column type is a `Kind`: its SQL, random literals for it, the expression whose text a SELECT
gives, and the text that the decoded value must have to be equal.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Literal = Callable[[random.Random], str]
Text = Callable[[Any], str]
_Card = TypeVar("_Card")


@dataclass(frozen=True)
class Kind:
    """A column type.

    `type` is what its rows are counted under; `select` has {} for the column; `text` gives what the
    server must answer, `expected` makes that of the server's text. `can_copy`: a generated column
    can be a copy of it. The others are what a definition from elsewhere knows.
    """

    type: str
    sql: str
    literal: Literal
    select: str
    text: Text
    expected: Callable[[str], str] = str
    unsigned: bool | None = None
    charset: str | None = None
    labels: tuple[str, ...] | None = None
    logical_type: str | None = None
    digits: int | None = None
    not_null: bool = False
    is_json: bool = False
    can_copy: bool = True


class Draws:
    """Random choices of a seed; variants come as from a shuffled deck: each before any again."""

    def __init__(self, seed: int, charsets: Iterable[str]) -> None:
        self.rng = random.Random(seed)
        self.charsets = tuple(charsets)
        self.rounds: dict[str, int] = {}
        self._decks: dict[str, list[Any]] = {}

    def card(self, deck: str, cards: Iterable[_Card]) -> _Card:
        """The next card of a deck; a new one is shuffled from `cards`."""
        left = self._decks.get(deck)
        if not left:
            left = self._decks[deck] = list(cards)
            self.rng.shuffle(left)
            self.rounds[deck] = self.rounds.get(deck, -1) + 1
        card: _Card = left.pop()
        return card

    def charset(self, deck: str, without: tuple[str, ...] = ("binary",)) -> str:
        """The next character set for a column type."""
        return self.card(f"{deck} by character set", [c for c in self.charsets if c not in without])

    def unfinished(self) -> list[str]:
        """Decks of which not every card was drawn yet."""
        return [name for name, count in self.rounds.items() if count < 1 and self._decks[name]]


Maker = Callable[[Draws], Kind]


def quoted(data: bytes, charset: str | None = None) -> str:
    """Bytes as an SQL literal."""
    if not data:
        return "''"
    return (f"_{charset} " if charset else "") + f"X'{data.hex()}'"


def quoted_name(name: str) -> str:
    """A name as an SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def hex_text(value: Any) -> str:
    """What HEX() gives."""
    return value.encode().hex().upper() if isinstance(value, str) else value.hex().upper()
