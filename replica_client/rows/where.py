"""Conditions on the columns of a row, as text: what ``changes --where`` takes.

::

    condition   = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = NOT negation | "(" condition ")" | test
    test        = column ( = | != | <> | < | <= | > | >= ) literal
                | column IS [ NOT ] NULL
                | column [ NOT ] IN "(" literal { "," literal } ")"
    column      = a name of letters, digits, _ and $, or any name in `backquotes` (`` for one inside)
    literal     = number | 'text' ('' for a quote inside) | TRUE | FALSE

Keywords may be in any letter case. NULL is no literal: nothing equals it; use ``IS NULL``.
:mod:`replica_client.rows.conditions` defines the meaning of the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from replica_client.errors import HIDDEN, ConfigError, secret_ranges
from replica_client.protocol.codec.quick_dataclass import dataclass

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
Value: TypeAlias = int | Decimal | str | bool | bytes
"""A literal."""

MAX_DEPTH: Final = 100
"""Maximum nesting of parentheses and NOTs."""
MAX_SIZE: Final = 1 << 16
"""Maximum characters of a condition."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column operator value``."""

    column: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class OneOf:
    """``column IN (…)``."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT part``."""

    part: Condition


@dataclass(frozen=True, slots=True)
class And:
    """Parts with ``AND`` between them."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Parts with ``OR`` between them."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | OneOf | IsNull | Not | And | Or

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?)(?![\w$.])
    | (?P<word>[^\W\d][\w$]*)
    | (?P<sign><=|>=|<>|!=|[=<>(),])
    )""",
    re.VERBOSE,
)
_KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "IS", "IN", "NULL", "TRUE", "FALSE"))
_OPERATORS: Final[dict[str, Operator]] = {
    "=": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse_where(text: str) -> Condition:
    """Parse the text of a condition.

    Raises:
        ConfigError: the text is no condition; the message has the character's number and what was
            expected.
    """
    if len(text) > MAX_SIZE:
        raise ConfigError(f"where: {len(text)} characters, more than {MAX_SIZE}")
    return _Parser(text).whole()


def columns_of(condition: Condition) -> Iterator[str]:
    """Yield the names of the columns in a condition."""
    if isinstance(condition, (And, Or)):
        for part in condition.parts:
            yield from columns_of(part)
    elif isinstance(condition, Not):
        yield from columns_of(condition.part)
    else:
        yield condition.column


def where_text(condition: Condition) -> str:
    """Return the text of a condition, which :func:`parse_where` converts back to it."""
    if isinstance(condition, Or):
        return " OR ".join(_inner(part, Or) for part in condition.parts)
    if isinstance(condition, And):
        return " AND ".join(_inner(part, Or, And) for part in condition.parts)
    if isinstance(condition, Not):
        return f"NOT {_inner(condition.part, Or, And)}"
    column = "`" + condition.column.replace("`", "``") + "`"
    if isinstance(condition, IsNull):
        return f"{column} IS NULL"
    if isinstance(condition, OneOf):
        return f"{column} IN ({', '.join(map(_literal_text, condition.values))})"
    return f"{column} {condition.operator} {_literal_text(condition.value)}"


def _inner(part: Condition, *looser: type) -> str:
    return f"({where_text(part)})" if isinstance(part, looser) else where_text(part)


def _literal_text(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Decimal):
        # Without point and exponent it would be parsed as an integer.
        text = str(value)
        return text if "." in text or "E" in text else f"{text}."
    return str(value)


class _Parser:
    """A parser of one condition, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        found = self._condition()
        if self._token().kind != "end":
            raise self._fault("AND, OR or the end")
        return found

    def _split(self) -> Iterator[_Token]:
        text, at = self._text, 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                start = at + len(text[at:]) - len(text[at:].lstrip())
                raise ConfigError(
                    f"where: character {start + 1}: cannot read {self._shown(start, start + 20)!r}"
                )
            kind = match.lastgroup
            word = match.group(kind)
            if kind == "word" and word.upper() in _KEYWORDS:
                kind, word = "keyword", word.upper()
            yield _Token(kind, word, match.start(match.lastgroup))
            at = match.end()
        yield _Token("end", "", len(text))

    def _shown(self, start: int, end: int) -> str:
        """Return a part of the text for an error, unless it overlaps a secret in a URL."""
        hidden = any(begin < end and stop > start for begin, stop in secret_ranges(self._text))
        return HIDDEN if hidden else self._text[start:end]

    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _takes(self, kind: str, *texts: str) -> bool:
        """Skip the next token if it is one of these; return whether it was."""
        token = self._token()
        if token.kind != kind or token.text not in texts:
            return False
        self._next += 1
        return True

    def _needs(self, kind: str, text: str) -> None:
        if not self._takes(kind, text):
            raise self._fault(text)

    def _fault(self, expected: str) -> ConfigError:
        token = self._token()
        end = token.at + len(token.text)
        found = repr(self._shown(token.at, end)) if token.text else "the end"
        return ConfigError(f"where: character {token.at + 1}: expected {expected}, found {found}")

    def _condition(self) -> Condition:
        parts = [self._conjunction()]
        while self._takes("keyword", "OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self) -> Condition:
        parts = [self._negation()]
        while self._takes("keyword", "AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Condition:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ConfigError(
                f"where: more than {MAX_DEPTH} parentheses and NOTs inside each other"
            )
        try:
            if self._takes("keyword", "NOT"):
                return Not(self._negation())
            if self._takes("sign", "("):
                found = self._condition()
                self._needs("sign", ")")
                return found
            return self._test()
        finally:
            self._depth -= 1

    def _test(self) -> Condition:
        column = self._column()
        if self._takes("keyword", "IS"):
            negated = self._takes("keyword", "NOT")
            self._needs("keyword", "NULL")
            return Not(IsNull(column)) if negated else IsNull(column)
        negated = self._takes("keyword", "NOT")
        if negated or self._token().text == "IN":
            self._needs("keyword", "IN")
            self._needs("sign", "(")
            values = [self._literal()]
            while self._takes("sign", ","):
                values.append(self._literal())
            self._needs("sign", ")")
            found = OneOf(column, tuple(values))
            return Not(found) if negated else found
        operator = _OPERATORS.get(self._token().text) if self._token().kind == "sign" else None
        if operator is None:
            raise self._fault("=, !=, <, <=, >, >=, IS or IN")
        self._next += 1
        return Comparison(column, operator, self._literal())

    def _column(self) -> str:
        token = self._token()
        if token.kind not in ("word", "quoted"):
            raise self._fault("a column's name")
        self._next += 1
        return token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")

    def _literal(self) -> Value:
        token = self._token()
        if token.kind == "keyword" and token.text in ("TRUE", "FALSE"):
            value: Value = token.text == "TRUE"
        elif token.kind == "text":
            value = token.text[1:-1].replace("''", "'")
        elif token.kind == "number":
            whole = token.text.lstrip("+-").isdigit()
            value = int(token.text) if whole and len(token.text) <= 100 else Decimal(token.text)
        else:
            raise self._fault("a number, a 'text', TRUE or FALSE (NULL: write IS NULL)")
        self._next += 1
        return value
