"""Savepoints of the transaction that is read: rows behind one wait until it is known that they stay.

MySQL and MariaDB leave out of the binlog what ROLLBACK TO SAVEPOINT took back, unless the transaction also
did what cannot be taken back (a temporary table was created or dropped; a table without transactions was
changed by a statement that is logged as text). Then the rows are there, and a ROLLBACK TO behind them. A
RELEASE SAVEPOINT is never logged, so a savepoint counts until its transaction ends.

* Rows of tables without transactions never stand in such a transaction: since MySQL 5.5 and MariaDB 5.5 they
  are logged as a transaction of their own. Before, they stand among the others, and no event tells them apart.
* A savepoint of the same name replaces the earlier one. Names are compared without case, in MySQL and before
  MariaDB 11.5 without accents too.
* A stored function or trigger has savepoints of its own, which end with it. The binlog does not mark them.
  Where it shows that one set a name (MySQL always, MariaDB when it is rolled back to there) and another one
  did, too, this name means nothing any more; else the later one counts, as for the source's own replicas.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias
from unicodedata import normalize

from replica_client.errors import DataLossError
from replica_client.position.position import Position
from replica_client.readers.row_spool import RowSpool, SpoolMark
from replica_client.readers.spool_storage import SpoolStorage
from replica_client.readers.statements import first_word
from replica_client.rows.change import RowsOfEvent
from replica_client.schema.ddl.context import StatementContext
from replica_client.schema.ddl.cursor import Cursor, NotUnderstoodError
from replica_client.schema.ddl.lexer import LexerError, tokenize

Action: TypeAlias = Literal["set", "rollback"]

_WORDS: Final = (b"SAVEPOINT", b"ROLLBACK")
_SEPARATE_SINCE: Final = (5, 5)
_UNESCAPED: Final = re.compile("ROLLBACK TO `(.*)`", re.DOTALL)


def controls_savepoint(query: bytes) -> bool:
    """Whether a statement inside a transaction sets a savepoint or rolls back to one."""
    return first_word(query) in _WORDS


def mixes_engines(context: StatementContext) -> bool:
    """Whether rows of tables without transactions may stand in a transaction of that server."""
    return (0, 0, 0) < context.version < _SEPARATE_SINCE


class _Savepoint(NamedTuple):
    name: str
    mark: SpoolMark
    event_index: int


class Savepoints:
    """The savepoints of one transaction after another, and its rows, which wait for its end.

    Args:
        storage: where rows wait; None: of its own.

    Attributes:
        rows: those of the transaction, without those that were taken back.
        in_statement: whether the last rows event is not the last of its statement.
    """

    def __init__(self, storage: SpoolStorage | None = None) -> None:
        self._storage = SpoolStorage() if storage is None else storage
        self.rows = RowSpool(self._storage)
        self.in_statement = False
        # Whether rows of such a statement came directly before: what follows is of a function then.
        self._is_inside = False
        self._stack: list[_Savepoint] = []
        # Names that were set again while they were there.
        self._reused: list[str] = []
        # Names that a stored function or trigger used.
        self._inner: list[str] = []

    def run(
        self,
        query: bytes,
        context: StatementContext,
        event_index: int,
        resume: Position | None = None,
    ) -> int | None:
        """Let a statement of the transaction set a savepoint, or roll back to one.

        Args:
            query: the statement.
            context: of its session.
            event_index: of its event.
            resume: where delivery goes on inside this transaction, if it does.

        Returns:
            for a ROLLBACK TO the event index of the savepoint: rows behind it were taken back. None for
            every other statement.

        Raises:
            DataLossError: which rows were taken back cannot be told; says why, without a position.
        """
        action, names = _read(query, context)
        is_inside, self._is_inside = self._is_inside, False
        if action == "set":
            self._set(names[0], event_index)
        elif action == "rollback":
            savepoint = self._roll_back(names, context, is_inside=is_inside)
            if resume is not None and savepoint < resume.event_index <= event_index:
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {names[0]!r} takes back rows that were delivered before {resume}"
                )
            return savepoint
        return None

    def see_rows(self, *, ends_statement: bool) -> None:
        """A rows event came, of whatever table."""
        self._is_inside = self.in_statement = not ends_statement

    def append(self, rows: RowsOfEvent) -> None:
        """Rows that may be taken back.

        Raises:
            SpoolError: they cannot be kept.
        """
        self.rows.append(rows)

    def hand_over(self) -> RowSpool:
        """The rows that were not taken back, which wait elsewhere from now on."""
        rows, self.rows = self.rows, RowSpool(self._storage)
        self._stack, self._reused, self._inner = [], [], []
        return rows

    def clear(self) -> None:
        """The transaction is over."""
        self.in_statement = self._is_inside = False
        if self._stack or len(self.rows):
            self._stack, self._reused, self._inner = [], [], []
            self.rows.close()

    def _set(self, name: str, event_index: int) -> None:
        if self.in_statement:
            self._inner.append(name)
        same = [one for one in self._stack if _is_same(one.name, name)]
        if same:
            self._reused.append(name)
            self._stack = [one for one in self._stack if one not in same]
        self._stack.append(_Savepoint(name, self.rows.mark(), event_index))

    def _roll_back(
        self, names: tuple[str, ...], context: StatementContext, *, is_inside: bool
    ) -> int:
        if self.in_statement:
            self._inner += names
        found = {at for name in names if (at := self._find(name)) is not None}
        if len(found) != 1:
            raise DataLossError(
                f"ROLLBACK TO SAVEPOINT {names[0]!r}, "
                + ("which may be either of two" if found else "which is not in what was read")
            )
        at = found.pop()
        name, mark, event_index = self._stack[at]
        known = (self._reused, self._inner)
        # In the midst of a function it is the function's own, which is the last one.
        if not is_inside and all(any(_is_same(one, name) for one in some) for some in known):
            raise DataLossError(
                f"ROLLBACK TO SAVEPOINT {name!r}, which was set more than once, also in a stored function or "
                "trigger: the binlog does not tell which of them is meant"
            )
        if mixes_engines(context) and self.rows.mark() != mark:
            raise DataLossError(
                f"ROLLBACK TO SAVEPOINT {name!r} in a binlog of server version "
                f"{'.'.join(map(str, context.version))}: rows behind the savepoint stay if their table has no "
                "transactions, and the binlog does not tell whether it has"
            )
        del self._stack[at + 1 :]
        self.rows.truncate(mark)
        return event_index

    def _find(self, name: str) -> int | None:
        """Index of the savepoint that has a name."""
        for at in reversed(range(len(self._stack))):
            known = self._stack[at].name
            same = _is_same(known, name)
            if same is None:
                raise DataLossError(
                    f"ROLLBACK TO SAVEPOINT {name!r}, and a savepoint {known!r}: whether these names are the "
                    "same depends on the source's collation"
                )
            if same:
                return at
        return None


def _read(query: bytes, context: StatementContext) -> tuple[Action | None, tuple[str, ...]]:
    """What a statement does to savepoints, and the name, which the source writes in UTF-8.

    MySQL 5.6 does not double the backticks of a name that it rolls back to: it has two readings then.
    """
    text = query.decode("utf-8", "surrogateescape")
    names = []
    if (match := _UNESCAPED.fullmatch(text)) is not None:
        names.append(match[1])
    try:
        cursor = Cursor(tokenize(text, context))
        if cursor.take("SAVEPOINT"):
            return "set", (cursor.name_as_written(),)
        cursor.expect("ROLLBACK")
        cursor.take("WORK")
        if not cursor.take("TO"):
            return None, ()
        cursor.take("SAVEPOINT")
        if (name := cursor.name_as_written()) not in names:
            names.append(name)
    except (LexerError, NotUnderstoodError) as error:
        if not names:
            raise DataLossError(f"a savepoint's statement cannot be read: {error}") from None
    return "rollback", tuple(names)


def _is_same(one: str, other: str) -> bool | None:
    """Whether two names are of one savepoint; None when that depends on the collation."""
    one, other = _folded(one), _folded(other)
    if one == other:
        return True
    # Collations of names compare character by character.
    pairs = zip(one, other, strict=False)
    if len(one) != len(other) or any(_letters(a).isdisjoint(_letters(b)) for a, b in pairs):
        return False
    return None


def _letters(sign: str) -> set[str]:
    """What a collation may take a character for: another case, without its accent, ``s`` for ``ß``."""
    found = {sign}
    if sign.isascii():
        return found | {sign.lower(), sign.upper()}
    for form in (sign, sign.casefold(), sign.upper(), sign.title(), normalize("NFKD", sign)):
        letter = normalize("NFD", form)[0]
        found |= {form[0], letter, letter.upper()[0], letter.lower()[0]}
        found |= {form[0].lower()[0], form[0].upper()[0]}
    return found


def _folded(name: str) -> str:
    """A name without the case of ASCII letters."""
    return "".join(sign.lower() if sign.isascii() else sign for sign in name)
