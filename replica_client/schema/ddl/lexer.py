"""A lexer for SQL, good enough to find names, types and clauses, and a cursor over its tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from replica_client.schema.ddl.statement_context import StatementContext

WORD, NAME, STRING, NUMBER, OPERATOR = "word", "name", "string", "number", "operator"

# Letters, _, $ and all beyond ASCII, negated: Python compiles a class up to U+10FFFF in 2 ms.
_LETTER: Final = r"[^\x00-#%-@\[-^`{-\x7f]"
_LETTER_OR_DIGIT: Final = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
_SPACE = re.compile(r"[\s\x00]+")
_LINE_COMMENT = re.compile(r"(?:#|--(?=[\s\x00]|$))[^\n]*")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_EXECUTABLE = re.compile(r"/\*(M?)!([0-9]{5,6})?")
_WORD = re.compile(f"[0-9]*{_LETTER}{_LETTER_OR_DIGIT}*")
_NUMBER = re.compile(
    rf"(?:0[xX][0-9A-Fa-f]+|0b[01]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?!{_LETTER_OR_DIGIT})"
)
# The common tokens, matched fast: words, names in backquotes, strings without escapes and
# doubled quotes, and operators that begin nothing else.
_PLAIN = re.compile(
    rf"[\s\x00]*(?:({_LETTER}{_LETTER_OR_DIGIT}*+)(?!')"
    r"|`([^`]*+)`(?!`)|'([^'\\]*+)'(?!')|([(),=;]))"
)
_UNQUOTED: Final = {quote: re.compile(f"[^{quote}\\\\]+") for quote in "`'\""}
_KEPT: Final = 1 << 16
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
# MariaDB ignores executable comments for MySQL 5.7 and newer.
_NOT_FOR_MARIADB = range(50700, 100000)


class LexerError(ValueError):
    """An error: a string, name or comment is not closed."""


class Token(NamedTuple):
    """A token.

    Attributes:
        kind: WORD (a keyword or plain name), NAME (a quoted one), STRING, NUMBER or OPERATOR.
        text: the value, without quotes and escapes.
        upper: a word in upper case, an operator itself, ``""`` for the others.
        start: offset of its first character in the statement.
        end: offset after its last character.
    """

    kind: str
    text: str
    upper: str
    start: int
    end: int


def tokenize(text: str, context: StatementContext) -> list[Token]:
    """Return the tokens of a statement.

    Comments are left out, but executable comments (``/*! … */``) are read where the server runs
    them.

    Raises:
        LexerError: a string, quoted name or comment is not closed.
    """
    # Callers tokenize the same statement several times.
    return list((_kept_tokens if len(text) <= _KEPT else _tokens)(text, context))


def _tokens(text: str, context: StatementContext) -> list[Token]:
    tokens: list[Token] = []
    at, size, depth = 0, len(text), 0
    adjacent = False
    while at < size:
        while (plain := _PLAIN.match(text, at)) is not None:
            at = plain.end()
            word, name, string, operator = plain.groups()
            if word is not None:
                tokens.append(Token(WORD, word, word.upper(), at - len(word), at))
            elif name is not None:
                tokens.append(Token(NAME, name, "", at - len(name) - 2, at))
            elif string is not None:
                adjacent |= bool(tokens) and tokens[-1].kind is STRING
                tokens.append(Token(STRING, string, "", at - len(string) - 2, at))
            else:
                tokens.append(Token(OPERATOR, operator, operator, at - 1, at))
        if at == size:
            break
        match = _SPACE.match(text, at) or _LINE_COMMENT.match(text, at)
        if match is not None:
            at = match.end()
            continue
        char = text[at]
        if text.startswith("/*", at):
            executable = _EXECUTABLE.match(text, at)
            if executable is not None and _runs(executable, context):
                depth += 1
                at = executable.end()
            else:
                at = _comment_end(text, at)
            continue
        if depth and text.startswith("*/", at):
            depth -= 1
            at += 2
            continue
        token = _token(text, at, char, context)
        adjacent |= token.kind is STRING and bool(tokens) and tokens[-1].kind is STRING
        tokens.append(token)
        at = token.end
    return _joined(tokens) if adjacent else tokens


def _joined(tokens: list[Token]) -> list[Token]:
    """Return the tokens with adjacent strings joined."""
    found: list[Token] = []
    for is_string, run in groupby(tokens, lambda token: token.kind is STRING):
        several = list(run)
        if is_string and len(several) > 1:
            text = "".join(token.text for token in several)
            several = [Token(STRING, text, "", several[0].start, several[-1].end)]
        found += several
    return found


_kept_tokens = lru_cache(maxsize=4)(_tokens)


def _token(text: str, at: int, char: str, context: StatementContext) -> Token:
    if char == "`" or (char == '"' and context.ansi_quotes):
        value, end = _quoted(text, at, char, escapes=False)
        return Token(NAME, value, "", at, end)
    if char in "'\"":
        value, end = _quoted(text, at, char, escapes=context.backslash_escapes)
        return Token(STRING, value, "", at, end)
    if char in "xXbBnN" and text[at + 1 : at + 2] == "'":
        value, end = _quoted(text, at + 1, "'", escapes=context.backslash_escapes)
        if char in "nN":
            return Token(STRING, value, "", at, end)
        return Token(NUMBER, text[at:end], "", at, end)
    match = _NUMBER.match(text, at)
    if match is not None:
        return Token(NUMBER, match[0], "", at, match.end())
    match = _WORD.match(text, at)
    if match is not None:
        return Token(WORD, match[0], match[0].upper(), at, match.end())
    return Token(OPERATOR, char, char, at, at + 1)


def _quoted(text: str, at: int, quote: str, *, escapes: bool) -> tuple[str, int]:
    pieces: list[str] = []
    start = at = at + 1
    size = len(text)
    while at < size:
        char = text[at]
        if char == quote:
            pieces.append(text[start:at])
            if text[at + 1 : at + 2] != quote:
                return "".join(pieces), at + 1
            pieces.append(quote)
            at += 2
            start = at
        elif char == "\\" and escapes and at + 1 < size:
            pieces.append(text[start:at])
            escaped = text[at + 1]
            # \% and \_ keep their backslash outside of patterns.
            pieces.append("\\" + escaped if escaped in "%_" else _ESCAPES.get(escaped, escaped))
            at += 2
            start = at
        else:
            # A backslash that escapes nothing, or a run of plain characters.
            plain = _UNQUOTED[quote].match(text, at + 1)
            at = plain.end() if plain is not None else at + 1
    raise LexerError(f"no {quote} closes the one at {start - 1}")


def _runs(match: re.Match[str], context: StatementContext) -> bool:
    """Return whether the server runs the content of an executable comment."""
    if match[1] and not context.is_mariadb:
        return False
    if match[2] is None or context.version == (0, 0, 0):
        return True
    wanted = int(match[2])
    if context.is_mariadb and not match[1] and wanted in _NOT_FOR_MARIADB:
        return False
    major, minor, patch = context.version
    return wanted <= major * 10000 + minor * 100 + patch


def _comment_end(text: str, at: int) -> int:
    """Return the end of a skipped comment; only executable comments can nest others."""
    nested = text[at + 2 : at + 3] == "!" or text.startswith("/*M!", at)
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, at + 2):
        if mark[0] == "*/":
            depth -= 1
        elif nested:
            depth += 1
        if not depth:
            return mark.end()
    raise LexerError("a comment is not closed")


_BEYOND_BMP: Final = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class NotUnderstoodError(Exception):
    """An error: a statement or a part of it is not understood; the message says where."""


_BYTES: Final = re.compile(
    r"0x(?P<hex>[0-9a-f]+)|x'(?P<quoted_hex>(?:[0-9a-f]{2})*)'|0b(?P<bits>[01]+)|b'(?P<quoted_bits>[01]*)'",
    re.IGNORECASE,
)


def literal_bytes(text: str) -> bytes | None:
    """Return the bytes of ``0x…``, ``x'…'``, ``0b…`` or ``b'…'``; None for other texts."""
    found = _BYTES.fullmatch(text)
    if found is None:
        return None
    digits = found["hex"] or found["quoted_hex"]
    if digits is not None:
        return bytes.fromhex(digits.rjust(len(digits) + len(digits) % 2, "0"))
    bits = found["bits"] or found["quoted_bits"] or ""
    return int(bits or "0", 2).to_bytes((len(bits) + 7) // 8)


_END: Final = Token("end", "", "", 0, 0)


class Cursor:
    """A position among tokens.

    Args:
        tokens: of the statement, or of a part of it.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> Token:
        """The next token; one of kind ``end`` after the last."""
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def peek(self, ahead: int = 1) -> Token:
        """Return a later token without moving."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    @property
    def done(self) -> bool:
        """Whether all tokens are read."""
        return self.at >= len(self.tokens)

    def step(self) -> Token:
        """Read the next token."""
        at = self.at
        self.at = at + 1
        return self.tokens[at] if at < len(self.tokens) else _END

    def take(self, *words: str) -> bool:
        """Skip these words or operators if all of them come next; return whether they do."""
        for ahead, word in enumerate(words):
            if self.peek(ahead).upper != word:
                return False
        self.at += len(words)
        return True

    def take_one(self, *words: str) -> str:
        """Skip one of these words if one comes next, and return it; otherwise return ``""``."""
        upper = self.token.upper
        if upper and upper in words:
            self.at += 1
            return upper
        return ""

    def expect(self, *words: str) -> None:
        """Skip these words.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if not self.take(*words):
            self.refuse(" ".join(words))

    def refuse(self, wanted: str) -> None:
        """Raise an error that says what was expected here.

        Raises:
            NotUnderstoodError: always.
        """
        found = " ".join(token.text for token in self.tokens[self.at : self.at + 4])
        raise NotUnderstoodError(f"{wanted} expected at {found[:60]!r}")

    @property
    def at_name(self) -> bool:
        """Whether the next token can be a name."""
        return self.token.kind in (WORD, NAME)

    def name(self) -> str:
        """Read a name, in the form that the servers keep.

        Raises:
            NotUnderstoodError: something else is next, or the name has bytes that are no text.
        """
        return _kept_name(self.name_as_written())

    def name_as_written(self) -> str:
        """Read a name; lone surrogates in it stand for invalid bytes.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if not self.at_name:
            self.refuse("a name")
        return self.step().text

    def table_name(self, database: str) -> tuple[str, str]:
        """Read a table's name; return it with its database, by default `database`.

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
        """Read a string.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if self.token.kind != STRING:
            self.refuse("a string")
        return self.step().text

    def integer(self) -> int:
        """Read an integer.

        Raises:
            NotUnderstoodError: something else is next.
        """
        if self.token.kind != NUMBER or not self.token.text.isascii():
            self.refuse("a number")
        try:
            return int(self.token.text)
        except ValueError:
            raise NotUnderstoodError(f"{self.token.text[:20]!r} is not a whole number") from None
        finally:
            self.at += 1

    def brackets(self) -> list[Token]:
        """Read a pair of brackets; return the tokens between them.

        Raises:
            NotUnderstoodError: no bracket is next, or it is not closed.
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
        """Skip a pair of brackets if one opens here; return whether it does."""
        if self.token.upper != "(":
            return False
        self.brackets()
        return True

    def rest(self) -> list[Token]:
        """Return all tokens that are not read yet."""
        return list(self.tokens[self.at :])


def _kept_name(text: str) -> str:
    """Return a name in the form that the servers keep, in utf8mb3.

    MySQL replaces a character outside the BMP by ``?``; MariaDB refuses the name.
    """
    if text.isascii():
        return text
    if _SURROGATE.search(text):
        raise NotUnderstoodError("a name with bytes that are not text")
    return _BEYOND_BMP.sub("?", text)


def split_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split tokens at the commas outside brackets; return no parts for no tokens."""
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
