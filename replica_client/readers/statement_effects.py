"""Effects of statements logged as text on the rows that are delivered."""

from __future__ import annotations

import re

_COMMENT = re.compile(rb"/\*(?!!|M!).*?\*/|--[^\n]*\n|#[^\n]*\n|\s+|/\*M?!\d*|\(", re.DOTALL)
_WORD = re.compile(rb"[A-Za-z]+")

# The binlog has a SELECT only for a function that changes rows.
_DML = frozenset(
    (
        *(b"INSERT", b"UPDATE", b"DELETE", b"REPLACE", b"LOAD", b"WITH", b"CALL", b"DO"),
        b"SELECT",
    )
)
# CREATE … SELECT fills its table; MariaDB allows SET STATEMENT … FOR and ANALYZE before statements.
_PERHAPS_DML = _DML | {b"CREATE", b"SET", b"ANALYZE"}
_CONTROL = frozenset(
    (b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"XA", b"RELEASE", b"START", b"SET")
)


def first_word(query: bytes) -> bytes:
    """Return the first word of a statement in upper case, after comments and brackets."""
    word = _WORD.match(query)
    if word is None:
        at = 0
        while (match := _COMMENT.match(query, at)) is not None:
            at = match.end()
        word = _WORD.match(query, at)
    return b"" if word is None else word[0].upper()


def changes_rows(query: bytes) -> bool:
    """Return whether a statement changes rows: DML that was logged as text (statement format)."""
    return first_word(query) in _DML


def may_change_rows(query: bytes) -> bool:
    """Return whether a statement's text must be read to know whose rows it changes."""
    return first_word(query) in _PERHAPS_DML


def controls_transaction(query: bytes) -> bool:
    """Return whether a statement only begins, ends or marks a transaction."""
    return first_word(query) in _CONTROL
