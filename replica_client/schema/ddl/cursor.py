"""Walks along the tokens of a statement."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from replica_client.schema.ddl.lexer import NAME, NUMBER, STRING, WORD, Token
from replica_client.schema.labels import is_text

_BEYOND_BMP: Final = re.compile("[\U00010000-\U0010ffff]")


class NotUnderstoodError(Exception):
    """A statement, or a part of it, is not understood; the text says where."""


_END: Final = Token("end", "", "", 0, 0)


class Cursor:
    """A place among tokens.

    Args:
        tokens: of the statement, or of a part of it.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> Token:
        """The token here; one of kind ``end`` behind the last."""
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def peek(self, ahead: int = 1) -> Token:
        """A token further on."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    @property
    def done(self) -> bool:
        """Whether all tokens are behind."""
        return self.at >= len(self.tokens)

    def step(self) -> Token:
        """The token here; goes on."""
        at = self.at
        self.at = at + 1
        return self.tokens[at] if at < len(self.tokens) else _END

    def take(self, *words: str) -> bool:
        """Go on behind these words or operators, when all of them are next."""
        for ahead, word in enumerate(words):
            if self.peek(ahead).upper != word:
                return False
        self.at += len(words)
        return True

    def take_one(self, *words: str) -> str:
        """Go on behind the one of these words that is next; ``""`` when none is."""
        upper = self.token.upper
        if upper and upper in words:
            self.at += 1
            return upper
        return ""

    def expect(self, *words: str) -> None:
        """Go on behind these words.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if not self.take(*words):
            self.refuse(" ".join(words))

    def refuse(self, wanted: str) -> None:
        """Say what is not understood here.

        Raises:
            NotUnderstoodError: always.
        """
        found = " ".join(token.text for token in self.tokens[self.at : self.at + 4])
        raise NotUnderstoodError(f"{wanted} expected at {found[:60]!r}")

    @property
    def at_name(self) -> bool:
        """Whether a name can be here."""
        return self.token.kind in (WORD, NAME)

    def name(self) -> str:
        """A name, as the servers keep it.

        Raises:
            NotUnderstoodError: something else is next, or bytes in it are no text.
        """
        return _kept_name(self.name_as_written())

    def name_as_written(self) -> str:
        """A name; lone surrogates in it stand for bytes that are no text.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if not self.at_name:
            self.refuse("a name")
        return self.step().text

    def table_name(self, database: str) -> tuple[str, str]:
        """A table's name with its database, which is the default one when it is not said.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if self.token.upper == ".":
            self.step()
            return database, self._behind_dot()
        first = self.name()
        if self.token.upper == ".":
            self.step()
            return first, self._behind_dot()
        if self.token.kind == NUMBER and self.token.text.startswith("."):
            # db.1table is read as db and .1
            return first, self._behind_dot()
        return database, first

    def _behind_dot(self) -> str:
        if self.token.kind == NUMBER:
            first = self.step()
            text = first.text.removeprefix(".")
            if self.token.kind in (WORD, NUMBER) and self.token.start == first.end:
                text += self.step().text
            return text
        return self.name()

    def string(self) -> str:
        """A string.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if self.token.kind != STRING:
            self.refuse("a string")
        return self.step().text

    def integer(self) -> int:
        """A number without fraction.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if self.token.kind != NUMBER or not self.token.text.isascii():
            self.refuse("a number")
        try:
            return int(self.token.text)
        except ValueError:
            raise NotUnderstoodError(f"{self.token.text[:20]!r} is no whole number") from None
        finally:
            self.at += 1

    def brackets(self) -> list[Token]:
        """The tokens between the bracket here and the one that closes it; goes on behind it.

        Raises:
            NotUnderstoodError: no bracket is here, or none closes it.
        """
        self.expect("(")
        tokens, start, depth = self.tokens, self.at, 1
        for at in range(start, len(tokens)):
            upper = tokens[at].upper
            if upper == "(":
                depth += 1
            elif upper == ")":
                depth -= 1
                if not depth:
                    self.at = at + 1
                    return list(tokens[start:at])
        self.at = len(tokens)
        raise NotUnderstoodError("a bracket is not closed")

    def skip_brackets(self) -> bool:
        """Go on behind a pair of brackets, when one opens here."""
        if self.token.upper != "(":
            return False
        self.brackets()
        return True

    def rest(self) -> list[Token]:
        """All tokens from here on."""
        return list(self.tokens[self.at :])


def _kept_name(text: str) -> str:
    """A name as the servers keep it, in utf8mb3.

    MySQL puts ``?`` for a character outside of the BMP; MariaDB refuses it.
    """
    if text.isascii():
        return text
    if not is_text(text):
        raise NotUnderstoodError("a name with bytes that are no text")
    return _BEYOND_BMP.sub("?", text)


def split_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """The parts between the commas that are in no brackets; none for no tokens."""
    if not tokens:
        return []
    parts: list[list[Token]] = [[]]
    depth = 0
    part = parts[0]
    for token in tokens:
        upper = token.upper
        if upper == "," and not depth:
            part = []
            parts.append(part)
            continue
        if upper == "(":
            depth += 1
        elif upper == ")":
            depth -= 1
        part.append(token)
    return parts
